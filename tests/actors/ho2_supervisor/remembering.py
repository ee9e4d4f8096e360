"""A stand-in for HO3 that answers as a test wants it, and artifacts to answer with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import LOCAL
from hobus.bus.messages.memory import (
    Accumulator,
    Artifact,
    AsOf,
    Bias,
    Biases,
    CheckGate,
    ConsolidationFailureLogged,
    GateChecked,
    GateResult,
    InForce,
    Labels,
    LogConsolidationFailure,
    LogOverlay,
    LogSignals,
    OverlayLogged,
    ReadActiveBiases,
    SignalsLogged,
)
from hobus.bus.port import Bus

AT = "2026-01-01T00:00:00.000000Z"


def bias(artifact_id: str, *, decay: float = 1.0, **fields: Any) -> Bias:
    """An artifact in force; about the domain `system` unless said otherwise."""
    values: dict[str, Any] = {
        "artifact_id": artifact_id, "principal": LOCAL, "artifact_type": "topic_affinity", "labels": Labels(domain=["system"]),
        "weight": 0.5, "scope": "agent", "context_line": f"line of {artifact_id}", "created_at_event_ts": AT,
        "source_signal_ids": ["domain:system"], "source_event_count": 1, "source_event_digest": "00",
        "consolidation_event_ts": AT,
        "window_start": AT, "window_end": AT,
    }  # fmt: skip
    return Bias(overlay_id=f"OVL-{artifact_id}", artifact=InForce(**{**values, **fields}), decay=decay)


def crossed(signal_id: str) -> GateResult:
    """A gate that is open."""
    return GateResult(
        signal_id=signal_id, crossed=True, count=5, session_count=3, already_consolidated=False, reason="5 of 5",
        principal=LOCAL, principal_count=1,
    )  # fmt: skip


@dataclass
class Remembering(Actor):
    """HO3 by script."""

    biases: list[Bias] = field(default_factory=list)
    crossing: Callable[[str], bool] = lambda _: False
    delay_s: float = 0.0
    page_max: int = 1000
    fault: RuntimeFault | None = None
    reads: list[ReadActiveBiases] = field(default_factory=list)
    logs: list[LogSignals] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)
    checks: list[CheckGate] = field(default_factory=list)
    event_ids: list[str] = field(default_factory=list)
    overlays: list[Artifact] = field(default_factory=list)
    failures: list[LogConsolidationFailure] = field(default_factory=list)
    overlay_fault: RuntimeFault | None = None
    service = "ho3"

    async def start(self, bus: Bus) -> None:
        self.bus = bus

    async def on_read(self, message: ReadActiveBiases, call: Call) -> Biases:
        self.reads.append(message)
        await self._wait()
        begin = message.after + 1
        page = self.biases[begin : begin + self.page_max]
        is_last = begin + len(page) >= len(self.biases)
        further = None if is_last else begin + len(page) - 1
        return Biases(biases=page, next=further, as_of=self._as_of(message.as_of_ts))

    async def on_log(self, message: LogSignals, call: Call) -> SignalsLogged:
        self.logs.append(message)
        await self._wait()
        self.answered_at.append(self.bus.now())
        ids = sorted(signal.signal_id for signal in message.signals)
        gates = [
            crossed(one).model_copy(update={"crossed": self.crossing(one)})
            for one in ids
        ]  # fmt: skip
        return SignalsLogged(new_count=len(ids), gates=gates, as_of=self._as_of(message.signals[0].at))

    async def on_check(self, message: CheckGate, call: Call) -> GateChecked:
        """Open until its signal is consolidated or has failed."""
        self.checks.append(message)
        await self._wait()
        is_done = any(message.signal_id in overlay.source_signal_ids for overlay in self.overlays)
        has_failed = any(message.signal_id == failure.signal_id for failure in self.failures)
        gate = crossed(message.signal_id).model_copy(
            update={"crossed": not is_done and not has_failed, "already_consolidated": is_done}
        )
        evidence = Accumulator(
            signal_id=message.signal_id, principal=LOCAL, count=5, last_seen=AT, session_ids=["s1", "s2", "s3"],
            event_ids=self.event_ids, decay=1.0,
        )  # fmt: skip
        return GateChecked(gate=gate, accumulator=evidence, as_of=self._as_of(message.as_of_ts))

    async def on_overlay(self, message: LogOverlay, call: Call) -> OverlayLogged:
        await self._wait()
        if self.overlay_fault is not None:
            raise self.overlay_fault
        assert isinstance(message.overlay, Artifact)
        self.overlays.append(message.overlay)
        return OverlayLogged(overlay_id="OVL-1", artifact_id=message.overlay.artifact_id, is_new=True, is_active=True)

    async def on_failure(self, message: LogConsolidationFailure, call: Call) -> ConsolidationFailureLogged:
        self.failures.append(message)
        return ConsolidationFailureLogged(signal_id=message.signal_id, closed_until=AT, failures=1)

    async def _wait(self) -> None:
        await self.bus.sleep(self.delay_s)
        if self.fault is not None:
            raise self.fault

    def _as_of(self, as_of_ts: str | None) -> AsOf:
        return AsOf(as_of_ts=as_of_ts or AT, as_of_seq=41, from_clock=as_of_ts is None)
