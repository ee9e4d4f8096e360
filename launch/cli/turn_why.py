"""Why a turn was answered as it was, as `hobus why`, `hobus diff` and the chat read it: by the record alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hobus.bus.messages.base import named
from hobus.bus.messages.ids import shown_session
from hobus.bus.messages.ledger import Entry
from hobus.launch.cli.provenance_view import configurations_of
from hobus.launch.cli.turn_account import TurnAccount, entries_of_session, turn_account
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, next_here
from hobus.launch.sessions.evidence import Evidence, Rules
from hobus.launch.sessions.history import turns_in
from hobus.launch.sessions.provenance import Configuration, named_by_run
from hobus.launch.sessions.why import Explanation, explain
from hobus.launch.sessions.why_memory import STREAMS
from hobus.launch.sessions.why_prompts import quoted_elsewhere
from hobus.ledger_service.reader import EntryFilter, read_entries

TURN = (
    "SES-<8 hex digits>-<n>, the n-th turn of a session, also without SES- or by four digits or more; one that had no "
    "run: SESSION/<input id>; SESSION alone means its last one."
)


@dataclass(frozen=True, slots=True)
class ExplainedTurn:
    """A turn, and why it was answered so."""

    account: TurnAccount
    why: Explanation
    configuration: Configuration | None = None
    """That it was requested under; None: the record does not have it."""

    @property
    def name(self) -> str:
        """`SES-1a2b3c4d-2`; of one that had no run, `SES-1a2b3c4d/<input id>`."""
        turn, session = self.account.turn, shown_session(self.account.session_id)
        return f"{session}-{turn.run}" if turn.run else f"{session}/{turn.input_id}"

    def document(self) -> dict[str, Any]:
        turn = self.account.turn
        return {"turn": self.name, "session_id": self.account.session_id} | asdict(turn) | named(asdict(self.why))


def explained(home: Home, session_id: str, wanted: str | None, *, called: str = "TURN") -> ExplainedTurn:
    """The turn of this session that `wanted` names: its number, its input, `SES-…-<n>`; None: the last one.

    Raises UsageFault where there is no such turn.
    """
    entries = entries_of_session(home, session_id)
    if wanted is None:
        turns = turns_in(entries)
        if not turns:
            session = shown_session(session_id)
            raise UsageFault(f"{session} has no turn yet", hint=next_here(f"ask --session {session} TEXT"))
        wanted = str(turns[-1].run or turns[-1].input_id)
    account = turn_account(entries, session_id, wanted, called=called)
    elsewhere = _quoted(home.ledger, account.entries, entries)
    memory = [
        one for stream in STREAMS for one in read_entries(home.ledger, EntryFilter(stream=stream), with_bodies=True)
    ]
    configurations = configurations_of(home)
    made_under = configurations.get(named_by_run(account.entries))
    rules = None if made_under is None or not made_under.body else Rules.of(made_under.body)
    why = explain(
        Evidence(
            turn=account.entries, session=entries, elsewhere=elsewhere, memory=memory, rules=rules,
            configurations=configurations,
        )
    )  # fmt: skip
    return ExplainedTurn(account, why, made_under)


def _quoted(record: Path, turn: Sequence[Entry], session: Sequence[Entry]) -> list[Entry]:
    """The entries of other sessions that the turn's prompts quote; what they quote may itself quote others."""
    found: list[Entry] = []
    while quoted := quoted_elsewhere(turn, [*session, *found]):
        more = [one for one in read_entries(record, with_bodies=True) if one.submission_id in quoted]
        if not more:  # they are not in this record
            break
        found += more
    return found
