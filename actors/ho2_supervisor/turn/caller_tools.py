"""Tools that the caller of a turn runs itself: what may be offered, which calls it is handed, whose results it sends.

Nothing here runs one. A turn that brings results of calls goes on where its session's model asked for them: the order
that asked and its receipt stand in the journal under ids that follow from the order's own. What that model was shown,
the rounds before included, is shown again as it was; its calls with their results come as one more round.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.turn import order_codec
from hobus.bus.errors import LedgerError
from hobus.bus.messages.base import pack
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.bus.messages.ids import RunId, derive_caller_call_id, derive_dispatched_id, derive_ended_id
from hobus.bus.messages.session import CallerCall, CallResult, RunConfig, SessionConfig
from hobus.bus.messages.work_order import Exchange, OutputResult, Receipt, Segment, ToolCall, ToolSpec, WorkOrder
from hobus.bus.record.journal import read_recorded
from hobus.bus.record.session_facts import OpenCalls, OrderDispatched, OrderEnded, RunRequested
from hobus.config.json_schema import find_object_fault
from hobus.config.tool_faults import TOOL_ID


def offer_fault(wanted: SessionConfig | None) -> str:
    """Return why these tools cannot be offered to a model; empty: they can, as far as the session knows.

    A name that is also an agent's own tool shows only where all of those are known: at the executor.
    """
    tools = (wanted and wanted.caller_tools) or []
    if wanted is not None and wanted.tool_choice == "required" and not tools:
        return "a tool has to be called, and none is given (caller_tools)"
    if len(tools) > limits.CALLER_TOOLS_MAX:
        return f"{len(tools)} caller_tools; at most {limits.CALLER_TOOLS_MAX} are taken"
    size = sum(len(pack(tool.model_dump())) for tool in tools)
    if size > limits.CALLER_TOOLS_MAX_BYTES:
        limit = f"{limits.CALLER_TOOLS_MAX_BYTES} are taken"
        return f"caller_tools have {size} bytes; at most {limit}"
    named: set[str] = set()
    for number, tool in enumerate(tools):
        if fault := _find_tool_fault(tool, named):
            return f"caller_tools.{number}: {fault}"
        named.add(tool.tool_id)
    return ""


def _find_tool_fault(tool: ToolSpec, named: set[str]) -> str:
    if TOOL_ID.fullmatch(tool.tool_id) is None:
        return "a tool's name has 1 to 64 letters, digits, `-` and `_`"
    if tool.tool_id in named:
        return f"{tool.tool_id} is there twice"
    fault = find_object_fault(tool.parameters, PARAMETERS_DEPTH_MAX, is_run=False)
    return f"the schema of {tool.tool_id} {fault}" if fault else ""


def find_results_fault(given: Sequence[CallResult], text: str, open_calls: OpenCalls | None) -> str:
    """Return why these results cannot be taken; empty: they answer every open call of the session, each once."""
    if not given:
        return ""
    if text.strip():
        return "results of calls come alone; send the message with a turn of its own"
    wanted = [] if open_calls is None else open_calls.call_ids
    named = [result.tool_call_id for result in given]
    if unknown := [call for call in named if call not in wanted]:
        return f"no call {unknown[0][:100]!r} of this session is open"
    if missing := [call for call in wanted if call not in named]:
        return f"the result of {missing[0]} is missing: every open call is answered at once"
    return "" if len(set(named)) == len(named) else "a call is answered twice"


def list_handed_out(output: OutputResult, config: RunConfig) -> list[ToolCall]:
    """Return the calls of an answer that the caller is to run; if there are any, the agent's own are not run."""
    theirs = {tool.tool_id for tool in config.caller_tools or ()}.difference(output.tools_invented)
    return [call for call in output.tool_calls if call.tool_id in theirs and not call.fault]


def as_told(calls: Sequence[ToolCall], run_id: RunId, round_seq: int) -> list[CallerCall]:
    """Return the calls as their caller gets them, under unique ids."""
    return [
        CallerCall(
            tool_call_id=derive_caller_call_id(run_id, round_seq, call.call_id),
            name=call.tool_id,
            arguments=call.arguments,
        )
        for call in calls
    ]


def render_reply(text: str, calls: Sequence[CallerCall]) -> str:
    """Return what later prompts show of a reply that handed out calls."""
    asked = [
        f"[asked the caller for {call.name} {json.dumps(call.arguments, ensure_ascii=False)} as {call.tool_call_id}]"
        for call in calls
    ]
    return "\n".join([text, *asked] if text else asked)


async def read_continued(
    session: OwnedSession, requested: RunRequested, results: Sequence[str | None]
) -> tuple[list[Segment], list[Exchange]]:
    """Return the context of what was asked, and its rounds with the results. Raises LedgerError(erased)."""
    order, receipt = await _read_asked(session, requested.continues or "")
    output = receipt.output_result
    given = {
        result.tool_call_id: Segment(ref=result.content_ref, text=text)
        for result, text in zip(requested.results, results, strict=True)
        if text is not None
    }
    if output is None or len(given) < len(requested.results):
        raise LedgerError("erased", f"a result that input {requested.input_id} brought is erased")
    run_id = order.fence.run_id
    turn_seq = int(order.wo_id.rsplit(".", 2)[1])  # `WO-<session>-<run>.<round>.<step>`
    ids = {derive_caller_call_id(run_id, turn_seq, call.call_id): call for call in output.tool_calls}
    answered = {tool_call_id: call for tool_call_id, call in ids.items() if tool_call_id in given}
    exchange = Exchange(
        tool_calls=list(answered.values()),
        results=[
            given[tool_call_id].model_copy(update={"name": call.call_id}) for tool_call_id, call in answered.items()
        ],
        text=output.text,
    )
    return order.input_context, [*order.exchanges, exchange]


async def _read_asked(session: OwnedSession, wo_id: str) -> tuple[WorkOrder, Receipt]:
    """Return the order whose model asked for the calls, and its receipt, with all their texts."""
    entries = await session.entries([derive_dispatched_id(wo_id), derive_ended_id(wo_id)])
    asked, ended = [one and one.event.event for one in map(read_recorded, entries)]
    if not isinstance(asked, OrderDispatched) or not isinstance(ended, OrderEnded):
        raise LedgerError("erased", f"order {wo_id}, whose model asked for the calls, is erased")
    order, receipt = asked.order, ended.receipt
    texts = await session.texts([*order_codec.list_order_refs(order), *order_codec.list_receipt_refs(receipt)])
    return order_codec.expand_order(order, texts), order_codec.expand_receipt(receipt, texts)
