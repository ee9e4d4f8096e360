"""What begins with a slash."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.gateway import Budget, ScopeBudget
from hobus.bus.messages.session import ConflictView, IntentView, ProcessTurn, SessionView
from hobus.launch.cli.chat.run_commands import NAMES as RUN_NAMES
from hobus.launch.cli.chat.run_commands import RUN_COMMANDS, is_command
from hobus.launch.cli.chat.slash import NAMES, is_whole_command, run_slash
from hobus.launch.cli.chat.talk import Talk
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import make_home

SESSION = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"


class Told:
    """A conversation whose cluster says what a test wants."""

    def __init__(self, session_id: str | None = SESSION, **row: Any) -> None:
        self.session_id = self.current_session = session_id
        self.unfetched = ProcessTurn(input_id="in-7", text="x")
        self._row = row
        intent_id, at = f"INT-{SESSION}-002", "2026-01-01T00:00:00.000000Z"
        self.intents: dict[str, Any] = {
            "active_intents": [IntentView(intent_id=intent_id, objective="see \x1b[1mpackages", declared_at=at)],
            "intent_conflicts": 2,
            "newest_conflict": ConflictView(
                reason="unclear_signal", active_intent_ids=[intent_id], chosen=intent_id, at=at
            ),
        }

    async def budget(self) -> Budget:
        fields: dict[str, Any] = {
            "scope": f"session:{SESSION}", "limit": 1000, "used": 300, "reserved": 0, "remaining": 700, "calls": 2,
            "cost_usd": None, "unknown_calls": 1,
        }  # fmt: skip
        return Budget(mode="enforce", scopes=[ScopeBudget(**{**fields, **self._row})])

    async def view(self) -> SessionView:
        return SessionView(
            session_id=SESSION, agent_id="ADMIN", status="open", lifecycle="Idle", session_epoch=1, step_epoch=1,
            tenure=1, owner="ho2/1@a", turn_count=3, active_input_id=None, created_at="2026-01-01T00:00:00.000000Z",
            updated_at="2026-01-01T00:00:00.000000Z", state_hash="", **self.intents,
        )  # fmt: skip

    def leave_session(self) -> None:
        self.session_id = None

    turns: int | None = 1

    async def end_session(self) -> int | None:
        return self.turns


def lines(name: str, talk: Told | None = None) -> str:
    return "\n".join(text for text, _ in asyncio.run(run_slash(name, cast("Talk", talk or Told()))))


def test_a_model_that_cannot_be_had_is_told_at_once(tmp_path):
    talk = Told()
    talk.place = lambda: Place(home=make_home(tmp_path), sockets=tmp_path, snapshot=shipped_snapshot())
    talk.agent_id = talk.overrides = None
    assert "no provider 'nope'" in lines("/model nope/x", talk) and talk.overrides is None
    assert "no model 'offline-9'" in lines("/model offline/offline-9", talk) and talk.overrides is None
    assert lines("/model offline/offline-rules-1", talk) == talk.overrides.model == "offline/offline-rules-1"
    assert lines("/model", talk) == "offline/offline-rules-1"


def test_help_names_every_command_and_an_unknown_one_says_what_there_is():
    assert all(name in lines("/help") for name in (*NAMES, *RUN_COMMANDS))
    assert all(name in lines("/stear") for name in (*NAMES, *RUN_NAMES)) and "/stear: no such command" in lines(
        "/stear"
    )


def test_cost_says_what_is_known_and_what_is_not():
    """An unknown price and an unknown outcome are said to be that."""
    said = lines("/cost")
    assert "2 model calls, 300 tokens, price unknown" in said and "700 of 1,000 tokens" in said and "enforce" in said
    assert "1 call of unknown outcome" in said
    assert "unknown" not in lines("/cost", Told(cost_usd=0.5, unknown_calls=0))


def test_session_says_how_to_continue_it_and_what_was_not_waited_for():
    """Its short id is a prefix that commands take."""
    said = lines("/session")
    assert SESSION in said and "hobus chat --session SES-0e8f7a52" in said and "in-7: /wait" in said


def test_intent_says_what_the_session_is_for_and_whether_that_is_certain():
    """Its words with whatever could play with a terminal made visible; none active is said, too."""
    said = lines("/intent")
    assert "INT-002: see" in said and "\x1b" not in said and "2 times" in said
    assert "it was not clear what a message was for; went on with INT-002" in said
    talk = Told()
    talk.intents = {}
    assert lines("/intent", talk) == "intent  none is active"


@pytest.mark.parametrize("name", ["/session", "/intent", "/cost", "/end"])
def test_without_a_session_it_is_said_that_there_is_none(name):
    assert "no session yet" in lines(name, Told(None))


def test_new_and_end_leave_the_session():
    talk = Told()
    assert "left SES-0e8f7a52" in lines("/new", talk) and talk.session_id is None
    assert "SES-0e8f7a52 ended after 1 answered turn" in lines("/end")


def test_an_end_that_nobody_could_record_is_no_end_after_so_many_turns():
    """The session is left, and who wants its end in the record is told how."""
    talk = Told()
    talk.turns = None
    said = lines("/end", talk)
    assert "left SES-0e8f7a52" in said and "hobus session end SES-0e8f7a52" in said and "ended after" not in said


def test_a_message_that_begins_with_a_slash_is_typed_with_a_space():
    assert is_command("/etc/passwd what is this?") and not is_command(" /etc/passwd what is this?")


def test_a_line_of_a_pipe_is_a_command_only_if_it_is_nothing_else():
    """A path, a text about a command and an unknown one are messages."""
    assert is_whole_command("/cost") and is_whole_command("/quit \r")
    assert not any(map(is_whole_command, ("/cost of this", "/etc/passwd", " /cost", "/nonsense", "")))
