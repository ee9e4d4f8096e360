"""Reading a record in tests: a journal with everything that differs between two runs masked, and what must always hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from actors.ho2_supervisor.composed import parts_in
from bus.messages.base import unpack
from bus.messages.ledger import Entry

_TIMES_AND_DURATIONS = re.compile(r"^(at|.*_at|elapsed_ms|latency_ms)$")
_INSTANCE = re.compile(r"\b(ho1|ho2|gateway|host|door|operator)/\d+@[0-9a-z]+")
ENDS = ("PROMPT_RECEIVED", "PROMPT_FAILED")
ANSWERS = ("RunCompleted", "TurnDegraded")


def masked_journal(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The journals in these entries, one value per entry, without times, durations, salts and instance names."""
    return [_masked(entry) for entry in entries if entry.stream.startswith("session/")]


def _masked(entry: Entry) -> dict[str, Any]:
    return {
        "submission_id": entry.submission_id,
        "origin": _mask(entry.origin),
        "stream": entry.stream,
        "event_type": entry.event_type,
        "decision": entry.decision,
        "reason": entry.reason,
        "provenance": entry.provenance.model_dump(),
        "parents": entry.parents,
        "trace": _mask(entry.trace),
        "prev": entry.prev,
        "tenure": entry.tenure,
        "once": entry.once,
        "bodies": [_mask(_decoded(body)) for body in entry.bodies],
    }


def _decoded(body: bytes | None) -> Any:
    assert body is not None, "nothing is erased in these tests"
    if (parts := parts_in(body)) is not None:
        return [list(part) for part in parts]
    try:
        value = unpack(body)
    except ValueError:
        return body.decode()
    return value if isinstance(value, (dict, list)) else body.decode()


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        # Left out, not starred: a duration of nothing is its field's default, and a compact record leaves that out.
        return {key: _mask(part) for key, part in value.items() if not _TIMES_AND_DURATIONS.match(key)}
    if isinstance(value, list):
        return [_mask(part) for part in value]
    return _INSTANCE.sub(r"\1/*", value) if isinstance(value, str) else value


def check_record(entries: Sequence[Entry]) -> None:
    """The invariants of every record, whatever was killed when."""
    once = Counter(entry.once for entry in entries if entry.once)
    assert {key: count for key, count in once.items() if count > 1} == {}, "a once key has two entries"
    ids = Counter(entry.submission_id for entry in entries)
    assert {key: count for key, count in ids.items() if count > 1} == {}, "a submission id has two entries"
    _check_prompts(entries)
    _check_orders(entries)
    _check_exchanges(entries)
    _check_owners(entries)
    _check_degraded(entries)
    _check_memory_writes(entries)
    _check_memory_lines(entries)
    _check_consolidations(entries)


def _check_prompts(entries: Sequence[Entry]) -> None:
    """Each PROMPT_SENT stands before exactly one end."""
    sent = {
        entry.submission_id.partition(":")[2]: entry.sequence for entry in entries if entry.event_type == "PROMPT_SENT"
    }
    ended = Counter(entry.submission_id.partition(":")[2] for entry in entries if entry.event_type in ENDS)
    assert ended == Counter(sent.keys()), "a provider call without exactly one end"
    for entry in entries:
        if entry.event_type in ENDS:
            assert sent[entry.submission_id.partition(":")[2]] < entry.sequence


def _check_orders(entries: Sequence[Entry]) -> None:
    """An order ends once in the journal and at most once in the pool; nothing starts before its dispatch is recorded."""
    dispatched = {
        entry.provenance.work_order_id: entry.sequence for entry in entries if entry.event_type == "WO_DISPATCHED"
    }
    in_journal = Counter(entry.provenance.work_order_id for entry in entries if entry.event_type == "OrderEnded")
    assert all(count == 1 for count in in_journal.values())
    in_pool = Counter(
        entry.provenance.work_order_id for entry in entries if entry.event_type in ("WO_COMPLETED", "WO_FAILED")
    )
    assert all(count == 1 for count in in_pool.values()), "an order was ended twice"
    for entry in entries:
        if entry.event_type in ("TOOL_STARTED", "PROMPT_SENT", "OrderEnded") and "DEGRADED" not in entry.submission_id:
            assert dispatched[entry.provenance.work_order_id] < entry.sequence, "acted before the dispatch was durable"


def _check_exchanges(entries: Sequence[Entry]) -> None:
    """What a model is shown of earlier rounds has a result for each of its calls; a provider refuses anything else."""
    for entry in entries:
        if entry.event_type == "WO_DISPATCHED" and entry.stream.startswith("session/"):
            for shown in _payload(entry)["event"]["order"].get("exchanges", []):
                assert len(shown["tool_calls"]) == len(shown["results"]), "a model is shown a call without its result"


def _check_owners(entries: Sequence[Entry]) -> None:
    """After a take-over nothing of the old owner stands in the stream."""
    owner: dict[str, tuple[int, str]] = {}
    for entry in entries:
        if not entry.stream.startswith("session/") or entry.tenure is None:
            continue
        if entry.event_type == "TookOver":
            assert entry.tenure == owner.get(entry.stream, (0, ""))[0] + 1
            owner[entry.stream] = (entry.tenure, entry.origin)
        assert (entry.tenure, entry.origin) == owner[entry.stream], "a fenced owner wrote"


def _check_degraded(entries: Sequence[Entry]) -> None:
    """Behind an answer of the host's that took an input's key nothing of that input's run stands in the journal."""
    run_of = {
        entry.submission_id.partition(":")[2]: (entry.stream, entry.provenance.run_seq)
        for entry in entries
        if entry.event_type == "RunRequested"
    }
    over: set[tuple[str, int]] = set()
    for entry in entries:
        of_run = (entry.stream, entry.provenance.run_seq)
        assert of_run not in over, f"{entry.submission_id} stands behind the host's answer to its input"
        about = (entry.once or "").partition("turn:")[2]
        if entry.event_type == "TurnDegraded" and about in run_of:
            over.add(run_of[about])


def _check_memory_writes(entries: Sequence[Entry]) -> None:
    """HO3 logs and does nothing else; what it learned rests on events that were logged before."""
    events: set[str] = set()
    for entry in entries:
        is_memorys = entry.origin.startswith("ho3/")
        assert is_memorys == (entry.stream in ("signals", "overlays")), "memory wrote elsewhere, or somebody else there"
        if entry.event_type == "HO3_SIGNAL":
            events.add(entry.submission_id.partition("/")[2])
        elif entry.event_type == "HO3_OVERLAY":
            assert events >= set(_payload(entry)["source_event_ids"]), "an artifact rests on what was never logged"


def _check_memory_lines(entries: Sequence[Entry]) -> None:
    """Every memory line of an order was named before, by id, in a CONTEXT_ASSEMBLED of its run."""
    named: dict[tuple[str, int], set[str]] = {}
    for entry in entries:
        run = (entry.provenance.session_id, entry.provenance.run_seq)
        if entry.event_type == "CONTEXT_ASSEMBLED":
            named.setdefault(run, set()).update(row["artifact_id"] for row in _payload(entry)["ho3_biases"])
        elif entry.event_type == "WO_DISPATCHED" and entry.stream.startswith("session/"):
            inputs = _payload(entry)["event"]["order"].get("input_context", [])
            shown = {segment["artifact_id"] for segment in inputs if segment.get("artifact_id")}
            assert named.get(run, set()) >= shown, "a prompt shows a memory line that no record names"


def _check_consolidations(entries: Sequence[Entry]) -> None:
    """The answer of the turn that named the signal stands before the consolidation begins; one of each artifact."""
    stood: set[str] = set()
    artifacts = Counter(e.submission_id for e in entries if e.event_type == "HO3_OVERLAY")
    assert all(count == 1 for count in artifacts.values())
    for entry in entries:
        if entry.event_type == "WO_DISPATCHED" and entry.stream == "ho2m":
            assert len(entry.parents) == 1 and stood.issuperset(entry.parents), "consolidated before the answer stood"
        elif entry.event_type == "RunCompleted":
            stood.add(entry.submission_id)


def _payload(entry: Entry) -> dict[str, Any]:
    """Body 0."""
    value: dict[str, Any] = _decoded(entry.bodies[0])
    return value


def answers_of(entries: Sequence[Entry], input_id: str) -> list[str]:
    """Submission ids of the entries that answer this input."""
    return [
        entry.submission_id
        for entry in entries
        if entry.once and entry.once.startswith("turn:") and entry.once.endswith(f"/{input_id}")
    ]


def answer_text(entries: Sequence[Entry], input_id: str) -> str | None:
    """The words with which the record answers this input: as the host delivered them, else as its run ended."""
    ends = [one for one in entries if (one.once or "").endswith(f"/{input_id}")]
    told = [one for one in ends if (one.once or "").startswith("delivered:")] or [
        one for one in ends if (one.once or "").startswith("turn:")
    ]
    if not told:
        return None
    bodies = told[-1].bodies
    if told[-1].event_type == "TurnDegraded":
        return (bodies[2] or b"").decode()
    return unpack(bodies[1] or b"")["response"] if len(bodies) > 1 else None


def count_of(entries: Sequence[Entry], event_type: str) -> int:
    """How many entries of a type there are."""
    return sum(entry.event_type == event_type for entry in entries)
