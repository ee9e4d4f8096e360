"""One entry of each session event, with everything in it that can be in it; some kinds in two forms."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session import journal
from hobus.bus.messages import session
from hobus.bus.messages.ids import RunId, StepId, ToolBatchId, TurnId, format_iso
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.messages.work_order import Caller, Receipt, ToolSpec, WorkOrder
from hobus.bus.record import session_facts as events
from hobus.bus.record.session_facts import SESSION_FACTS, SessionEvent, SessionFact

SESSION = "11111111-2222-5333-8444-555555555555"
AT_S = 1_767_225_600
AT_US = AT_S * 1_000_000
RUN = RunId(session_id=SESSION, run_seq=7)
TURN = TurnId(run_id=RUN, turn_seq=2)
STEP = StepId(turn_id=TURN, step_seq=3)
BATCH = ToolBatchId(step_id=STEP, batch_seq=1)
WO = f"WO-{SESSION}-7.2.3"
FENCE = {"run_id": {"session_id": SESSION, "run_seq": 7}, "session_epoch": 1, "step_epoch": 9}
COMMAND = {"command_id": "c1", "issued_at": format_iso(AT_S - 1)}
CONFIG = session.SessionConfig(
    provider="offline",
    model="rules",
    reasoning_effort="Low",
    max_tokens=100,
    caller_tools=[ToolSpec(tool_id="t", description="d", parameters={"type": "object"})],
    tool_choice="auto",
    output_schema={"type": "object", "default": None},
)


def at(seconds: float = 0.0) -> str:
    """So long after the entry's own time."""
    return format_iso(AT_S + seconds)


SAMPLES: dict[str, SessionFact] = {
    "SessionStarted": events.SessionStarted(
        agent_id="ADMIN", session_config=CONFIG, max_in_flight_effects=4, applied_commands_max=50, at=at()
    ),
    "TookOver": events.TookOver(tenure=2, instance="ho2/1@a", at=at()),
    "RunRequested": events.RunRequested(
        input_ref=f"RunRequested:{SESSION}/in-1/1", input_id="in-1", input_digest="ab" * 32, deadline_at=at(60),
        config_digest="sha256:" + "cd" * 32, at=at(0.000_003),
    ),
    "RunRequested with everything": events.RunRequested(
        input_ref=f"HostCommandReceived:{SESSION}/c0/1", input_id="in-1", input_digest="ab" * 32,
        results=[events.GivenResult(tool_call_id="call_11111111_7_2_001", content_ref=f"RunRequested:{SESSION}/in-1/2")],
        continues=WO, run_overrides=CONFIG, deadline_at=at(-1), config_digest="",
        lease=events.LeaseTerms(ttl_secs=30, heartbeat_timeout_secs=10), principal="client/1", at=at(),
    ),
    "RunRequested of an agent that another called": events.RunRequested(
        input_ref=f"RunRequested:{SESSION}/in-1/1", input_id="in-1", input_digest="ab" * 32, deadline_at=at(60),
        config_digest="sha256:" + "cd" * 32, called_by=f"WO-{SESSION}-7.2.2.001", tokens_max=7,
        callers=[Caller(session_id=SESSION, agent_id="ADMIN")], at=at(),
    ),
    "RunStarted": events.RunStarted(at=at()),
    "RunAttached": events.RunAttached(deadline_at=at(90), at=at()),
    "HostCommandReceived": events.HostCommandReceived(
        command=session.HostCommand.model_validate(
            COMMAND | {"target_run_id": RUN, "expected_session_epoch": 1, "command": {"kind": "Deny", "call_id": "001"}}
        ),
        at=at(),
    ),
    "HostCommandApplied": events.HostCommandApplied(command_id="c1", at=at()),
    "HostCommandRejected": events.HostCommandRejected(command_id="c1", reason="blank: no ~ text", at=at()),
    "LifecycleChanged": events.LifecycleChanged(lifecycle="Paused", at=at()),
    "StepStarted": events.StepStarted(
        step_id=STEP, new_round=True, steers=[f"HostCommandReceived:{SESSION}/c0/1"], at=at()
    ),
    "OrderDispatched": events.OrderDispatched(
        wo_id=WO, wo_type="synthesize", step_id=STEP,
        order=WorkOrder.model_validate({
            "wo_id": WO, "session_id": SESSION, "agent_id": "ADMIN", "fence": FENCE, "wo_type": "synthesize",
            "state": "dispatched", "planned_at": at(-0.5), "created_by": "ho2",
            "parent_wo_id": f"WO-{SESSION}-7.2.2.001",
            "input_context": [{"name": "system", "ref": f"WO_DISPATCHED:{WO}/1"}, {"name": "note", "text": SESSION}],
            "exchanges": [
                {
                    "tool_calls": [{"call_id": "001", "tool_id": "t", "arguments": {"of": SESSION}}],
                    "results": [{"name": "001", "ref": f"OrderEnded:WO-{SESSION}-7.2.2.001/1"}],
                    "text": {"ref": "x/1"},
                    "said": [{"name": "steer", "ref": f"HostCommandReceived:{SESSION}/c0/1"}],
                }
            ],
            "constraints": {"token_budget": 10, "timeout_seconds": 60.0, "budget_mode": "warn"},
            "acceptance_criteria": {"ref": "planned_at"},
            "config_digest": "sha256:" + "ef" * 32,
        }),
        at=at(),
    ),
    "OrderDispatched under another fence": events.OrderDispatched(
        wo_id=f"{WO}.001", wo_type="tool_call", step_id=STEP,
        order=WorkOrder.model_validate({
            "wo_id": f"{WO}.001", "session_id": SESSION, "agent_id": "ADMIN", "fence": FENCE | {"step_epoch": 8},
            "wo_type": "tool_call", "state": "dispatched", "planned_at": at(), "created_by": "ho2",
            "intent_id": f"INT-{SESSION}-001", "tool_call": {"call_id": "001", "tool_id": "t", "arguments": {}},
            "input_context": [{"name": "steer", "ref": f"HostCommandReceived:{SESSION}/c0/1"}],
            "constraints": {
                "token_budget": 10, "timeout_seconds": 60, "budget_mode": "warn", "tools_allowed": ["t"],
                "callers": [{"session_id": SESSION, "agent_id": "CLERK"}], "sampling": {"temperature": 0.5},
            },
            "config_digest": "",
        }),
        at=at(),
    ),
    "OrderEnded": events.OrderEnded(
        wo_id=WO,
        receipt=Receipt.model_validate({
            "wo_id": WO, "fence": FENCE, "state": "completed",
            "output_result": {"text": {"ref": f"PROMPT_RECEIVED:{WO}#1/1/1"}, "finish_reason": "stop"},
            "cost": {"input_tokens": 7, "cost_usd": None}, "prompt_received_ids": [f"PROMPT_RECEIVED:{WO}#1/1"],
            "executed_by": "ho1/1@a", "completed_at": at(0.25),
        }),
        at=at(),
    ),
    "OrderEnded under another fence": events.OrderEnded(
        wo_id=WO,
        receipt=Receipt.model_validate({
            "wo_id": WO, "fence": FENCE | {"session_epoch": 0}, "state": "failed", "cost": {},
            "error": {"code": "deadline_exceeded", "message": "late"}, "executed_by": "ho2/1@a", "completed_at": at(),
        }),
        at=at(),
    ),
    "ToolBatchIssued": events.ToolBatchIssued(tool_batch_id=BATCH, call_ids=["001", "002"], held=["002"], at=at()),
    "ToolReceipt": events.ToolReceipt(
        tool_batch_id=BATCH, call_id="001", status="Failed", code="tool_failed", session_epoch=1, step_epoch=9, at=at()
    ),
    "LeaseIssued": events.LeaseIssued(
        lease_id=f"LEASE-{RUN}-1", issued_at=at(), expires_at=at(30), heartbeat_timeout_secs=10, at=at()
    ),
    "TimePassed": events.TimePassed(at=at()),
    "RunCompleted": events.RunCompleted(
        input_id="in-1", result_ref=f"RunCompleted:{RUN}/1", reply_ref=f"PROMPT_RECEIVED:{WO}#1/1/1",
        open_calls=events.OpenCalls(wo_id=WO, call_ids=["call_11111111_7_2_001"]), at=at(),
    ),
    "RunFailed": events.RunFailed(
        input_id="in-1", code="deadline_exceeded", detail_ref=f"RunFailed:{SESSION}/2.9/1", at=at()
    ),
    "RunCancelled": events.RunCancelled(input_id="in-1", reason="enough", at=at()),
    "TurnDegraded": events.TurnDegraded(
        input_id="in-1", input_ref=f"TurnDegraded:{SESSION}/in-1/1", reply_ref=f"TurnDegraded:{SESSION}/in-1/2",
        delivered=True, reason="HO2 was away", at=at(),
    ),
    "StateSnapshot": events.StateSnapshot(
        after=f"RunCompleted:{RUN}", state_hash="ab" * 32, record_ref=f"STATE_SNAPSHOT:{SESSION}/2.9/1",
        record_hash="cd" * 32, record_version=4, at=at(),
    ),
    "IntentDeclared": events.IntentDeclared(
        intent_id=f"INT-{SESSION}-012", scope="session", objective_ref=f"INTENT_DECLARED:{SESSION}/012/1",
        parent_intent_id=f"INT-{SESSION}-011", at=at(),
    ),
    "IntentDeclared by its message": events.IntentDeclared(
        intent_id=f"INT-{SESSION}-001", scope="session", objective_ref=f"RunRequested:{SESSION}/in-1/1", at=at()
    ),
    "IntentSuperseded": events.IntentSuperseded(
        intent_id=f"INT-{SESSION}-011", superseded_by_intent_id=f"INT-{SESSION}-012", reason="new_objective", at=at()
    ),
    "IntentClosed": events.IntentClosed(
        intent_id=f"INT-{SESSION}-012", outcome="session_ended", reason="session_ended", at=at()
    ),
    "IntentConflict": events.IntentConflict(
        reason="several_active", active_intent_ids=[f"INT-{SESSION}-011", f"INT-{SESSION}-012"],
        chosen=f"INT-{SESSION}-012", at=at(),
    ),
    "SessionEnded": events.SessionEnded(reason="client", turn_count=3, at=at()),
    "SessionLeft": events.SessionLeft(cell="b", at=at()),
    "SessionArrived": events.SessionArrived(cell="b", at=at()),
}  # fmt: skip

ALL_KINDS = frozenset(cls.kind for cls in SESSION_FACTS)


def enveloped(name: str) -> SessionEvent:
    """The sample with the correlation fields of a moment in a run; the first events of a session have none."""
    event = SAMPLES[name]
    is_between = event.kind in ("SessionStarted", "TookOver", "RunRequested", "TurnDegraded", "StateSnapshot")
    where = {} if is_between else {"run_id": RUN, "turn_id": TURN, "step_id": STEP}
    return SessionEvent(session_id=SESSION, session_epoch=1, step_epoch=9, event=event, **where)


def entry(name: str) -> WriteEntry:
    """The sample's entry, under the id that an owner gives it."""
    event = enveloped(name)
    derived = journal.derive_event_id(SESSION, event.event, RUN)
    return journal.make_entry(
        event,
        submission_id=derived or journal.derive_counted_id(event.event.kind, SESSION, 2, 9),
        prev="p",
        tenure=2,
        at_us=AT_US,
        provenance=Provenance(agent_id="ADMIN"),
    )
