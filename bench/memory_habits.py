"""What `bench.memory_store` fills a memory with: events of habits, and what was learned of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.builders import shipped_snapshot
from bench.memory_eval.worlds import DAY_US
from hobus.actors.ho3_memory.event_time import timestamp_of
from hobus.bus.messages.ids import LOCAL, artifact_id
from hobus.bus.messages.memory import Artifact, GateResult, Labels, Signal

AGENT = "ADMIN"
EVENTS_PER_SESSION = 3
_SESSION = "00000000-0000-5000-8000-{:012d}"
VOCABULARY = shipped_snapshot().config.classify_labels


def name_of(number: int) -> str:
    """The signal of a habit."""
    return f"tool:t{number}"


def session_of(number: int) -> str:
    return _SESSION.format(number)


def event_id_of(name: str, session_id: str, run: int) -> str:
    return f"EVT-{session_id}-{run}-{name}"


def event_ids_of(name: str, count: int) -> list[str]:
    """So many events of a habit, a few in each session."""
    return [
        event_id_of(name, session_of(place // EVENTS_PER_SESSION), place % EVENTS_PER_SESSION + 1)
        for place in range(count)
    ]


def signal_of(name: str, session_id: str, run: int, at_us: int) -> Signal:
    """One event."""
    return Signal(
        event_id=event_id_of(name, session_id, run), signal_id=name, principal=LOCAL, session_id=session_id,
        at=timestamp_of(at_us),
    )  # fmt: skip


def labels_of(number: int) -> Labels:
    """What a turn is about that asks for this one's: one label of each kind."""
    domain, task = VOCABULARY.domain, VOCABULARY.task
    return Labels(domain=[domain[number % len(domain)]], task=[task[number % len(task)]])


def artifact_of(number: int, event_ids: Sequence[str], at_us: int) -> Artifact:
    """What was learned of a habit then."""
    name, at = name_of(number), timestamp_of(at_us)
    domain, task = VOCABULARY.domain, VOCABULARY.task
    return Artifact(
        artifact_id=artifact_id(LOCAL, [name], at_us, model="m", prompt_pack_version="1"), principal=LOCAL, artifact_type="task_pattern",
        labels=Labels(domain=[domain[number % len(domain)]], task=[task[number // len(domain) % len(task)]]),
        weight=(number % 100 + 1) / 100, scope="agent", created_at_event_ts=at, consolidation_event_ts=at,
        expires_at_event_ts=timestamp_of(at_us + 90 * DAY_US), window_start=timestamp_of(at_us - 1), window_end=at,
        context_line=f"User habit {number}: often inspects part {number % 977} of the package structure.",
        source_signal_ids=[name], source_event_ids=list(event_ids),
        gate_snapshot=GateResult(
            signal_id=name, crossed=True, count=5, session_count=3, already_consolidated=False, reason="crossed"
        ),
    )  # fmt: skip
