"""A run that calls one tool for an operator, and asks no model.

It is a run as any other: admitted once under its input id, journaled, held for an approval where the tool needs one,
taken over by another supervisor in the middle of it. Its message is the call's arguments, its answer what the tool
brought, or why it brought nothing. Nothing is learned from it, and nothing of it is degraded.
"""

from __future__ import annotations

from hobus.actors.ho2_supervisor.turn import chain, tool_batch, turn_record
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.quality_gate import Judgement
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.json_text import object_in
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.bus.messages.ids import DIRECT_CALL_ID
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import OutputResult, ToolCall


async def take(run: Run, tool_id: str) -> TurnResult:
    """Call the tool; RunCompleted is durable when this returns."""
    await run.new_round()
    arguments = object_in(run.input_text, depth_max=PARAMETERS_DEPTH_MAX) or {}
    call = ToolCall(call_id=DIRECT_CALL_ID, tool_id=tool_id, arguments=arguments)
    receipts = await tool_batch.settle(run, [call], invented=(), parent_wo_id=None)
    answer = OutputResult(text=chain.result_of_call(call.call_id, receipts[0]))
    return await turn_record.record_answer(
        run, answer, Judgement(()), Classification(), chain.summarize([call], receipts)
    )
