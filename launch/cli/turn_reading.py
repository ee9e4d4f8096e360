"""The turn that somebody names, and its account, read from a home's record; with and without a running cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hobus.bus.messages.ids import derive_entry_id, derive_overlay_id, shorten_session
from hobus.bus.messages.ledger import Entry, name_session_stream
from hobus.bus.record.ends import ENDS
from hobus.bus.record.journal import read_recorded
from hobus.bus.record.payloads.memory import OverlayWritten
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.session_facts import RunRequested
from hobus.launch.cli.provenance_view import read_named_configurations
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.limits import OVERLAYS_MAX, SIGNALS_MAX
from hobus.launch.sessions.account import TurnAccount, make_account
from hobus.launch.sessions.evidence import Evidence, Rules, decode_body, entries_of_turn, seen_in
from hobus.launch.sessions.history import TurnSeen, list_turns
from hobus.launch.sessions.provenance import find_digest, list_digests
from hobus.launch.sessions.which import run_in_session
from hobus.launch.sessions.why_memory import agent_of
from hobus.launch.sessions.why_prompts import quoted_elsewhere
from hobus.ledger_service.reader import EntryFilter, find_entries, read_entries

TURN = (
    "SES-<8 hex digits>-<n>, the n-th turn of a session (SES- and digits beyond four are optional), SESSION/<input id> "
    "for one without a run, or SESSION for its last one."
)
_NAMED_AT_MOST = 5
_ID_CHARS = (8, 36)
"""Of a session, as people see it and whole."""
_LAST_ENTRIES = 160
"""Of a journal, among which its last turn is looked for."""
_GROUP = 4
"""Digits behind the first dash of an id."""


def run_in(given: str) -> tuple[str, str] | None:
    """Return session and number of `SES-1a2b3c4d-2`, `1a2b-2` or `<whole id>-2`; of `<session>/<input>`, both.

    None for anything else.
    """
    named, slash, input_id = given.partition("/")
    if slash and named and input_id:
        return named, input_id
    session, _, number = given.rpartition("-")
    has_letters, chars = session[:4].upper() == "SES-", len(session.removeprefix("SES-"))
    is_short = _GROUP <= chars < _ID_CHARS[0] or (chars == _ID_CHARS[0] and (has_letters or len(number) < _GROUP))
    is_run = number.isascii() and number.isdigit() and (is_short or chars == _ID_CHARS[1])
    return (session, number) if is_run else None


def read_account(home: Home, session_id: str, wanted: str | None, *, called: str = "TURN") -> TurnAccount:
    """Return the account of the turn that `wanted` names: its number, its input, `SES-…-<n>`; None: the last one.

    Raises UsageFault where there is no such turn, naming those that there are.
    """
    entries = entries_about(home, session_id, wanted)
    turn = turn_named(entries, session_id, wanted, called=called)
    found = evidence_of(entries, turn)
    own, record = found.turn, home.ledger
    overlays = _overlays(record, own)
    configurations = read_named_configurations(home, list_digests(seen_in(own)))
    made_under = configurations.get(find_digest(seen_in(own)))
    return make_account(
        session_id,
        turn,
        replace(
            found,
            elsewhere=_quoted(record, own, entries) + _behind_lines(record, own, overlays),
            memory=[*_newest_signals(record, own), *overlays],
            rules=None if made_under is None or not made_under.body else Rules.of(made_under.body),
            configurations=configurations,
        ),
    )


def evidence_of(entries: Sequence[Entry], turn: TurnSeen) -> Evidence:
    """Return a turn's own entries, and those of its session, which were read."""
    return Evidence(turn=entries_of_turn(entries, _beginning_of(entries, turn)), session=entries)


def turn_named(entries: Sequence[Entry], session_id: str, wanted: str | None, *, called: str) -> TurnSeen:
    """Return the turn that `wanted` names; None: the last one. `entries`: of its session.

    Raises UsageFault that names the last ones.
    """
    turns, session = list_turns(entries), shorten_session(session_id)
    if wanted is None:
        if not turns:
            raise UsageFault(f"{session} has no turn yet", hint=format_next_here(f"ask --session {session} TEXT"))
        return turns[-1]
    number = run_in_session(wanted, session_id)
    turn = next((one for one in turns if (number and one.run == number) or one.input_id == wanted), None)
    if turn is None:
        last = f" --turn {turns[-1].run or turns[-1].input_id}" if turns else ""
        said = f"{called} {wanted[:80]}: {session} has no such turn; it has {_there(turns)}"
        raise UsageFault(said, hint=format_next_here(f"session show {session}{last}"))
    return turn


def _there(turns: Sequence[TurnSeen]) -> str:
    """Return `turn 1`, `turns 1 to 12`, and by its input each that was answered without a run, the last of them."""
    numbers = sorted(one.run for one in turns if one.run)
    named = [f"turn {numbers[0]}" if len(numbers) == 1 else f"turns {numbers[0]} to {numbers[-1]}"] if numbers else []
    named += [f"input {one.input_id}" for one in turns if not one.run][-_NAMED_AT_MOST:]
    return ", ".join(named) or "none yet"


def _beginning_of(entries: Sequence[Entry], turn: TurnSeen) -> Entry:
    """Return the entry that began the turn; of one that was answered without a run, the one that ended it."""
    asked = [one for one in entries if one.event_type == "RunRequested" and one.provenance.run_seq == turn.run]
    ended = [one for one in entries if one.event_type in ENDS and turn.input_id in one.submission_id]
    return (asked or ended or list(entries))[0]


# --- what is read -----------------------------------------------------------------------------------------------------


def entries_about(home: Home, session_id: str, wanted: str | None) -> list[Entry]:
    """Return what the record has of a session and the named turn, or its last, with bodies, in order.

    Of a turn with a number not much more than its own; all of the session where it has none, or there is no such turn.
    """
    read = partial(read_entries, home.ledger, with_bodies=True)
    number = _last_run(home, session_id) if wanted is None else run_in_session(wanted, session_id)

    def first_of(run: int) -> int | None:
        found = read_entries(home.ledger, EntryFilter(session=session_id, run=run), limit=1)
        return next((one.sequence for one in found), None)

    if number is None or (begin := first_of(number)) is None:
        return list(read(EntryFilter(session=session_id)))
    before = first_of(number - 1) if number > 1 else None
    low, high = begin if before is None else before, first_of(number + 2)
    found = [*read(EntryFilter(session=session_id, event_type="SESSION_START"), limit=1)]
    found += read(EntryFilter(session=session_id), after=low - 1, before=high)
    if high is not None:
        found += read(EntryFilter(session=session_id, run=number), after=high - 1)
    known = {one.submission_id for one in found}
    asked = [said.event.event for one in found if one.event_type == "RunRequested" and (said := read_recorded(one))]
    refs = {one.input_ref.rpartition("/")[0] for one in asked if isinstance(one, RunRequested)}
    found += find_entries(home.ledger, refs - known)  # a message that waited for its turn
    return _in_order(found)


def _in_order(found: Sequence[Entry]) -> list[Entry]:
    return sorted({one.sequence: one for one in found}.values(), key=lambda one: one.sequence)


def _last_run(home: Home, session_id: str) -> int | None:
    """Return the last turn's run; None where it had none."""
    journal = EntryFilter(stream=name_session_stream(session_id), session=session_id)
    found = list(read_entries(home.ledger, journal, limit=_LAST_ENTRIES, newest_first=True, with_bodies=True))
    turns = list_turns(reversed(found))
    return turns[-1].run if turns else None


def _quoted(record: Path, turn: Sequence[Entry], session: Sequence[Entry]) -> list[Entry]:
    """Return the other entries that the turn's prompts quote; what they quote may itself quote others."""
    found: list[Entry] = []
    while quoted := quoted_elsewhere(turn, [*session, *found]):
        more = find_entries(record, quoted)
        if not more:  # they are not in this record
            break
        found += more
    return found


def _overlays(record: Path, turn: Sequence[Entry]) -> list[Entry]:
    """Return memory's last changes until the turn's end, and what made each line that was shown or left out."""
    contexts = [said for one in turn if isinstance(said := decode_body(one), ContextAssembled)]
    named = {name for said in contexts for name in (*said.artifact_ids, *(name for name, _ in said.left_out))}
    agent_id, end = agent_of(turn), max((one.sequence for one in turn), default=-1) + 1
    wanted = EntryFilter(stream="overlays")
    found = [*read_entries(record, wanted, before=end, limit=OVERLAYS_MAX, newest_first=True, with_bodies=True)]
    return _in_order(
        found
        + find_entries(record, {derive_entry_id("HO3_OVERLAY", derive_overlay_id(agent_id, one)) for one in named})
    )


def _behind_lines(record: Path, turn: Sequence[Entry], overlays: Sequence[Entry]) -> list[Entry]:
    """Return the signals that the lines which were shown rest on."""
    contexts = [said for one in turn if isinstance(said := decode_body(one), ContextAssembled)]
    shown = {name for said in contexts for name in said.artifact_ids}
    written = [said for one in overlays if isinstance(said := decode_body(one), OverlayWritten)]
    events = {event for said in written if said.artifact_id in shown for event in said.source_event_ids}
    agent_id = agent_of(turn)
    return find_entries(record, {derive_entry_id("HO3_SIGNAL", f"{agent_id}/{event}") for event in events})


def _newest_signals(record: Path, turn: Sequence[Entry]) -> list[Entry]:
    """Return signals up to the last one that the turn has logged; none where it has logged none."""
    logged = [one.sequence for one in turn if one.event_type == "HO3_SIGNAL"]
    wanted, limit = EntryFilter(stream="signals"), SIGNALS_MAX if logged else 0
    before = max(logged, default=-1) + 1
    return [*read_entries(record, wanted, before=before, limit=limit, newest_first=True, with_bodies=True)]
