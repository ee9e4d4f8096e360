"""Pydantic AI under DBOS (durable execution, SQLite): the crash and the cancel matrix (`life.py`)."""

import asyncio
from typing import Any

import life
from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


async def model(messages: Any, _info: Any) -> ModelResponse:
    is_second = isinstance(messages[-1].parts[-1], ToolReturnPart)
    life.model_called(is_second=is_second)
    return ModelResponse(parts=[TextPart("done") if is_second else ToolCallPart("charge", {}, tool_call_id="c1")])


async def charge_in_loop() -> str:
    return life.charge()


async def charge() -> str:
    return await asyncio.to_thread(life.charge)


agent = Agent(FunctionModel(model, model_name="f"), name="a", capabilities=[DBOSDurability()])
step = charge_in_loop if life.MODE == "crash" else charge
step.__name__ = "charge"
agent.tool_plain(DBOS.step()(step))


@DBOS.workflow()
async def turn(text: str) -> str:
    return (await agent.run(text)).output


async def crash() -> None:
    if life.LIFE == "1":
        with SetWorkflowID("w1"):
            reply = await turn("pay")
    else:
        handle = await DBOS.retrieve_workflow_async("w1")
        reply = await asyncio.wait_for(handle.get_result(), 20)
    life.say(reply=reply)


async def cancel() -> None:
    """By DBOS's own command; the caller has control back when its handle says so."""
    with SetWorkflowID("w1"):
        handle = await DBOS.start_workflow_async(turn, "pay")

    async def ended() -> Any:
        try:
            return await handle.get_result()
        except asyncio.CancelledError:
            await DBOS.cancel_workflow_async("w1")
            raise

    async def look() -> dict[str, Any]:
        status = await DBOS.retrieve_workflow_async("w1")
        steps = [one["function_name"] for one in await DBOS.list_workflow_steps_async("w1")]
        with SetWorkflowID("w2"):
            reply = await turn("next")
        kept = any("charge" in name for name in steps)
        ended_as = (await status.get_status()).status
        # It keeps no conversation between two workflows: there is nothing that a cancel could break.
        return {"usable": reply == "done", "transcript_valid": True, "late_result_kept": kept, "status": ended_as}

    await life.cancelled(ended, look)


path = life.DIRECTORY / "dbos.db"
DBOS(
    config={
        "name": "drill", "system_database_url": f"sqlite:///{path}", "run_admin_server": False, "log_level": "ERROR",
        "application_version": "1",
    }
)  # fmt: skip
DBOS.launch()
asyncio.run(crash() if life.MODE == "crash" else cancel())
DBOS.destroy()
