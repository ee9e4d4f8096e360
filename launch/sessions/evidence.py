"""What was read of the record to tell a turn, and how one entry of it is read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hobus.bus.messages.base import unpack
from hobus.bus.messages.ledger import Entry, name_session_stream
from hobus.bus.messages.work_order import Receipt
from hobus.bus.record.catalog import is_session_stream, read_body
from hobus.bus.record.ends import ENDS, read_order_receipt
from hobus.bus.record.journal import Recorded, read_recorded

if TYPE_CHECKING:
    from hobus.launch.sessions.provenance import Configuration

ERASED = "(erased, or not in this record)"
_SESSION_CHARS = len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx-")
_OF_HOST = (("DEGRADATION", ""), ("TurnDegraded", ""), ("TurnDegraded", "/delivered"))


class Seen(NamedTuple):
    """One entry, read."""

    entry: Entry
    said: Any = None
    """The event of a journal's entry, else the payload; None: none, erased, or of another version."""
    taken: Recorded | None = None
    """Of a journal's entry: all that it tells."""

    @property
    def type(self) -> str:
        return self.entry.event_type

    @property
    def wo_id(self) -> str:
        return self.entry.provenance.work_order_id or ""

    @property
    def receipt(self) -> Receipt | None:
        """Return the receipt with which an order ended; None for another entry, or where it was erased."""
        try:
            return read_order_receipt(self.entry)
        except ValueError:
            return None


class Rules(NamedTuple):
    """What an account needs of the configuration that a turn ran under, of any version of the program."""

    chars_per_token: int
    has_memory: bool
    prompt_packs: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: bytes) -> Rules | None:
        """Read the canonical bytes of a snapshot; None where that is not to be found in them."""
        try:
            found = unpack(snapshot)
            config, ho3 = found["config"], found["config"].get("ho3") or {}
            return cls(max(1, config["attention"]["chars_per_token"]), bool(ho3.get("enabled")), found["prompt_packs"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read of the record."""

    turn: Sequence[Entry]
    """The turn's own entries, with their bodies."""
    session: Sequence[Entry]
    """Those of its session, in which its texts stand."""
    elsewhere: Sequence[Entry] = ()
    """Others that its prompts quote, or that lines of memory rest on."""
    memory: Sequence[Entry] = ()
    """Of stream `overlays`, of all agents; signals too, where they were read."""
    rules: Rules | None = None
    """What the turn ran under."""
    configurations: Mapping[str, Configuration] = field(default_factory=dict)
    """Configuration digest -> the files of it, of any version of the program."""

    @property
    def by_id(self) -> dict[str, Entry]:
        return {one.submission_id: one for one in (*self.elsewhere, *self.session, *self.turn)}


def seen(entry: Entry) -> Seen:
    if is_session_stream(entry.stream):
        taken = read_recorded(entry)
        return Seen(entry, None if taken is None else taken.event.event, taken)
    return Seen(entry, decode_body(entry))


def seen_in(entries: Iterable[Entry]) -> list[Seen]:
    return [seen(one) for one in entries]


def decode_body(entry: Entry, number: int = 0) -> Any:
    """Return the typed body, the payload first; None for what has none, was erased, or is of another version."""
    try:
        return read_body(entry, number) if len(entry.bodies) > number else None
    except ValueError:
        return None


def read_text(entry: Entry, number: int = 1) -> str | None:
    """Return a text beside the payload; None where it was erased, or there is none."""
    body = entry.bodies[number] if len(entry.bodies) > number else None
    return None if body is None else body.decode("utf-8", "replace")


def short(wo_id: str) -> str:
    """Return `3.1.1` of the session's long id: run, round, step; other orders by what they are for."""
    if wo_id.startswith("WO-CONS-"):
        return "of the consolidation"
    if wo_id.startswith("WO-DEGRADED-"):
        return "of the degraded answer"
    return wo_id.removeprefix("WO-")[_SESSION_CHARS:] if wo_id.startswith("WO-") else wo_id


def entries_of_turn(entries: Sequence[Entry], beginning: Entry) -> list[Entry]:
    """Return the entries that belong to the turn that `beginning` begins, in the order of the record.

    `beginning`: its RunRequested; of a turn that never had a run, its TurnDegraded. `entries`: of its session.
    """
    session_id, run_seq = beginning.provenance.session_id, beginning.provenance.run_seq
    input_id = beginning.submission_id.partition("/")[2].partition("/")[0]
    journal = name_session_stream(session_id)
    # What the host did for an input whose run had failed names the input and no run.
    of_host = {f"{event_type}:{session_id}/{input_id}{end}" for event_type, end in _OF_HOST}

    def is_of_run(one: Entry) -> bool:
        """Most entries of a session have no trace: their run says it."""
        has_trace = one.trace != "" and one.trace == beginning.trace
        return has_trace or (run_seq != 0 and one.provenance.run_seq == run_seq)

    ends = [one for one in entries if one.event_type in ENDS and one.provenance.session_id == session_id]
    last = max((one.sequence for one in ends if is_of_run(one)), default=None)

    def belongs(one: Entry) -> bool:
        if one.provenance.session_id != session_id and one.stream != journal:
            return False
        # A signal names its run in its id alone.
        if is_of_run(one) or (run_seq and f"{session_id}-{run_seq}-" in one.submission_id):
            return True
        if one.submission_id in of_host or one.provenance.work_order_id == f"WO-DEGRADED-{input_id}":
            return True
        # Take-overs and commands name no run of their own: they fall into the time of one.
        is_meanwhile = beginning.sequence < one.sequence and (last is None or one.sequence < last)
        return bool(run_seq) and one.stream == journal and not one.provenance.run_seq and is_meanwhile

    return sorted((one for one in entries if belongs(one)), key=lambda one: one.sequence)
