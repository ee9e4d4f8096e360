"""`/memory` in the chat, and what is told of a statement."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hobus.bus.messages import memory as m
from hobus.bus.messages.session import Remembered
from hobus.launch.cli.chat import slash
from hobus.launch.cli.chat.slash import run_slash
from hobus.launch.cli.chat.talk import Talk
from hobus.launch.cli.outcome import describe_remembered
from hobus.launch.console.errors import CommandError
from tests.actors.ho3_memory.builders import artifact

NAME = artifact().artifact_id
AS_OF = m.AsOf(as_of_ts="2026-01-31T00:00:00.000000Z", as_of_seq=7, from_clock=True)


def overlay(state: Any, **changed: Any) -> m.Overlay:
    return m.Overlay(overlay_id="OVL-1", artifact=artifact(**changed), state=state, is_active=state == "active")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("active", ("from the next turn on", f"/memory off {NAME}", f"memory deactivate {NAME}")),
        ("pending", ("waits for you", f"/memory confirm {NAME}", f"memory confirm {NAME}")),
        ("refused", ("not remembered", "memory review")),
        ("unanswered", ("not known yet", "memory overlays")),
    ],
)
def test_what_was_stated_is_told_with_the_way_back(state: Any, says: tuple[str, ...]) -> None:
    """Its words, what became of them, how to undo it; nothing of it moves a terminal."""
    said, _ = describe_remembered(Remembered(statement="Answer \x1b[31mbriefly.", artifact_id=NAME, state=state))
    assert all(one in said for one in says) and "\x1b" not in said


class Asked:
    def __init__(self, *overlays: m.Overlay, memory: object = True) -> None:
        self.overlays = list(overlays)
        self.asked: list[Any] = []
        self.page = 100
        config = SimpleNamespace(
            memory=memory, host=SimpleNamespace(agent_id="ADMIN"), launcher=SimpleNamespace(client_timeout_ms=1000)
        )
        self.where = SimpleNamespace(snapshot=SimpleNamespace(config=config))
        self.current_session: str | None = None

    def place(self) -> Any:
        return self.where

    async def request(self, _service: str, message: Any, **_: Any) -> Any:
        self.asked.append(message)
        if isinstance(message, m.ReadOverlays):
            page = self.overlays[message.after + 1 : message.after + 1 + self.page]
            end = message.after + self.page
            return m.Overlays(overlays=page, next=end if end + 1 < len(self.overlays) else None, as_of=AS_OF)
        return m.OverlayChanged(overlay=self.overlays[0])


def lines(line: str, talk: Asked, monkeypatch: pytest.MonkeyPatch) -> str:
    @asynccontextmanager
    async def connected(_place: object, role: str):
        assert role == "operator"
        yield talk

    monkeypatch.setattr(slash, "connect_bus", connected)
    return "\n".join(text for text, _ in asyncio.run(run_slash(line, cast("Talk", talk))))


def test_memory_lists_what_is_remembered_and_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this machine's clients alone; what is off or superseded is not in the way."""
    talk = Asked(overlay("active"), overlay("pending", context_line="A rule."), overlay("off", context_line="Gone."))
    said = lines("/memory", talk, monkeypatch)
    assert f"{NAME}  active  The user lists" in said and "pending  A rule." in said and "Gone." not in said
    assert talk.asked[0].principal == "local" and "/memory off" in said
    assert "nothing is remembered" in lines("/memory", Asked(), monkeypatch)
    assert "memory is off" in lines("/memory", Asked(memory=None), monkeypatch)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("off", m.DeactivateOverlay), ("reject", m.DeactivateOverlay), ("on", m.ActivateOverlay),
        ("confirm", m.ConfirmOverlay),
    ],
)  # fmt: skip
def test_memory_changes_what_is_remembered(monkeypatch: pytest.MonkeyPatch, word: str, message: type) -> None:
    """With a reason that says where from; the answer is how it stands now."""
    talk = Asked(overlay("active"))
    assert f"{NAME}  active" in lines(f"/memory {word} {NAME}", talk, monkeypatch)
    [change] = talk.asked
    assert type(change) is message and (change.artifact_id, change.agent_id) == (NAME, "ADMIN")
    assert "in the chat" in change.reason


def test_a_change_of_somebody_elses_line_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has this machine may change any line, and should know when it is not the own."""
    assert "(of" not in lines(f"/memory off {NAME}", Asked(overlay("off")), monkeypatch)
    said = lines(f"/memory off {NAME}", Asked(overlay("off", principal="key/bob")), monkeypatch)
    assert said.endswith("(of key/bob)")


@pytest.mark.parametrize("name", ["ART-…", "ART-", "OVL-1", "ART-" + "1" * 90, "ART-\ud800"])
def test_what_can_be_no_artifact_is_told_with_the_form(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Typed as the form prints it, for instance; nothing is asked."""
    with pytest.raises(CommandError, match="is no artifact: expected ART-…") as caught:
        lines(f"/memory off {name}", Asked(), monkeypatch)
    assert "/memory off" in (caught.value.hint or "")


@pytest.mark.parametrize("line", ["/memory off", "/memory what ART-1", "/memory off ART-1 ART-2"])
def test_what_is_no_change_of_memory_is_told_with_the_form(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    with pytest.raises(CommandError, match="expected a change") as caught:
        lines(line, Asked(), monkeypatch)
    assert "ART-" in (caught.value.hint or "")
