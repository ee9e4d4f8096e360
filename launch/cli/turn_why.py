"""Why a turn was answered as it was, as `hobus why`, `hobus diff` and the chat read it: by the record alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hobus.bus.messages.base import named
from hobus.bus.messages.ids import entry_id, overlay_id, shown_session
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payloads.memory import OverlayWritten
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.launch.cli.provenance_view import configurations_with
from hobus.launch.cli.turn_account import TurnAccount, entries_about, turn_account
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, next_here
from hobus.launch.limits import OVERLAYS_MAX, SIGNALS_MAX
from hobus.launch.sessions.evidence import Evidence, Rules, body_of
from hobus.launch.sessions.history import turns_in
from hobus.launch.sessions.provenance import Configuration, digests_named, named_by_run
from hobus.launch.sessions.why import Explanation, explain
from hobus.launch.sessions.why_memory import agent_of
from hobus.launch.sessions.why_prompts import quoted_elsewhere
from hobus.ledger_service.reader import EntryFilter, entries_with, read_entries

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
        """Return `SES-1a2b3c4d-2`; without a run, `SES-1a2b3c4d/<input id>`."""
        turn, session = self.account.turn, shown_session(self.account.session_id)
        return f"{session}-{turn.run}" if turn.run else f"{session}/{turn.input_id}"

    def document(self) -> dict[str, Any]:
        turn = self.account.turn
        return {"turn": self.name, "session_id": self.account.session_id} | asdict(turn) | named(asdict(self.why))


def explained(home: Home, session_id: str, wanted: str | None, *, called: str = "TURN") -> ExplainedTurn:
    """Return the turn that `wanted` names: its number, its input, `SES-…-<n>`; None: the session's last one.

    Raises UsageFault where there is no such turn.
    """
    entries = entries_about(home, session_id, wanted)
    if wanted is None:
        turns = turns_in(entries)
        if not turns:
            session = shown_session(session_id)
            raise UsageFault(f"{session} has no turn yet", hint=next_here(f"ask --session {session} TEXT"))
        wanted = str(turns[-1].run or turns[-1].input_id)
    account = turn_account(entries, session_id, wanted, called=called)
    overlays = _overlays(home.ledger, account.entries)
    elsewhere = _quoted(home.ledger, account.entries, entries) + _behind_lines(home.ledger, account.entries, overlays)
    signals = _newest_signals(home.ledger, account.entries)
    configurations = configurations_with(home, digests_named(account.entries))
    made_under = configurations.get(named_by_run(account.entries))
    rules = None if made_under is None or not made_under.body else Rules.of(made_under.body)
    why = explain(
        Evidence(
            turn=account.entries, session=entries, elsewhere=elsewhere, memory=[*signals, *overlays], rules=rules,
            configurations=configurations, of_signals=SIGNALS_MAX if len(signals) == SIGNALS_MAX else None,
        )
    )  # fmt: skip
    return ExplainedTurn(account, why, made_under)


def _quoted(record: Path, turn: Sequence[Entry], session: Sequence[Entry]) -> list[Entry]:
    """Return the other entries that the turn's prompts quote; what they quote may itself quote others."""
    found: list[Entry] = []
    while quoted := quoted_elsewhere(turn, [*session, *found]):
        more = entries_with(record, quoted)
        if not more:  # they are not in this record
            break
        found += more
    return found


def _overlays(record: Path, turn: Sequence[Entry]) -> list[Entry]:
    """Return memory's last changes until the turn's end, and what made each line that was shown or left out."""
    contexts = [said for one in turn if isinstance(said := body_of(one), ContextAssembled)]
    named = {name for said in contexts for name in (*said.artifact_ids, *(name for name, _ in said.left_out))}
    agent_id, end = agent_of(turn), max((one.sequence for one in turn), default=-1) + 1
    wanted = EntryFilter(stream="overlays")
    found = [*read_entries(record, wanted, before=end, limit=OVERLAYS_MAX, newest_first=True, with_bodies=True)]
    found += entries_with(record, {entry_id("HO3_OVERLAY", overlay_id(agent_id, name)) for name in named})
    return sorted({one.sequence: one for one in found}.values(), key=lambda one: one.sequence)


def _behind_lines(record: Path, turn: Sequence[Entry], overlays: Sequence[Entry]) -> list[Entry]:
    contexts = [said for one in turn if isinstance(said := body_of(one), ContextAssembled)]
    shown = {name for said in contexts for name in said.artifact_ids}
    written = [said for one in overlays if isinstance(said := body_of(one), OverlayWritten)]
    events = {event for said in written if said.artifact_id in shown for event in said.source_event_ids}
    agent_id = agent_of(turn)
    return entries_with(record, {entry_id("HO3_SIGNAL", f"{agent_id}/{event}") for event in events})


def _newest_signals(record: Path, turn: Sequence[Entry]) -> list[Entry]:
    """Return signals up to the last one that the turn has logged, in order; none where it has logged none."""
    logged = [one.sequence for one in turn if one.event_type == "HO3_SIGNAL"]
    wanted = EntryFilter(stream="signals")
    found = read_entries(
        record, wanted, before=max(logged, default=-1) + 1, limit=SIGNALS_MAX if logged else 0, newest_first=True,
        with_bodies=True,
    )  # fmt: skip
    return list(found)[::-1]
