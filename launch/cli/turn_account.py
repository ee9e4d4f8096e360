"""What happened in one turn, as `hobus session show --turn`, the demo and drills print it: by the record alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from hobus.bus.messages.ids import shown_session
from hobus.bus.messages.ledger import Entry, session_stream
from hobus.bus.record.ends import ENDS
from hobus.bus.record.journal import recorded
from hobus.bus.record.session_facts import RunRequested
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, next_here
from hobus.launch.console.output import counted, money, note, printable, say, say_prose, styled
from hobus.launch.sessions.account import account_of, entries_of_turn, totals_of
from hobus.launch.sessions.history import TurnSeen, turns_in
from hobus.launch.sessions.which import run_in_session
from hobus.ledger_service.reader import EntryFilter, entries_with, read_entries

_US_PER_MS = 1000
_NAMED_AT_MOST = 5
_ID_CHARS = (8, 36)
"""Of a session, as people see it and whole."""
_LAST_ENTRIES = 160
"""Of a journal, among which its last turn is looked for."""
_GROUP = 4
"""Digits behind the first dash of an id."""


@dataclass(frozen=True, slots=True)
class TurnAccount:
    """One turn, and all that the record has of it."""

    session_id: str
    turn: TurnSeen
    entries: list[Entry]

    def lines(self) -> list[tuple[int, str]]:
        """Return (milliseconds since it was recorded, what happened then), in order."""
        moments = account_of(self.entries)
        begin = moments[0].at_us if moments else 0
        return [(round((one.at_us - begin) / _US_PER_MS), one.what) for one in moments]

    @property
    def taken(self) -> str:
        totals = totals_of(self.entries)
        again = totals.tool_runs - totals.tool_calls
        begun = f", begun {counted(totals.tool_runs, 'time')}" if again else ""
        parts = (
            counted(totals.model_calls, "model call"),
            f"{totals.model_calls_unknown} of them of unknown outcome" if totals.model_calls_unknown else "",
            counted(totals.tool_calls, "tool call") + begun,
            f"{totals.input_tokens:,} + {counted(totals.output_tokens, 'token')}",
            money(totals.cost_usd),
        )
        return ", ".join(filter(None, parts))

    def document(self) -> dict[str, Any]:
        moments = account_of(self.entries)
        begin = moments[0].at_us if moments else 0
        return {
            "session_id": self.session_id,
            "turn": asdict(self.turn),
            "moments": [
                {
                    "at_ms": round((one.at_us - begin) / _US_PER_MS),
                    "what": one.what,
                    "sequence": one.sequence,
                    "event": one.event or None,
                }
                for one in moments
            ],
            "totals": asdict(totals_of(self.entries)),
        }

    def show(self) -> None:
        """Print for people: question, moments, answer, and what it took."""
        turn = self.turn
        name = f"{shown_session(self.session_id)}-{turn.run}" if turn.run else shown_session(self.session_id)
        say(styled(f"{name}, input {turn.input_id}", None, bold=True))
        for line in ["(not in the record)"] if turn.text is None else turn.text.splitlines():
            say_prose("    < ", printable(line))
        show_moments(self.lines())
        for line in (turn.reply or "").splitlines():
            say_prose("    > ", printable(line))
        say_prose("  ", f"{turn.ended}; {self.taken}")
        if turn.outcome == "running":
            note("the turn is not over yet")


def show_moments(moments: Iterable[tuple[int, str]], indent: str = "  ") -> None:
    """Print one line each: deaths in red, what was done again in yellow."""
    for at_ms, text in moments:
        say_prose(f"{indent}{at_ms:6} ms  ", text, _colour(text))


def _colour(text: str) -> str | None:
    if text.startswith("SIGKILL") or " has ended, and goes on as " in text:
        return "red"
    return "yellow" if any(word in text for word in (" again", "attempt ", " try ", "UNKNOWN_OUTCOME")) else None


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
    asked = [said.event.event for one in found if one.event_type == "RunRequested" and (said := recorded(one))]
    refs = {one.input_ref.rpartition("/")[0] for one in asked if isinstance(one, RunRequested)}
    found += entries_with(home.ledger, refs - known)  # a message that waited for its turn
    return sorted({one.sequence: one for one in found}.values(), key=lambda one: one.sequence)


def _last_run(home: Home, session_id: str) -> int | None:
    """Return the last turn's run; None where it had none."""
    journal = EntryFilter(stream=session_stream(session_id), session=session_id)
    found = list(read_entries(home.ledger, journal, limit=_LAST_ENTRIES, newest_first=True, with_bodies=True))
    turns = turns_in(reversed(found))
    return turns[-1].run if turns else None


def turn_account(entries: Sequence[Entry], session_id: str, wanted: str, *, called: str) -> TurnAccount:
    """Return the turn that `wanted` names: its number, `SES-…-<n>`, or its input's id; `entries`: of its session.

    Raises UsageFault that names the last ones.
    """
    turns = turns_in(entries)
    number = run_in_session(wanted, session_id)
    turn = next((one for one in turns if (number and one.run == number) or one.input_id == wanted), None)
    if turn is None:
        raise UsageFault(
            f"{called} {wanted[:80]}: {shown_session(session_id)} has no such turn; it has {_there(turns)}",
            hint=next_here(f"session show {shown_session(session_id)}{_of_last(turns)}"),
        )
    return TurnAccount(session_id, turn, entries_of_turn(entries, beginning_of(entries, turn)))


def _there(turns: Sequence[TurnSeen]) -> str:
    """Return `turn 1`, `turns 1 to 12`, and by its input each that was answered without a run, the last of them."""
    numbers = sorted(one.run for one in turns if one.run)
    named = [f"turn {numbers[0]}" if len(numbers) == 1 else f"turns {numbers[0]} to {numbers[-1]}"] if numbers else []
    named += [f"input {one.input_id}" for one in turns if not one.run][-_NAMED_AT_MOST:]
    return ", ".join(named) or "none yet"


def _of_last(turns: Sequence[TurnSeen]) -> str:
    """Return the option that names the last turn; empty: there is none."""
    return f" --turn {turns[-1].run or turns[-1].input_id}" if turns else ""


def beginning_of(entries: Sequence[Entry], turn: TurnSeen) -> Entry:
    """Return the entry that began the turn; of one that was answered without a run, the one that ended it."""
    asked = [one for one in entries if one.event_type == "RunRequested" and one.provenance.run_seq == turn.run]
    ended = [one for one in entries if one.event_type in ENDS and turn.input_id in one.submission_id]
    return (asked or ended or list(entries))[0]


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
