"""A cluster with a session host, and an HO2 that does what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.builders import SESSION
from hobus.actors.session_host.actor import SessionHost
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Entry, Write, WriteEntry, Written, name_session_stream
from hobus.bus.messages.session import (
    Consolidate,
    EndSession,
    ProcessTurn,
    SessionClosed,
    SessionReady,
    StartSession,
    TurnReply,
    TurnRequest,
    TurnResult,
)
from hobus.bus.record.journal import pack_event
from hobus.bus.record.session_facts import SessionEvent, SessionFact, TookOver
from tests.gateway_service.rig import Cluster, Scripted

Act = Callable[[TurnRequest], Awaitable[TurnReply]]


def result_of(message: TurnRequest, **changes: Any) -> TurnResult:
    """HO2's result for a turn."""
    values: dict[str, Any] = {
        "response": "from HO2", "outcome": "success", "session_id": message.session_id, "run_id": None,
        "input_id": message.input_id,
    }  # fmt: skip
    return TurnResult(**{**values, **changes})


class Supervisor(Actor):
    """HO2 as the test wants it."""

    service = "ho2"

    def __init__(self) -> None:
        self.act: Act | None = None
        self.fault: RuntimeFault | None = None
        self.started: list[StartSession] = []
        self.turns: list[TurnRequest] = []
        self.cancelled = 0
        self.consolidates: list[Consolidate] = []

    async def on_consolidate(self, message: Consolidate, call: Call) -> None:
        self.consolidates.append(message)

    async def on_start(self, message: StartSession, call: Call) -> SessionReady:
        self.started.append(message)
        return SessionReady(session_id=message.session_id or "", agent_id=message.agent_id or "", is_new=True)

    async def on_turn(self, message: TurnRequest, call: Call) -> TurnReply:
        self.turns.append(message)
        if message.start is not None:
            self.started.append(message.start)
        if self.fault is not None:
            raise self.fault
        try:
            return TurnReply(result=result_of(message)) if self.act is None else await self.act(message)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def on_end(self, message: EndSession, call: Call) -> SessionClosed:
        if self.fault is not None:
            raise self.fault
        return SessionClosed(session_id=message.session_id, turn_count=len(self.turns))


class Hosted(Cluster):
    """A cluster with a session host and a scripted HO2."""

    def __init__(self, provider: Any = None, **sections: dict[str, Any]) -> None:
        super().__init__(provider or Scripted(), **sections)
        self.ho2 = Supervisor()
        self.ho2_peer = self.world.start(self.ho2, role="ho2", slots=1)
        self.start_host()
        self.run(self.host_ready())

    def start_host(self) -> None:
        disk = self.world.disk("host")
        self.actor = SessionHost(snapshot=self.snapshot, spool=disk)
        self.host_peer = self.world.start(self.actor, role="host", disk=disk)

    async def host_ready(self) -> None:
        await self.world.settled()
        await self.ask_host(ProcessTurn(session_id=SESSION, input_id="warm-up", text=" "))

    async def ask_host(self, message: ProcessTurn, timeout_s: float = 10.0) -> TurnResult:
        return await self.operator.request("host", message, expect=TurnResult, timeout_s=timeout_s)

    async def turn(self, text: str = "hello", *, timeout_s: float = 10.0, **changes: Any) -> TurnResult:
        values: dict[str, Any] = {"session_id": SESSION, "input_id": "in-1", "text": text}
        return await self.ask_host(ProcessTurn(**{**values, **changes}), timeout_s)

    async def stream(self, session_id: str = SESSION) -> list[Entry]:
        return await self.entries(name_session_stream(session_id), rests_s=2)

    async def write(self, *entries: WriteEntry) -> None:
        """Each by the role that writes such entries."""
        ho2 = self.world.client("ho2")  # the one that answers may be dead
        for entry in entries:
            writer = self.host_peer if entry.event_type == "TurnDegraded" else ho2
            named = entry._replace(submission_id=entry.submission_id.replace("WRITER", writer.instance))
            written = await writer.request("ledger", Write(entries=[named]), expect=Written, timeout_s=2)
            assert [ack.outcome for ack in written.acks] == ["committed"]

    def kill_ho2(self) -> None:
        self.world.kill(self.ho2_peer.instance)


def journal(event: SessionFact, prev: str, submission_id: str, *, body: bytes = b"", once: bool = False) -> WriteEntry:
    """A journal entry as HO2 writes it."""
    envelope = SessionEvent(session_id=SESSION, session_epoch=0, step_epoch=0, event=event)
    return WriteEntry(
        submission_id=submission_id, stream=name_session_stream(SESSION), event_type=envelope.event.entry_name, at_us=1,
        bodies=[pack_event(envelope, submission_id, 1), *([body] if body else [])], prev=prev, tenure=1,
        once=f"turn:{SESSION}/in-1" if once else None,
    )  # fmt: skip


TAKEN = journal(TookOver(tenure=1, instance="ho2/9@x", at=format_iso(1.0)), "", f"TookOver:{SESSION}/1")
