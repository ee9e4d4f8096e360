"""The state that a session's journal folds to (`aos.agent/SessionState@1` and our extensions), and what may follow it.

Values, and the table of the life cycle, from which check and tests are made; what changes a state is
`reducer.reduce`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from hobus.actors.ho2_supervisor.session.intents import NO_INTENTS, Intents
from hobus.bus.messages.base import Count, Record, Timestamp, canonical_bytes
from hobus.bus.messages.ids import (
    InputId,
    RunId,
    Sequence,
    SessionId,
    StepId,
    ToolBatchId,
    TurnId,
    get_position,
    is_beside,
)
from hobus.bus.messages.session import HostCommand, Lifecycle, ModelChoice, RunConfig, SessionConfig
from hobus.bus.messages.work_order import Fence
from hobus.bus.record.session_facts import LeaseIssued, LeaseTerms, OpenCalls

CallState = Literal["Pending", "Succeeded", "Failed", "IgnoredStale", "Cancelled"]


class CallStatus(Record):
    """What became of one tool call (`aos.agent/ToolCallStatus@1`); every status but Pending is final."""

    state: CallState
    code: str = ""

    @property
    def is_terminal(self) -> bool:
        """Return whether nothing more can happen to this call."""
        return self.state != "Pending"


class ActiveToolBatch(Record):
    """The one fan-out of the current round (`aos.agent/ActiveToolBatch@1`)."""

    tool_batch_id: ToolBatchId
    issued_at_step_epoch: Count
    expected_call_ids: list[str]
    call_status: dict[str, CallStatus]
    held: list[str] = field(default_factory=list[str])  # names (`ids.derive_held_id`) of calls that wait for a person
    needs_other: bool = False  # whoever asked for the run may not approve them

    @property
    def is_complete(self) -> bool:
        """Return whether every call is terminal: only then may the next step begin."""
        return all(self.call_status[call].is_terminal for call in self.expected_call_ids)

    def may_run(self, call_id: str) -> bool:
        """Return whether an order for this call may be dispatched: it is pending, and needs no approval first."""
        return not self.call_status[call_id].is_terminal and self.find_held_name(call_id) is None

    def find_held_name(self, call_id: str) -> str | None:
        """Return the name under which this call waits for an Approve or a Deny; None: it does not wait."""
        return next((name for name in self.held if get_position(name) == call_id), None)

    def with_status(self, call_id: str, status: CallStatus) -> ActiveToolBatch:
        """Return the batch with the call's new status; the call is held no more."""
        held = [name for name in self.held if get_position(name) != call_id]
        return self.model_copy(update={"call_status": self.call_status | {call_id: status}, "held": held})


class RunState(Struct, frozen=True, array_like=True):
    """The state of the active run; gone once the run is answered and none of its orders is open."""

    run_id: RunId
    input_id: InputId
    deadline_at: Timestamp
    config_digest: str
    overrides: SessionConfig | None
    model: ModelChoice | None
    lease_terms: LeaseTerms | None
    pending_steer: list[str]
    step_orders: list[str]
    open_orders: list[str]
    asked_by: list[str]  # principals: who asked for it, and who steered it since
    config: RunConfig | None = None
    turn_id: TurnId | None = None
    step_id: StepId | None = None
    tool_batch: ActiveToolBatch | None = None
    lease: LeaseIssued | None = None
    last_heartbeat_at: Timestamp | None = None
    pause_requested: bool = False
    waiting_since: Timestamp | None = None  # Paused or WaitingInput from then on; that time is added to the deadline
    cancel_reason: str | None = None

    @property
    def next_turn_seq(self) -> int:
        return 1 if self.turn_id is None else self.turn_id.turn_seq + 1

    @property
    def next_step_seq(self) -> int:
        return 1 if self.step_id is None else self.step_id.step_seq + 1

    @property
    def awaited_orders(self) -> list[str]:
        """Return the ids of orders on their way that a step waits for."""
        return [wo_id for wo_id in self.open_orders if not is_beside(wo_id)]

    @property
    def is_in_flight(self) -> bool:
        """Return whether an awaited order is on its way or calls of a batch are pending: no step boundary."""
        return bool(self.awaited_orders) or (self.tool_batch is not None and not self.tool_batch.is_complete)


class SessionState(Struct, frozen=True, array_like=True):
    """The state of a session after a prefix of its journal. No part is ever changed in place."""

    session_id: SessionId
    lifecycle: Lifecycle = "Idle"
    session_epoch: Count = 0
    step_epoch: Count = 0
    next_run_seq: Sequence = 1
    session_config: SessionConfig = SessionConfig()
    max_in_flight_effects: Count = 0
    run: RunState | None = None
    pending_follow_up: list[str] = []
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None

    # our extensions
    agent_id: str | None = None
    principal: str = ""  # whose session it is; empty: not started
    status: Literal["open", "closed"] = "open"
    tenure: Count = 0
    owner: str = ""
    received_command: HostCommand | None = None  # it came, and is neither applied nor rejected yet
    received_from: str = ""  # its principal
    follow_up_by: dict[str, str] = {}  # ref -> who said it, of those that wait
    applied_command_ids: list[str] = []
    applied_commands_max: Count | None = None
    open_calls: OpenCalls | None = None  # of the newest answered turn
    failed: RunState | None = None  # the newest run, if it ran out of time and nothing came since: it may go on
    intents: Intents = NO_INTENTS
    cell: str = ""  # where it goes on, since it left; empty: here

    @property
    def is_started(self) -> bool:
        """Return whether SESSION_START was recorded (a stream may begin with TurnDegraded)."""
        return self.agent_id is not None

    @property
    def run_id(self) -> RunId | None:
        """Return the id of the active run; None: there is none."""
        return None if self.run is None else self.run.run_id

    def name_active_run(self) -> str:
        """Return a clause that says which run is active."""
        return "no run is active" if self.run is None else f"the active run is {self.run.run_id}"

    @property
    def is_answered(self) -> bool:
        """Return whether the active run has its answer, and only what its classification brings is to come."""
        return self.lifecycle == "Completed"

    @property
    def tool_batch(self) -> ActiveToolBatch | None:
        """Return the active run's batch of tool calls; None: it has none."""
        return None if self.run is None else self.run.tool_batch

    @property
    def open_orders(self) -> list[str]:
        """Return the ids of the active run's orders that are on their way."""
        return [] if self.run is None else self.run.open_orders

    @property
    def awaited_orders(self) -> list[str]:
        """Return the ids of open orders that a step waits for."""
        return [] if self.run is None else self.run.awaited_orders

    @property
    def pending_steer(self) -> list[str]:
        """Return the refs of steers that the active run's next round observes."""
        return [] if self.run is None else self.run.pending_steer

    @property
    def pause_requested(self) -> bool:
        """Return whether the active run pauses at its next step boundary."""
        return self.run is not None and self.run.pause_requested

    @property
    def deadline_at(self) -> str | None:
        """Return when the active run is due; None: there is no run."""
        return None if self.run is None else self.run.deadline_at

    @property
    def lease(self) -> LeaseIssued | None:
        """Return the active run's lease; None: it has none."""
        return None if self.run is None else self.run.lease

    @property
    def fence(self) -> Fence:
        """Return what an order issued now carries. Only while a run is active."""
        if self.run is None:
            raise ValueError(f"session {self.session_id} has no active run")
        return Fence(run_id=self.run.run_id, session_epoch=self.session_epoch, step_epoch=self.step_epoch)


def replace_run(state: SessionState, run: RunState, **changes: Any) -> SessionState:
    return replace(state, run=replace(run, **changes))


def resolve_run_config(
    base: SessionConfig, overrides: SessionConfig | None, model: ModelChoice | None
) -> RunConfig | None:
    """Merge the overrides field by field over the session's configuration, with the chosen model.

    None if provider or model stay blank.
    """
    given = {} if overrides is None else {name: value for name, value in asdict(overrides).items() if value is not None}
    merged = asdict(base) | given | ({} if model is None else asdict(model))
    if not (merged["provider"] or "").strip() or not (merged["model"] or "").strip():
        return None
    return RunConfig(**{name: merged[name] for name in RunConfig.__struct_fields__ if name in merged})


def find_named_template(base: SessionConfig, overrides: SessionConfig | None) -> str | None:
    """Return the attention template that a run asks for, else its session; None: neither does."""
    own = None if overrides is None else overrides.attention_template
    return base.attention_template if own is None else own


def raise_epochs(state: SessionState) -> SessionState:
    """Raise both epochs by one: every receipt of what was issued before is stale from now on."""
    return replace(state, session_epoch=state.session_epoch + 1, step_epoch=state.step_epoch + 1)


def pack_state(state: SessionState) -> bytes:
    return canonical_bytes(state)


def hash_state(state: SessionState) -> str:
    """Return SHA-256 of the canonical state bytes, in hex."""
    return hashlib.sha256(pack_state(state)).hexdigest()


# --- the life cycle ---------------------------------------------------------------------------------------------------

TRANSITIONS: Mapping[Lifecycle, tuple[Lifecycle, ...]] = MappingProxyType(
    {
        "Idle": ("Running",),
        "Running": ("WaitingInput", "Paused", "Cancelling", "Completed", "Failed"),
        "WaitingInput": ("Running", "Paused", "Cancelling", "Completed", "Failed"),
        "Paused": ("Running", "Cancelling"),
        "Cancelling": ("Cancelled",),
        "Completed": ("Idle",),
        "Failed": ("Idle",),
        "Cancelled": ("Idle",),
    }
)
"""Failed and Cancelled are left again by the event that ends the run; so is Completed, unless an order is open: its end
leaves it. TurnDegraded is legal in every state: it ends the active run at once, past the table, by way of Cancelled."""


def walk(source: Lifecycle, *path: Lifecycle) -> Lifecycle | None:
    """Return the last state of the path if every step of it stands in the table, else None."""
    for target in path:
        if target not in TRANSITIONS[source]:
            return None
        source = target
    return source


# --- what an event does -----------------------------------------------------------------------------------------------


@final
class Rejected(Struct, frozen=True):
    """Say that the event does not apply; the state is the one before it, timestamps included."""

    reason: str


Verdict = SessionState | Rejected
"""What one rule says of one event: the state after it, but for when it changed last."""

Effect = Literal["run_stops"]
"""The run is being cancelled: whoever drives it issues nothing more, closes what is open, and ends it."""


class Reduced(Struct, frozen=True):
    """The answer of `reduce`: the new state and its effects, or the unchanged one beside `rejection`."""

    state: SessionState
    effects: tuple[Effect, ...] = ()
    rejection: Rejected | None = None
