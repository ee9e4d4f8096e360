"""HO3: where READ and LOG arrive, and nothing else.

Rules are plain functions beside this file; `agent_memory.py` answers, `store.py` keeps it true to the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from hobus.actors.ho3_memory import acceptance, answers, limits, records
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.checkpoint import CheckpointFile
from hobus.actors.ho3_memory.database import DatabaseFailed, Databases
from hobus.actors.ho3_memory.event_time import PointInTime, convert_hours, format_timestamp, parse_micros, read_clock_us
from hobus.actors.ho3_memory.gate import compute_closed_until
from hobus.actors.ho3_memory.store import Logged, Store
from hobus.bus.dispatch import Actor, Call, name_sayer
from hobus.bus.errors import BusError, LedgerError, MemoryFault, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.limits import REASON_MAX_CHARS
from hobus.bus.messages import memory as m
from hobus.bus.messages.ids import derive_overlay_id
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.port import Bus, Disk
from hobus.config.snapshot import Snapshot


class Memory(Actor):
    """Answer READ and LOG; never act unasked, call no model.

    `failed` is set when the process must exit: its working store cannot be read or written.
    """

    service = "ho3"
    needs = ("ledger",)

    def __init__(self, *, snapshot: Snapshot, disk: Disk) -> None:
        config = snapshot.config.memory
        if config is None:
            raise ValueError("memory is off in this configuration (ho3.enabled): no memory process belongs to it")
        self._config = config
        self._ledger_config = snapshot.config.ledger
        self._vocabulary = snapshot.config.classify_labels
        self._agents = snapshot.map_agent_provenance()
        self._disk = disk
        self._open = asyncio.Event()
        self._at_what: Callable[[], str] = str
        self.failed: asyncio.Future[DatabaseFailed]

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, bus: Bus) -> None:
        """Touch nothing; the record is read in `ready`."""
        self._bus = bus
        self._ledger = LedgerClient(bus, self._ledger_config)
        self.failed = asyncio.get_running_loop().create_future()
        databases = Databases(self._disk, self.failed.set_result)
        self._store = Store(bus, self._ledger, CheckpointFile(self._disk), databases, self._config)
        self._at_what = lambda: self._store.at_what

    def starting(self) -> str:
        """Return how much of the record was read, where a start has to read much of it."""
        return self._at_what()

    async def ready(self) -> str:
        """Report ready once the derived state stands as the record has it."""
        try:
            await self._store.open()
        except RuntimeFault as fault:
            return f"ledger: {fault.code}"
        if self._store.is_checkpoint_due:
            await self._store.write_checkpoint()
        self._open.set()
        return ""

    async def drain(self) -> None:
        """Wait until what was logged is acknowledged or left to be logged again, and write a checkpoint."""
        if self._open.is_set():
            await self._ledger.flush()
            await self._store.write_checkpoint()

    def counters(self) -> dict[str, int]:
        return {"applied": self._store.applied_seq, "unacknowledged": self._ledger.outstanding}

    # --- READ -------------------------------------------------------------------------------------------------------

    async def on_read_signals(self, message: m.ReadSignals, call: Call) -> m.Signals:
        return answers.answer_signals(message, *await self._find_asked(message, call), page_max=limits.PAGE_MAX)

    async def on_read_overlays(self, message: m.ReadOverlays, call: Call) -> m.Overlays:
        name_sayer(call, message.principal)
        return answers.answer_overlays(message, *await self._find_asked(message, call), page_max=limits.PAGE_MAX)

    async def on_read_active_biases(self, message: m.ReadActiveBiases, call: Call) -> m.Biases:
        """Answer what may go into a prompt."""
        return answers.answer_biases(message, *await self._find_asked(message, call), page_max=limits.PAGE_MAX)

    async def on_read_review(self, message: m.ReadReview, call: Call) -> m.Review:
        """Answer what waits for a person, and what was refused."""
        memory, moment, as_of = await self._find_asked(message, call)
        return m.Review(
            pending=memory.artifacts.pending(moment, message.principal),
            quarantined=memory.quarantined(moment, message.principal),
            as_of=as_of,
        )

    async def on_check_gate(self, message: m.CheckGate, call: Call) -> m.GateChecked:
        """Answer one signal's gate; no side effects. Failures: unknown_events."""
        memory, moment, as_of = await self._find_asked(message, call)
        if message.event_id:
            known = memory.origins([message.event_id])
            if message.event_id not in known:
                raise MemoryFault("unknown_events", f"{message.event_id} was never logged")
            principal, _ = known[message.event_id]
            gate = memory.open_gate(message.signal_id, principal, moment)
        else:
            gate = memory.gate(message.signal_id, message.principal, moment)
        accumulator = memory.accumulator(message.signal_id, gate.principal, moment, with_ids=True)
        return m.GateChecked(gate=gate, accumulator=accumulator, as_of=as_of)

    async def on_read_stats(self, message: m.ReadMemoryStats, call: Call) -> m.MemoryStats:
        """Answer how much one agent's memory holds."""
        memory, moment, as_of = await self._find_asked(message, call)
        signals, events, overlays, active_overlays = memory.counts(moment)
        return m.MemoryStats(
            signals=signals,
            events=events,
            overlays=overlays,
            active_overlays=active_overlays,
            applied_seq=self._store.applied_seq,
            checkpoint_seq=self._store.checkpoint_seq,
            gate_mode=self._config.gate_mode,
            as_of=as_of,
        )

    # --- LOG --------------------------------------------------------------------------------------------------------

    async def on_log_signal(self, message: m.LogSignal, call: Call) -> m.SignalsLogged:
        """Make one source event durable."""
        return await self._log_signals(message.agent_id, [message.signal], call)

    async def on_log_signals(self, message: m.LogSignals, call: Call) -> m.SignalsLogged:
        """Make a turn's source events durable."""
        return await self._log_signals(message.agent_id, message.signals, call)

    async def on_log_overlay(self, message: m.LogOverlay, call: Call) -> m.OverlayLogged:
        """Make the artifact durable. Refused, nothing appended: invalid_overlay, unknown_events.

        Appended unless it is active, or this very logging stands in the record: that is the same message once more.
        """
        await self._wait_open(call)
        memory = self._store.memory(message.agent_id)
        sources = memory.origins(message.overlay.source_event_ids)
        artifact = acceptance.make_artifact(message.overlay, sources, self._config)
        acceptance.demand_acceptable(
            artifact, sources, memory, self._config, self._vocabulary, seq=self._store.applied_seq
        )
        log = memory.artifacts.log(artifact.artifact_id)
        is_superseded = memory.artifacts.is_superseded(artifact.artifact_id)
        if not acceptance.is_news(log, artifact, is_superseded=is_superseded):
            return self._make_overlay_logged(message.agent_id, artifact, is_new=False)
        earlier = 0 if log is None else log.change_count
        entry = records.make_overlay_entry(
            message.agent_id, artifact, earlier=earlier, trace=call.trace, at_us=self._read_clock_us()
        )
        logged = await self._log([entry], call)
        # Not new: the same artifact was being logged already, perhaps with other words, and came first.
        return self._make_overlay_logged(message.agent_id, artifact, is_new=any(logged.is_new))

    async def on_deactivate_overlay(self, message: m.DeactivateOverlay, call: Call) -> m.OverlayChanged:
        """Switch the artifact off from this event time on; off already, append nothing. Failures: unknown_artifact."""
        await self._wait_open(call)
        overlay = self._find_overlay(message, call)
        return await self._change(call, message) if overlay.artifact.enabled else m.OverlayChanged(overlay=overlay)

    async def on_activate_overlay(self, message: m.ActivateOverlay, call: Call) -> m.OverlayChanged:
        """Switch the artifact on from this event time on; on already, append nothing.

        Failures: unknown_artifact; rejected: it waits to be confirmed, which this is not.
        """
        await self._wait_open(call)
        overlay = self._find_overlay(message, call)
        if not overlay.artifact.enabled:
            return await self._change(call, message)
        if overlay.state == "pending" and not self._is_logged(message, call):
            waits = "is not off, it waits for a person: `hobus memory confirm"
            raise BusError("rejected", f"{message.artifact_id} {waits} {message.artifact_id}`")
        return m.OverlayChanged(overlay=overlay)

    async def on_confirm_overlay(self, message: m.ConfirmOverlay, call: Call) -> m.OverlayChanged:
        """Confirm a waiting constraint from this event time on; append nothing for one in force.

        Failures: unknown_artifact; rejected: it is off, which this does not end.
        """
        await self._wait_open(call)
        overlay = self._find_overlay(message, call)
        if overlay.state == "pending":
            return await self._change(call, message)
        if overlay.state == "off" and not self._is_logged(message, call):
            is_off = "is off, and does not wait: `hobus memory activate"
            raise BusError("rejected", f"{message.artifact_id} {is_off} {message.artifact_id}`")
        return m.OverlayChanged(overlay=overlay)

    async def on_update_overlay_weight(self, message: m.UpdateOverlayWeight, call: Call) -> m.OverlayChanged:
        """Set the artifact's weight from this event time on. Failures: unknown_artifact."""
        await self._wait_open(call)
        self._find_overlay(message, call)
        return await self._change(call, message)

    async def on_log_consolidation_failure(
        self, message: m.LogConsolidationFailure, call: Call
    ) -> m.ConsolidationFailureLogged:
        """Close the signal's gate for a while; an order's failure counts once, however often it is logged."""
        await self._wait_open(call)
        chars_max = REASON_MAX_CHARS
        message = message.model_copy(
            update={"reason": message.reason[:chars_max], "line": acceptance.escape_line(message.line)[:chars_max]}
        )
        width_us = convert_hours(self._config.gate_window_hours)
        window = parse_micros(message.at) // width_us
        entry = records.make_failure_entry(message, trace=call.trace, at_us=self._read_clock_us())
        if not self._store.memory(message.agent_id).has_failure(entry.submission_id):
            await self._log([entry], call)
        failed = self._store.memory(message.agent_id).list_failure_times(message.signal_id, message.principal)
        return m.ConsolidationFailureLogged(
            signal_id=message.signal_id,
            closed_until=format_timestamp(compute_closed_until(failed[-1], self._config)),
            failures=sum(at_us // width_us == window for at_us in failed),
        )

    # --- steps of the handlers --------------------------------------------------------------------------------------

    async def _find_asked(self, question: m.ReadAsOf, call: Call) -> tuple[AgentMemory, PointInTime, m.AsOf]:
        """Return whose memory is asked, as of when, and how the answer names that."""
        await self._wait_open(call)
        from_clock = question.as_of_ts is None
        at_us = self._read_clock_us() if question.as_of_ts is None else parse_micros(question.as_of_ts)
        head = self._store.applied_seq
        seq = head if question.as_of_seq is None else min(question.as_of_seq, head)
        as_of = m.AsOf(as_of_ts=format_timestamp(at_us), as_of_seq=seq, from_clock=from_clock)
        return self._store.memory(question.agent_id), PointInTime(at_us, seq), as_of

    async def _log_signals(self, agent_id: str, signals: Sequence[m.Signal], call: Call) -> m.SignalsLogged:
        await self._wait_open(call)
        if len(signals) > limits.SIGNALS_MAX:
            raise BusError("rejected", f"{len(signals)} events at once; at most {limits.SIGNALS_MAX}")
        facts = [records.make_signal_fact(agent_id, signal) for signal in signals]
        latest_us = max(fact.at_us for fact in facts)
        now_us = self._read_clock_us()
        entries = [records.make_signal_entry(agent_id, signal, trace=call.trace, at_us=now_us) for signal in signals]
        logged = await self._log(entries, call, said=facts)
        conflicts = [signal.event_id for signal, ack in zip(signals, logged.acks, strict=True) if not ack.is_first]
        if conflicts:
            raise MemoryFault(
                "event_conflict",
                f"{len(conflicts)} of {len(signals)} events stand in the record with another content: "
                f"{acceptance.name_some(conflicts)}; the others are logged",
            )
        moment = PointInTime(latest_us, self._store.applied_seq)
        memory = self._store.memory(agent_id)
        about = sorted({(signal.signal_id, signal.principal) for signal in signals})
        gates = [memory.open_gate(signal_id, principal, moment) for signal_id, principal in about]
        as_of = m.AsOf(as_of_ts=format_timestamp(latest_us), as_of_seq=moment.seq, from_clock=False)
        return m.SignalsLogged(new_count=sum(logged.is_new), gates=gates, as_of=as_of)

    async def _change(self, call: Call, message: records.Change) -> m.OverlayChanged:
        """Log a change and return the artifact as of it; sent again, it counts once."""
        entry = records.change_entry(
            message, name_sayer(call, message.principal), trace=call.trace, at_us=self._read_clock_us()
        )
        if not self._store.memory(message.agent_id).has_change(message.artifact_id, entry.submission_id):
            await self._log([entry], call)
        return m.OverlayChanged(overlay=self._find_overlay(message, call))

    def _is_logged(self, message: records.Change, call: Call) -> bool:
        """Return whether this very change is here: then it is that message once more."""
        entry = records.change_entry(
            message, name_sayer(call, message.principal), trace=call.trace, at_us=self._read_clock_us()
        )
        return self._store.memory(message.agent_id).has_change(message.artifact_id, entry.submission_id)

    def _make_overlay_logged(self, agent_id: str, artifact: m.Artifact, *, is_new: bool) -> m.OverlayLogged:
        log = self._store.memory(agent_id).artifacts.log(artifact.artifact_id)
        return m.OverlayLogged(
            overlay_id=derive_overlay_id(agent_id, artifact.artifact_id),
            artifact_id=artifact.artifact_id,
            is_new=is_new,
            is_active=log is not None and acceptance.find_present_state(log, artifact) == "active",
        )

    def _find_overlay(self, change: records.Change, call: Call) -> m.Overlay:
        """Return the artifact that a change is about, as of the change.

        Raises MemoryFault(unknown_artifact), also for another principal's than the change names; BusError(rejected) for
        too long a reason, BusError(denied) for a door that names none.
        """
        name_sayer(call, change.principal)
        if len(change.reason) > (chars_max := REASON_MAX_CHARS):
            raise BusError("rejected", f"a reason of {len(change.reason)} characters; at most {chars_max}")
        log = self._store.memory(change.agent_id).artifacts.log(change.artifact_id)
        moment = PointInTime(parse_micros(change.at), self._store.applied_seq)
        overlay = None if log is None else log.overlay(moment, is_superseded=False)
        if overlay is None or change.principal not in (None, overlay.artifact.principal):
            when = "" if log is None or overlay is not None else f" at {change.at}; it was made later"
            raise MemoryFault("unknown_artifact", f"agent {change.agent_id} has no artifact {change.artifact_id}{when}")
        return overlay

    async def _log(self, entries: Sequence[WriteEntry], call: Call, *, said: Sequence[records.Fact] = ()) -> Logged:
        """Make entries durable and count them; write a checkpoint if one is due: nothing runs here by itself."""
        named = [records.stamp_agent(entry, self._agents) for entry in entries]
        logged = await self._store.log(named, timeout_s=self._compute_left_s(call), said=said)
        for ack in logged.acks:
            if not ack.is_first and ack.code != "conflict":
                raise LedgerError(ack.code or "refused", f"the ledger refused {ack.submission_id}")
        if self._store.is_checkpoint_due:
            with suppress(TimeoutError):  # the next one that is logged goes on with it
                async with asyncio.timeout(self._compute_left_s(call)):
                    await self._store.write_checkpoint()
        return logged

    async def _wait_open(self, call: Call) -> None:
        """Wait until the record was read. Raises LedgerError(unavailable) when that takes too long."""
        self._store.demand_whole()
        if self._open.is_set():
            return
        try:
            async with asyncio.timeout(self._compute_left_s(call)):
                await self._open.wait()
        except TimeoutError:
            raise LedgerError("unavailable", "memory has not read the record yet; ask again") from None

    def _compute_left_s(self, call: Call) -> float:
        """Return the caller's time less what the answer's way takes, at most ledger.outage_wait_ms."""
        left_s = call.remaining_s(self._bus.clock.monotonic(), reserve_s=limits.REPLY_RESERVE_MS / 1000)
        return min(left_s, self._ledger_config.outage_wait_ms / 1000)

    def _read_clock_us(self) -> int:
        return read_clock_us(self._bus.now())
