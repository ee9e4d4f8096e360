"""What a model is told when a server's process, and what it held for the session, is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hobus.actors.ho1_executor.held_state import HeldState
from hobus.bus.errors import LedgerError
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ledger import Query


@dataclass
class Found:
    """A start of a call of the server, as far as it is looked at."""

    origin: str


@dataclass
class Paper:
    """A record with these starts of a session, or one that cannot be reached."""

    entries: list[Found] | None
    asked: list[Query] = field(default_factory=list[Query])

    async def page(self, question: Query) -> Any:
        self.asked.append(question)
        if self.entries is None:
            raise LedgerError("unavailable", "away")
        return self


def held(*entries: Found, is_away: bool = False) -> tuple[HeldState, Paper]:
    """Of the worker ho1/1@b."""
    paper = Paper(None if is_away else list(entries))
    return HeldState(cast("LedgerClient", paper), "ho1/1@b", page=7), paper


@pytest.mark.parametrize(
    ("entries", "is_told"),
    [
        ([], False),
        ([Found("ho1/1@b")], False),  # its own, beside this one
        ([Found("ho1/1@a")], True),  # its predecessor's
        ([Found("ho1/1@b"), Found("ho1/2@a")], True),
    ],
)
async def test_of_a_session_that_it_does_not_know_a_worker_asks_the_record(entries: list[Found], is_told: bool) -> None:
    """Once: what it knows then it remembers."""
    state, paper = held(*entries)
    assert bool(await state.word("S", "web", "web/1")) is is_told
    assert [(one.where["session_id"], one.where["reason"], one.limit) for one in paper.asked] == [("S", "web", 7)]
    assert await state.word("S", "web", "web/1") == ""
    assert len(paper.asked) == 1


async def test_a_process_that_came_anew_is_told_once_to_each_session() -> None:
    state, _ = held(is_away=True)
    for session in ("A", "B"):
        assert await state.word(session, "web", "web/1") == ""
    for session, words in (("A", True), ("A", False), ("B", True), ("C", False)):
        assert ("web was restarted" in await state.word(session, "web", "web/2")) is words
