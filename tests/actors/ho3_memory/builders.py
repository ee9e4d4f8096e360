"""What memory's tests are made of: hours of one calendar, sessions, facts, artifacts, configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.builders import shipped_snapshot
from hobus.actors.ho3_memory.event_time import HOUR_US, PointInTime, format_timestamp, parse_micros
from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.ids import LOCAL, derive_artifact_id
from hobus.bus.messages.memory import Artifact, GateResult, Signal
from hobus.config.sections.record import Ho3Config
from hobus.config.snapshot import Snapshot

AGENT = "ADMIN"
SIGNAL = "tool:list_packages"
ZERO_US = parse_micros("2025-12-01T00:00:00.000000Z")
"""A month before the simulation's clock begins."""
BOB = "key/bob"
LATEST = PointInTime(2**62, 2**62)
"""Later than everything."""


def us(hours: float) -> int:
    """So many hours after the calendar's zero."""
    return ZERO_US + round(hours * HOUR_US)


def at(hours: float) -> str:
    return format_timestamp(us(hours))


def moment(hours: float, seq: int = 2**62) -> PointInTime:
    """As of so many hours, with every entry up to `seq`."""
    return PointInTime(us(hours), seq)


def session(number: int) -> str:
    return f"00000000-0000-5000-8000-{number:012d}"


def event_id(number: int, signal_id: str = SIGNAL) -> str:
    return f"EVT-{session(0)}-{number}-{signal_id}"


def signal(
    number: int, hours: float, of_session: int = 0, signal_id: str = SIGNAL, principal: str = LOCAL, **metadata: Any
) -> Signal:
    """An event as it is logged."""
    return Signal(
        event_id=event_id(number, signal_id),
        signal_id=signal_id,
        principal=principal,
        session_id=session(of_session),
        at=at(hours),
        metadata=metadata,
    )


def seen(
    number: int,
    hours: float,
    of_session: int = 0,
    signal_id: str = SIGNAL,
    *,
    seq: int | None = None,
    principal: str = LOCAL,
) -> Fact:
    """An event as the record has it; its number is its sequence unless said otherwise."""
    name = event_id(number, signal_id)
    place = number if seq is None else seq
    return Fact(
        "signal", place, AGENT, f"HO3_SIGNAL:{AGENT}/{name}", us(hours), signal_id, session(of_session),
        principal=principal,
    )  # fmt: skip


def gate_result() -> GateResult:
    return GateResult(
        signal_id=SIGNAL, crossed=True, count=5, session_count=3, already_consolidated=False, reason="crossed"
    )


def artifact(name: str = "one", hours: float = 0.0, **changed: Any) -> Artifact:
    """An artifact made at that hour, whose window ended then, resting on event 0 of SIGNAL."""
    fields: dict[str, Any] = {
        "artifact_id": derive_artifact_id(
            changed.get("principal", LOCAL), [SIGNAL], name, model="m", prompt_pack_version="1"
        ),
        "principal": LOCAL,
        "artifact_type": "task_pattern",
        "weight": 0.8,
        "scope": "agent",
        "context_line": "The user lists packages often.",
        "created_at_event_ts": at(hours),
        "source_signal_ids": [SIGNAL],
        "source_event_ids": [event_id(0)],
        "gate_snapshot": gate_result(),
        "model": "m",
        "prompt_pack_version": "1",
        "consolidation_event_ts": at(hours),
        "window_start": at(hours - 1),
        "window_end": at(hours),
    }
    return Artifact(**{**fields, **changed})


def logged(made: Artifact, seq: int) -> Fact:
    at_us, name = parse_micros(made.created_at_event_ts), f"HO3_OVERLAY:{made.artifact_id}/{seq}"
    return Fact("overlay", seq, AGENT, name, at_us, made.artifact_id, artifact=made)


def off(seq: int, hours: float, name: str = "ART-1") -> Fact:
    """An artifact switched off at that hour."""
    return Fact("deactivated", seq, AGENT, f"off {seq}", us(hours), name)


def weighed(seq: int, hours: float, weight: float, name: str = "ART-1") -> Fact:
    """An artifact weighed anew at that hour."""
    return Fact("weight", seq, AGENT, f"weight {seq}", us(hours), name, weight=weight)


def on(seq: int, hours: float, name: str = "ART-1") -> Fact:
    """An artifact switched on again at that hour."""
    return Fact("activated", seq, AGENT, f"on {seq}", us(hours), name)


def confirmed(seq: int, hours: float, name: str = "ART-1") -> Fact:
    """A constraint confirmed at that hour."""
    return Fact("confirmed", seq, AGENT, f"confirmed {seq}", us(hours), name)


def failed(seq: int, hours: float, signal_id: str = SIGNAL, principal: str | None = LOCAL, **texts: str) -> Fact:
    return Fact("failure", seq, AGENT, f"failed {seq}", us(hours), signal_id, principal=principal, **texts)


def config(**changed: Any) -> Ho3Config:
    """The shipped section ho3, counting unless said otherwise, with some settings changed."""
    shipped = shipped_snapshot().config.ho3
    assert shipped is not None
    return shipped.model_copy(update={"gate_mode": "counting", **changed})


def snapshot(**changed: Any) -> Snapshot:
    """The shipped configuration with that section."""
    loaded = shipped_snapshot()
    return replace(loaded, config=loaded.config.model_copy(update={"ho3": config(**changed)}))


def numbered(facts: list[Fact]) -> list[Fact]:
    """The same facts in this order of the log."""
    return [fact._replace(seq=seq) for seq, fact in enumerate(facts)]


def steps_of(asked: Any, ask: Any) -> int:
    """Return what SQLite does for a question to a memory or its signals, in steps of its machine."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection = asked._database._connection
    connection.set_progress_handler(count, 1)
    ask()
    connection.set_progress_handler(None, 1)
    return steps
