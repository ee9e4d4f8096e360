"""Where a session stands, by the last entries of its journal: its run, what that waits for, who owns it. Pure.

The reducer needs the whole journal, or a snapshot and what follows it; this needs the entries since the newest run was
requested, and tells what a listing shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bus.messages import session as events
from bus.messages.ledger import Entry
from bus.messages.session import HostCommand, SessionEventKind
from bus.record.journal import recorded

_BEGINNINGS = frozenset({"RunRequested", "RunCompleted", "RunFailed", "RunCancelled", "SESSION_START", "SESSION_END"})
"""Entries before which nothing bears on the run that is active now."""


@dataclass(frozen=True, slots=True)
class HeldNow:
    """A tool call that waits for an operator."""

    call_id: str
    tool_id: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Standing:
    """The fold of a journal's end."""

    status: str = "open"
    lifecycle: str = "Idle"
    runs: int = 0
    owner: str = ""
    tenure: int = 0
    input_id: str = ""  # of the active run; empty: none
    epoch: int = 0
    held: list[str] = field(default_factory=list[str])
    pause_requested: bool = False
    updated_at_us: int = 0
    _asked: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict[str, tuple[str, dict[str, Any]]])
    _received: HostCommand | None = None

    def take(self, entry: Entry) -> SessionEventKind | None:
        """One more entry; its event, if it can be read."""
        self.updated_at_us = entry.ledger_at_us
        self.runs = max(self.runs, entry.provenance.run_seq)
        taken = recorded(entry)
        if taken is None:
            return None
        event, self.epoch = taken.event.event, taken.event.session_epoch
        if event.kind != "TurnDegraded":  # the host's own; all others are the owner's
            self.owner, self.tenure = entry.origin, entry.tenure or self.tenure
        if taken.event.run_id is not None:
            self.runs = max(self.runs, taken.event.run_id.run_seq)
        self._fold(event)
        return event

    def held_calls(self) -> list[HeldNow]:
        """Those that wait for an approval, with what the model asked for."""
        return [HeldNow(call, *self._asked.get(call, ("", {}))) for call in self.held]

    @property
    def waits_for(self) -> str:
        """What the run cannot go on without, in words; empty: nothing."""
        if self.lifecycle == "Paused":
            return "a resume"
        if self.held:
            return "approval of " + ", ".join(f"{one.call_id} {one.tool_id}".strip() for one in self.held_calls())
        return ""

    def _fold(self, event: SessionEventKind) -> None:
        match event:
            case events.RunRequested():
                self._cleared()
                self.input_id, self.lifecycle = event.input_id, "Running"
                self.runs += 1 if self.runs == 0 else 0
            case events.LifecycleChanged():
                self.lifecycle = event.lifecycle
                self.pause_requested = False
            case events.OrderEnded():
                self._remember_calls(event.receipt)
            case events.ToolBatchIssued():
                self.held = list(event.held)
            case events.HostCommandReceived():
                self._received = event.command
            case events.HostCommandApplied() if self._received is not None:
                self._applied(self._received)
            case events.RunCompleted() | events.RunFailed() | events.RunCancelled():
                self._cleared()
            case events.TurnDegraded() if event.input_id == self.input_id:
                self._cleared()
            case events.SessionEnded():
                self._cleared()
                self.status = "closed"
            case _:
                pass

    def _applied(self, command: HostCommand) -> None:
        match command.command:
            case events.Pause():
                self.pause_requested = True
            case events.Resume():
                self.pause_requested = False
                self.lifecycle = "Running" if self.lifecycle == "Paused" else self.lifecycle
            case events.Cancel():
                self.lifecycle, self.held = "Cancelling", []
            case events.Approve() | events.Deny():
                self.held = [call for call in self.held if call != command.command.call_id]
                if not self.held and self.lifecycle == "WaitingInput":
                    self.lifecycle = "Running"
            case _:
                pass

    def _remember_calls(self, receipt: dict[str, Any]) -> None:
        output = receipt.get("output_result") or {}
        if calls := output.get("tool_calls"):
            self._asked = {call["call_id"]: (call["tool_id"], dict(call["arguments"])) for call in calls}

    def _cleared(self) -> None:
        self.lifecycle, self.input_id, self.pause_requested, self._received = "Idle", "", False, None
        self.held, self._asked = [], {}


def is_enough(entries: Iterable[Entry], *, has_earlier: bool) -> bool:
    """Whether these last entries say where the session stands, or earlier ones are needed."""
    return not has_earlier or any(entry.event_type in _BEGINNINGS for entry in entries)


def standing_of(entries: Sequence[Entry]) -> Standing:
    """The fold of the last entries of a journal, oldest of them first."""
    standing = Standing()
    for entry in entries:
        standing.take(entry)
    return standing
