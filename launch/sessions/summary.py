"""Where a session stands, by the last entries of its journal: its run, what that waits for, who owns it. Pure.

The fold is the owner's, from the newest snapshot among these entries, or from the journal's first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from hobus.actors.ho2_supervisor.session.journal import NOTHING, Reduction, read_steps
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages.base import Record, make_from
from hobus.bus.messages.ids import LOCAL, format_iso_us, get_position
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import HeldCall
from hobus.bus.messages.work_order import OutputResult, Receipt
from hobus.bus.record.ends import end_in, read_result
from hobus.bus.record.journal import Recorded, read_agent, read_recorded
from hobus.bus.record.session_facts import OrderEnded, RunRequested, SessionEnded
from hobus.launch.sessions.steps import DENIED

if TYPE_CHECKING:
    from hobus.actors.ho2_supervisor.session.snapshot import Packed

LAST = 160
"""Entries of a journal's end that a look at it begins with: all of a short session, the last turns of a long one."""
MORE = 640
"""Where they do not say how it stands: more than lie between two snapshots (sessions.snapshot_entries, as shipped)."""


class SessionRow(Record):
    """One session in a list: whose, how it stands, and what it waits for."""

    session_id: str
    agent_id: str
    principal: Annotated[str, Meta(description="`local`, or `key/<name>`")]
    status: Annotated[str, Meta(description="open or closed")]
    cell: Annotated[str, Meta(description="to which it has moved; empty: it is here")]
    is_degraded: Annotated[bool, Meta(description="the host alone has answered in it so far")]
    lifecycle: str
    runs: Annotated[int, Meta(description="how many there were, the active one included")]
    owner: str
    tenure: int
    session_epoch: int
    held_calls: Annotated[
        list[HeldCall], Meta(description="tool calls that wait for an approval, with their arguments")
    ]
    waits_for: Annotated[str | None, Meta(description="in words; null: nothing")]
    active_input_id: str | None
    pause_requested: bool
    created_at: str
    updated_at: str
    last_outcome: Annotated[str, Meta(description="of its last turn that is over; empty: none is")]
    tools_failed: Annotated[list[str], Meta(description="tools of which a call failed in it; a denied one did not")]
    tools_denied: Annotated[list[str], Meta(description="tools of which a person denied a call in it")]
    end: Annotated[SessionEnded | None, Meta(description="why, by whom and after what it has ended")]

    @property
    def shown_state(self) -> str:
        """Return how the session stands, in a word or three."""
        if self.cell:
            return f"moved to {self.cell}"
        return "degraded" if self.is_degraded else "closed" if self.status == "closed" else self.lifecycle

    @classmethod
    def of(cls, start: Entry, standing: SessionStanding) -> SessionRow:
        state = standing.state
        return make_from(
            cls,
            state,
            standing,
            session_id=start.provenance.session_id,
            agent_id=read_agent(start) or start.provenance.agent_id,
            principal=state.principal or LOCAL,
            is_degraded=not state.is_started,
            lifecycle=standing.lifecycle,
            held_calls=standing.held_calls(),
            waits_for=standing.waits_for or None,
            active_input_id=standing.input_id or None,
            created_at=state.created_at or format_iso_us(start.ledger_at_us),
            updated_at=format_iso_us(standing.updated_at_us),
        )


@dataclass(slots=True)
class SessionStanding:
    """The fold of a journal's end."""

    state: SessionState = NOTHING
    updated_at_us: int = 0
    last_outcome: str = ""
    """Of the last turn that is over: success, degraded, failed, cancelled; empty: none is known."""
    tools_failed: list[str] = field(default_factory=list[str])
    tools_denied: list[str] = field(default_factory=list[str])
    end: SessionEnded | None = None
    """Why, by whom and after what the session has ended; None: it has not."""
    _input_ref: str = ""
    _asked: dict[str, HeldCall] = field(default_factory=dict[str, HeldCall])  # calls that were asked for last

    def take(self, entry: Entry) -> list[Reduction]:
        """Fold one more entry; return what it did. A whole snapshot stands for what was not read or does not read."""
        told = list(read_steps(self.state, entry))
        if told[-1].rejection and (held := _read_snapshot(told[-1].recorded, entry)) is not None:
            told = list(read_steps(held.state, entry))
        taken = told[-1]
        self.state, self.updated_at_us = taken.after, entry.ledger_at_us
        match taken.event:
            case RunRequested(input_ref=ref):
                self._input_ref = ref
            case SessionEnded() as end:
                self.end = end
            case OrderEnded(receipt=Receipt(output_result=OutputResult(tool_calls=[_, *_] as calls))):
                self._asked = {one.call_id: make_from(HeldCall, one) for one in calls}
            case _:
                pass
        if (one := taken.recorded) is not None and (ended := end_in(one.event.event, one)) is not None:
            result = read_result(one, ended.result_ref) if ended.became == "answered" else None
            answered = "success" if result is None else result.outcome
            self.last_outcome = answered if ended.became == "answered" else ended.became
            calls = [] if result is None else result.tool_calls
            unmade = {(one.tool_id, one.code == DENIED): None for one in calls if one.status == "Failed"}
            self.tools_failed, self.tools_denied = (
                [tool for tool, is_denied in unmade if is_denied is wanted] for wanted in (False, True)
            )
        return told

    @property
    def lifecycle(self) -> str:
        """Return where the session's run stands; a run that was asked for is one."""
        return "Running" if self.state.lifecycle == "Idle" and self.state.run is not None else self.state.lifecycle

    @property
    def input_id(self) -> str:
        """Return the active run's input; empty: none, or none that is still to be answered."""
        return "" if self.state.run is None or self.state.is_answered else self.state.run.input_id

    @property
    def input_ref(self) -> str:
        """Return where the text of the active run's input stands; empty: there is none."""
        return self._input_ref if self.input_id else ""

    @property
    def runs(self) -> int:
        return self.state.next_run_seq - 1

    @property
    def held(self) -> list[str]:
        batch = self.state.tool_batch
        return [] if batch is None or self.lifecycle == "Cancelling" else batch.held

    def held_calls(self) -> list[HeldCall]:
        asked = [(name, self._asked.get(get_position(name))) for name in self.held]
        return [
            HeldCall(call_id=name, tool_id="") if one is None else one.model_copy(update={"call_id": name})
            for name, one in asked
        ]

    @property
    def waits_for(self) -> str:
        """Return what the run cannot go on without, in words; empty: nothing."""
        if self.lifecycle == "Paused":
            return "a resume"
        if self.held:
            return "approval of " + ", ".join(f"{one.call_id} {one.tool_id}".strip() for one in self.held_calls())
        if self.state.awaited_orders:
            return "a model" if self.state.tool_batch is None else "a tool"
        return ""


def is_enough(entries: Sequence[Entry], *, has_earlier: bool) -> bool:
    """Return whether these last entries say where the session stands; False: earlier ones are needed."""
    return not has_earlier or any(
        entry.event_type == "STATE_SNAPSHOT" and _read_snapshot(read_recorded(entry), entry) is not None
        for entry in entries
    )


def fold_standing(entries: Sequence[Entry]) -> SessionStanding:
    """Fold the last entries of a journal, oldest of them first."""
    standing = SessionStanding()
    for entry in entries:
        standing.take(entry)
    return standing


def _read_snapshot(one: Recorded | None, entry: Entry) -> Packed | None:
    from hobus.actors.ho2_supervisor.session import snapshot  # noqa: PLC0415 - few ends need one; a list loads without

    packed = None if one is None else snapshot.read_packed(one, entry.prev)
    return packed if isinstance(packed, snapshot.Packed) else None
