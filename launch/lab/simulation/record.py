"""Invariants of the record, one step per entry, whatever was killed when. Pure: entries in, Broken out.

`RecordMonitor` is fed every entry in order as it becomes durable (the simulation), or all of them afterwards (drills on
real processes, by `check_record`). Each rule is a small monitor; which guarantee of the specification each one holds is
listed in docs/simulation.md. They go by what stands in the entries, not by the reducer: that is among what they judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import WorkOrder
from hobus.bus.record.ends import end_in, read_result
from hobus.bus.record.journal import find_own_text, read_event, read_recorded
from hobus.bus.record.payload import P, read_payload
from hobus.bus.record.payloads.memory import OverlayWritten
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.session_facts import RUN_ENDS, OrderDispatched
from hobus.ledger_service.admission import ELSEWHERE

ENDS = ("PROMPT_RECEIVED", "PROMPT_FAILED")
_SESSION = "session/"


class Broken(AssertionError):
    """Say which invariant does not hold, and of what."""


def must(holds: bool, what: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(what)


def read_known_payload(cls: type[P], entry: Entry) -> P:
    found = read_payload(cls, entry)
    must(found is not None, f"{entry.submission_id} is erased, and nothing erases here")
    assert found is not None  # noqa: S101 - the same
    return found


def call_of(entry: Entry) -> str:
    """Return `<call key>/<attempt>` of a PROMPT_* entry."""
    return entry.submission_id.partition(":")[2]


Step = Callable[[Entry], None]
"""A rule's look at one more entry, in the order of the record. Raises Broken at the first one that breaks it."""


class Numbers:
    """Check that sequence numbers have no gap; for who is fed the whole record."""

    def __init__(self) -> None:
        self._sequence = -1

    def step(self, entry: Entry) -> None:
        """Raise Broken at a gap."""
        must(entry.sequence == self._sequence + 1, f"entry {entry.sequence} follows {self._sequence}")
        self._sequence = entry.sequence


class _Ids:
    """Check that a submission id and a once key each have one entry."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._once: dict[str, str] = {}

    def step(self, entry: Entry) -> None:
        must(entry.submission_id not in self._ids, f"submission id {entry.submission_id} has two entries")
        self._ids.add(entry.submission_id)
        if entry.once:
            first = self._once.setdefault(entry.once, entry.submission_id)
            must(first == entry.submission_id, f"once key {entry.once} has two entries: {first}, {entry.submission_id}")


class _Prompts:
    """Check that each PROMPT_SENT stands before exactly one end."""

    def __init__(self) -> None:
        self.open: dict[str, None] = {}
        self._ended: set[str] = set()

    def step(self, entry: Entry) -> None:
        name = call_of(entry)
        if entry.event_type == "PROMPT_SENT":
            self.open[name] = None
        elif entry.event_type in ENDS:
            must(name not in self._ended, f"provider call {name} has two ends")
            must(name in self.open, f"provider call {name} ends before its PROMPT_SENT")
            del self.open[name]
            self._ended.add(name)


class _Orders:
    """Check that an order starts behind its dispatch, ends once in the journal, at most once in the pool."""

    def __init__(self) -> None:
        self._dispatched: set[str] = set()
        self._in_journal: set[str] = set()
        self._in_pool: set[str] = set()

    def step(self, entry: Entry) -> None:
        order = entry.provenance.work_order_id
        if entry.event_type == "WO_DISPATCHED":
            self._dispatched.add(order)
        elif entry.event_type == "OrderEnded":
            must(order not in self._in_journal, f"order {order} ended twice in its journal")
            self._in_journal.add(order)
        elif entry.event_type in ("WO_COMPLETED", "WO_FAILED"):
            must(order not in self._in_pool, f"order {order} was ended twice")
            self._in_pool.add(order)
        if entry.event_type in ("TOOL_STARTED", "PROMPT_SENT", "OrderEnded") and "DEGRADED" not in entry.submission_id:
            must(order in self._dispatched, f"{entry.submission_id}: acted before the dispatch was durable")


class _Exchanges:
    """Check that each call of earlier rounds that a model is shown has a result; a provider refuses anything else."""

    def step(self, entry: Entry) -> None:
        if entry.event_type == "WO_DISPATCHED" and entry.stream.startswith(_SESSION):
            for shown in _read_order(entry).exchanges:
                is_whole = len(shown.tool_calls) == len(shown.results)
                must(is_whole, f"{entry.submission_id}: a model is shown a call without its result")


def _read_order(entry: Entry) -> WorkOrder:
    """Return the order of this WO_DISPATCHED of a session, referenced texts blank."""
    dispatched = read_event(entry).event
    assert isinstance(dispatched, OrderDispatched)  # noqa: S101 - asked of no other kind
    return dispatched.order


class _Owners:
    """Check that nothing of the old owner stands behind a take-over in the stream."""

    def __init__(self) -> None:
        self._owner: dict[str, tuple[int, str]] = {}

    def step(self, entry: Entry) -> None:
        if not entry.stream.startswith(_SESSION) or entry.tenure is None:
            return
        if entry.event_type == "TookOver":
            earlier = self._owner.get(entry.stream, (0, ""))[0]
            must(entry.tenure == earlier + 1, f"tenure {entry.tenure} of {entry.stream} follows {earlier}")
            self._owner[entry.stream] = (entry.tenure, entry.origin)
        is_owners = (entry.tenure, entry.origin) == self._owner.get(entry.stream)
        must(is_owners, f"{entry.submission_id}: a fenced owner wrote ({entry.origin}, tenure {entry.tenure})")
        if entry.event_type == "SessionLeft":
            self._owner[entry.stream] = (entry.tenure, ELSEWHERE)


class _Degraded:
    """Check that nothing of an input's run stands behind an answer of the host's that took the input's key."""

    def __init__(self) -> None:
        self._run_of: dict[str, tuple[str, int]] = {}
        self._over: set[tuple[str, int]] = set()

    def step(self, entry: Entry) -> None:
        of_run = (entry.stream, entry.provenance.run_seq)
        must(of_run not in self._over, f"{entry.submission_id} stands behind the host's answer to its input")
        if entry.event_type == "RunRequested":
            self._run_of[entry.submission_id.partition(":")[2]] = of_run
        about = (entry.once or "").partition("turn:")[2]
        if entry.event_type == "TurnDegraded" and about in self._run_of:
            self._over.add(self._run_of[about])


class _Memory:
    """Check that HO3 only logs, and that what it learned rests on events that were logged before."""

    def __init__(self) -> None:
        self._events: set[str] = set()

    def step(self, entry: Entry) -> None:
        is_memorys = entry.origin.startswith("ho3/")
        is_its_stream = entry.stream in ("signals", "overlays")
        is_carried = entry.origin == ELSEWHERE  # from another cell, where memory wrote it
        must(
            is_carried or is_memorys == is_its_stream,
            f"{entry.submission_id}: memory wrote elsewhere, or somebody else there",
        )
        if entry.event_type == "HO3_SIGNAL":
            self._events.add(entry.submission_id.partition("/")[2])
        elif entry.event_type == "HO3_OVERLAY":
            rests_on = set(read_known_payload(OverlayWritten, entry).source_event_ids)
            must(self._events >= rests_on, f"{entry.submission_id} rests on what was never logged")


class _MemoryLines:
    """Check that every memory line of an order was named before, by id, in a CONTEXT_ASSEMBLED of its run."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, int], set[str]] = {}

    def step(self, entry: Entry) -> None:
        run = (entry.provenance.session_id, entry.provenance.run_seq)
        if entry.event_type == "CONTEXT_ASSEMBLED":
            self._named.setdefault(run, set()).update(read_known_payload(ContextAssembled, entry).artifact_ids)
        elif entry.event_type == "WO_DISPATCHED" and entry.stream.startswith(_SESSION):
            shown = {segment.artifact_id for segment in _read_order(entry).input_context if segment.artifact_id}
            is_named = self._named.get(run, set()) >= shown
            must(is_named, f"{entry.submission_id}: a prompt shows a memory line that no record names")


class _Intents:
    """Check that an intent begins once, ends at most once and not before that, and outlives no session's end."""

    def __init__(self) -> None:
        self._active: dict[str, set[str]] = {}

    def step(self, entry: Entry) -> None:
        name, active = entry.submission_id.partition(":")[2], self._active.setdefault(entry.stream, set())
        match entry.event_type:
            case "INTENT_DECLARED":
                active.add(name)
            case "INTENT_SUPERSEDED" | "INTENT_CLOSED":
                must(name in active, f"{entry.submission_id}: ended what was not active")
                active.remove(name)
            case "SESSION_END":
                must(not active, f"{entry.submission_id}: left {', '.join(sorted(active))} active")
            case _:
                pass


class _Projections:
    """Check that a turn is projected once, however often it is driven."""

    def __init__(self) -> None:
        self._runs: set[tuple[str, int]] = set()

    def step(self, entry: Entry) -> None:
        if entry.event_type == "PROJECTION_COMPUTED":
            run = (entry.provenance.session_id, entry.provenance.run_seq)
            must(run not in self._runs, f"{entry.submission_id}: run {run[1]} of {run[0]} is projected twice")
            self._runs.add(run)


class _Consolidations:
    """Check that a consolidation begins behind the answer of the turn that named the signal."""

    def __init__(self) -> None:
        self._stood: set[str] = set()

    def step(self, entry: Entry) -> None:
        if entry.event_type == "WO_DISPATCHED" and entry.stream == "ho2m":
            is_behind = len(entry.parents) == 1 and self._stood.issuperset(entry.parents)
            must(is_behind, f"{entry.submission_id}: consolidated before the answer stood")
        elif entry.event_type == "RunCompleted":
            self._stood.add(entry.submission_id)


class _Answers:
    """Check that each run has at most one end, whoever gives it; an input's one answer is its once key's work."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, int], str] = {}
        self._input_of: dict[str, tuple[str, int]] = {}
        self._runs: Counter[tuple[str, int]] = Counter()

    def step(self, entry: Entry) -> None:
        run = (entry.stream, entry.provenance.run_seq)
        if entry.event_type == "RunRequested":
            self.open[run] = entry.submission_id
            self._input_of[entry.submission_id.partition(":")[2]] = run
        if entry.event_type == "RunAttached" and run not in self.open:  # it had failed, and goes on
            self.open[run] = entry.submission_id
            self._runs[run] -= 1
        if entry.event_type == "TurnDegraded":
            about = (entry.once or "").partition(":")[2]  # the turn's own key, or that of what was delivered without it
            self.open.pop(self._input_of.get(about, run), None)
        if entry.event_type in RUN_ENDS:
            self.open.pop(run, None)
            self._runs[run] += 1
            must(self._runs[run] == 1, f"{entry.submission_id}: run {run[1]} of {run[0]} ends twice")


class _Settled:
    """Check that what an answered run left open ends before the session's next run is asked for."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, int], set[str]] = {}  # of answered runs
        self._open: dict[tuple[str, int], set[str]] = {}

    def step(self, entry: Entry) -> None:
        run, order = (entry.stream, entry.provenance.run_seq), entry.provenance.work_order_id
        match entry.event_type:
            case "WO_DISPATCHED" if entry.stream.startswith(_SESSION):
                self._open.setdefault(run, set()).add(order)
            case "OrderEnded":
                self._open.get(run, set()).discard(order)
                if not self._open.get(run):
                    self.open.pop(run, None)
            case "RunCompleted" if left := self._open.get(run):
                self.open[run] = left
            case "RunRequested":
                left = [run for run in self.open if run[0] == entry.stream]
                must(not left, f"{entry.submission_id}: asked for before run {left} had all that it brought")
            case _:
                pass


class RecordMonitor:
    """All rules of the record; `step` every entry in order, `finish` at the end."""

    def __init__(self, *more: Step) -> None:
        self.prompts, self.answers, self._settled = _Prompts(), _Answers(), _Settled()
        self._steps: tuple[Step, ...] = (
            _Ids().step, self.prompts.step, _Orders().step, _Exchanges().step, _Owners().step, _Degraded().step,
            _Memory().step, _MemoryLines().step, _Intents().step, _Projections().step, _Consolidations().step,
            self.answers.step, self._settled.step, *more,
        )  # fmt: skip

    def step(self, entry: Entry) -> None:
        """Raise Broken at the first rule that this entry breaks."""
        for step in self._steps:
            step(entry)

    def list_unended(self) -> list[str]:
        """Return what was begun and has no end yet: provider calls and runs."""
        left = [f"order {name}" for names in self._settled.open.values() for name in sorted(names)]
        return [*(f"provider call {name}" for name in self.prompts.open), *self.answers.open.values(), *left]

    def finish(self) -> None:
        """Finish after the last entry. Raises Broken for a provider call that has no end."""
        must(not self.prompts.open, f"provider calls without an end: {', '.join(self.prompts.open)}")


def check_record(entries: Sequence[Entry]) -> None:
    """Check the invariants of every record, whatever was killed when. Raises Broken."""
    monitor = RecordMonitor()
    for entry in entries:
        monitor.step(entry)
    monitor.finish()


def list_answers(entries: Sequence[Entry], input_id: str) -> list[str]:
    return [
        entry.submission_id
        for entry in entries
        if entry.once and entry.once.startswith("turn:") and entry.once.endswith(f"/{input_id}")
    ]


def answer_text(entries: Sequence[Entry], input_id: str) -> str | None:
    """Return the words with which the record answers this input: as the host delivered them, else as its run ended."""
    ends = [one for one in entries if (one.once or "").endswith(f"/{input_id}")]
    told = [one for one in ends if (one.once or "").startswith("delivered:")] or [
        one for one in ends if (one.once or "").startswith("turn:")
    ]
    if not told:
        return None
    taken = read_recorded(told[-1])
    end = None if taken is None else end_in(taken.event.event, taken)
    if taken is None or end is None:
        return None
    result = read_result(taken, end.result_ref)
    return find_own_text(taken, end.reply_ref) if result is None else result.response
