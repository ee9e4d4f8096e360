"""Journals of one session for tests: events as the ledger gives them back."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session.journal import derive_counted_id, derive_event_id, make_envelope
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages import session
from hobus.bus.messages.ids import derive_body_ref
from hobus.bus.messages.ledger import Entry, Provenance, name_session_stream
from hobus.bus.messages.session import Command, HostCommand
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import pack_event
from hobus.bus.record.session_facts import SessionFact

SESSION = "11111111-2222-5333-8444-555555555555"
AT = "2026-01-01T00:00:00.000000Z"


class Written:
    """A journal that the reducer takes; `entries` is what a reader gets."""

    def __init__(self, session_id: str = SESSION) -> None:
        self.state = SessionState(session_id=session_id)
        self.entries: list[Entry] = []
        self.add(events.TookOver(tenure=1, instance="ho2/1@a", at=AT))
        self.add(
            events.SessionStarted(
                agent_id="ADMIN", session_config=session.SessionConfig(provider="offline", model="m"),
                max_in_flight_effects=8, at=AT,
            )
        )  # fmt: skip

    def add(self, event: SessionFact, *bodies: bytes, origin: str = "ho2/1@a") -> Written:
        one = make_envelope(self.state, event)
        outcome = reduce(self.state, one)
        if outcome.rejection is None:
            self.state = outcome.state
        run = self.state.run_id
        number = len(self.entries)
        session_id = self.state.session_id
        name = derive_event_id(session_id, event, run) or derive_counted_id(event.kind, session_id, 1, number)
        self.entries.append(
            Entry(
                sequence=number, submission_id=name, origin=origin, stream=name_session_stream(session_id),
                event_type=one.event.entry_name, decision="", reason="",
                provenance=Provenance(session_id=session_id, run_seq=0 if run is None else run.run_seq), parents=[],
                trace="", at_us=number, ledger_at_us=number, body_hashes=[], body_lengths=[],
                prev=self.entries[-1].submission_id if self.entries else "", tenure=1, once=None, chain=b"",
                bodies=[pack_event(one, name, number), *bodies],
            )
        )  # fmt: skip
        return self

    def run(self, input_id: str = "in-1", text: str = "hello") -> Written:
        ref = derive_body_ref(f"RunRequested:{self.state.session_id}/{input_id}", 1)
        self.add(
            events.RunRequested(
                input_ref=ref,
                input_id=input_id,
                input_digest="d",
                deadline_at=AT,
                config_digest="",
                at=AT,
            ),
            text.encode(),
        )
        return self.add(events.RunStarted(at=AT))

    def command(self, command: Command, command_id: str, *bodies: bytes, reason: str = "") -> Written:
        sent = HostCommand(command_id=command_id, issued_at=AT, command=command)
        self.add(events.HostCommandReceived(command=sent, at=AT), *bodies)
        if reason:
            return self.add(events.HostCommandRejected(command_id=command_id, reason=reason, at=AT))
        return self.add(events.HostCommandApplied(command_id=command_id, at=AT))

    def failed(self, input_id: str = "in-1") -> Written:
        return self.add(events.RunFailed(input_id=input_id, code="execution_error", at=AT))
