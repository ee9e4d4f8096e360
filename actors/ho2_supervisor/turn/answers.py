"""What the record says about an input whose run is over: the same answer for everybody who asks again."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.ownership import history_lookup
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.session.record import KnownInput
from hobus.actors.ho2_supervisor.turn.verdicts import failure_code, is_verdict, verdict_result
from hobus.bus.errors import LedgerError, WorkOrderFault
from hobus.bus.messages.ids import RunId, candidates_key, delivered_key, turn_key
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import Cost
from hobus.bus.record.journal import answer_in


async def recorded(session: OwnedSession, known: KnownInput) -> TurnResult:
    """The recorded result: of RunCompleted, of a verdict, or what the host delivered. Raises a failed run's fault.

    What it delivered while the record was away may have come in behind the run's own end.
    """
    about = session.session_id, known.input_id
    keys = [candidates_key(*about), delivered_key(*about), turn_key(*about)]
    due, delivered, decided = await session.entries((), once=keys)
    known = history_lookup.as_delivered(known, delivered)
    run_id = None if known.run_seq is None else RunId(session_id=session.session_id, run_seq=known.run_seq)
    if known.became == "degraded":
        return TurnResult(
            response=await session.text(known.result_ref),
            outcome="degraded",
            session_id=session.session_id,
            run_id=run_id,
            input_id=known.input_id,
            code="degraded",
            reason=history_lookup.reason_in(delivered or decided),
        )
    if known.became == "failed" and not is_verdict(known.code):
        over = f"run {run_id} of input {known.input_id} has failed; it is not run again"
        why = await session.text_or_none(known.result_ref) if known.result_ref else None
        raise WorkOrderFault(failure_code(known.code), why or over)
    if not known.result_ref:
        return verdict_result(
            known.code, session_id=session.session_id, run_id=run_id, input_id=known.input_id, cost=Cost(),
            elapsed_ms=0, tool_calls=[], exchange_entry_ids=[],
        )  # fmt: skip
    body = await session.body(known.result_ref)
    try:
        return answer_in(body, due)
    except ValueError as fault:
        raise LedgerError("damaged", f"the answer behind {known.result_ref} does not read") from fault
