"""OpenAI Agents with its SQLite session: the crash and the cancel matrix (`life.py`)."""

import asyncio
import os
from typing import Any

import life

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class TwoCalls(Model):
    """Asks for the tool, then answers."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        last = input[-1] if isinstance(input, list) else None
        is_second = isinstance(last, dict) and last.get("type") == "function_call_output"
        life.model_called(is_second=is_second)
        text = ResponseOutputText(type="output_text", text="done", annotations=[], logprobs=[])
        said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        call = ResponseFunctionToolCall(id="f", call_id="c1", type="function_call", name="charge", arguments="{}")
        return ModelResponse(output=[said] if is_second else [call], usage=Usage(), response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> Any:
        yield None


@function_tool
def charge() -> str:
    """Charges the card."""
    return life.charge()


session = SQLiteSession("s", life.DIRECTORY / "session.db")
agent = Agent(name="a", model=TwoCalls(), tools=[charge])


async def crash() -> None:
    """There is no way to resume: what is left of the session is what it has, and the user says it again."""
    result = await Runner.run(agent, "pay", session=session)
    life.say(reply=result.final_output)


async def cancel() -> None:
    async def look() -> dict[str, Any]:
        before = [one.get("type") or one.get("role") for one in await session.get_items()]
        reply = (await Runner.run(agent, "next", session=session)).final_output
        is_valid = before.count("function_call") == before.count("function_call_output")
        kept = "function_call_output" in before
        return {"usable": reply == "done", "transcript_valid": is_valid, "late_result_kept": kept}

    await life.cancelled(lambda: Runner.run(agent, "pay", session=session), look)


asyncio.run(crash() if life.MODE == "crash" else cancel())
