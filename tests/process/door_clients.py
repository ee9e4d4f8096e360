# ruff: noqa: PLC0415 - each check imports the client that it is about, and no other
"""Other people's clients against a door, one package at a time: `python -m tests.process.door_clients URL KEY PACKAGE`.

Each check asks, streams, has a tool of its own called and its result in the answer; it ends with an exception if not.
Nothing leaves this machine: a connection to anything but loopback is refused, also one that a client opens by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel

QUESTION = "what packages are installed?"
TOOL_QUESTION = 'use get_weather {"city": "Bern"}'
WEATHER = "sunny, 21 degrees"
MODEL = "ADMIN"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


PROGRAMS = Path(__file__).parents[2] / "bench" / "peers" / "programs"
FORM_QUESTION = "city: Bern, people: 134000"


class City(BaseModel):
    """A form for an answer; the embedded model fills it from the question's words."""

    city: str
    people: int


BERN = City(city="Bern", people=134000)


def openai_chat(url: str, key: str) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key=key, max_retries=0)
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    whole = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": QUESTION}])
    assert "PKG-" in (whole.choices[0].message.content or "")
    for is_streamed in (False, True):
        said: list[Any] = [{"role": "user", "content": TOOL_QUESTION}]
        asking = _message(client, said, tools, is_streamed=is_streamed)
        said.append(asking.model_dump(exclude_none=True, exclude={"parsed"}))
        [call] = asking.tool_calls
        assert call.function.name == "get_weather"
        said.append({"role": "tool", "tool_call_id": call.id, "content": WEATHER})
        assert WEATHER in _message(client, said, tools, is_streamed=is_streamed).content


def openai_forms(url: str, key: str) -> None:
    """The official SDK: answers in a form, of both APIs, whole and streamed; the least one that fits."""
    from openai import OpenAI

    client: Any = OpenAI(base_url=url, api_key=key, max_retries=0)
    said: Any = [{"role": "user", "content": FORM_QUESTION}]
    chat = client.beta.chat.completions.parse(model=MODEL, messages=said, response_format=City)
    assert chat.choices[0].message.parsed == BERN
    with client.chat.completions.stream(model=MODEL, messages=said, response_format=City) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == BERN
    assert client.responses.parse(model=MODEL, input=FORM_QUESTION, text_format=City).output_parsed == BERN
    with client.responses.stream(model=MODEL, input=FORM_QUESTION, text_format=City) as stream:
        assert stream.get_final_response().output_parsed == BERN
    said = [{"role": "user", "content": "which one?"}]
    least = client.chat.completions.parse(model=MODEL, messages=said, response_format=City).choices[0].message
    assert least.parsed == City(city="unknown", people=0) and least.refusal is None
    whole = client.chat.completions.create(model=MODEL, messages=said, response_format={"type": "json_object"})
    assert "answer" in json.loads(whole.choices[0].message.content)


def _message(client: Any, said: list[Any], tools: Any, *, is_streamed: bool) -> Any:
    if not is_streamed:
        return client.chat.completions.create(model=MODEL, messages=said, tools=tools).choices[0].message
    with client.chat.completions.stream(model=MODEL, messages=said, tools=tools) as stream:
        return stream.get_final_completion().choices[0].message


def openai_responses(url: str, key: str) -> None:
    """The official SDK: responses, by their items and by the response before."""
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key=key, max_retries=0)
    tools: Any = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
    assert "PKG-" in client.responses.create(model=MODEL, input=QUESTION).output_text
    first = client.responses.create(model=MODEL, input=TOOL_QUESTION, tools=tools)
    [call] = first.output
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}
    with client.responses.stream(model=MODEL, input=[result], tools=tools, previous_response_id=first.id) as stream:
        assert WEATHER in stream.get_final_response().output_text


def pydantic_ai_chat(url: str, key: str) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel

    _pydantic_ai(OpenAIChatModel, url, key)


def pydantic_ai_responses(url: str, key: str) -> None:
    from pydantic_ai.models.openai import OpenAIResponsesModel

    _pydantic_ai(OpenAIResponsesModel, url, key)


def _pydantic_ai(model: Any, url: str, key: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.providers.openai import OpenAIProvider

    asked: list[str] = []
    agent: Any = Agent(model(MODEL, provider=OpenAIProvider(base_url=url, api_key=key)), instructions="Be brief.")

    @agent.tool_plain
    def get_weather(city: str) -> str:
        asked.append(city)
        return WEATHER

    async def work() -> None:
        assert "PKG-" in (await agent.run(QUESTION)).output
        assert WEATHER in (await agent.run(TOOL_QUESTION)).output
        async with agent.run_stream(TOOL_QUESTION) as stream:
            assert WEATHER in await stream.get_output()
        # Words of its own: two conversations that were told the same are one to a door.
        own_question = f"{QUESTION} ({model.__name__})"
        earlier = (await agent.run(own_question)).all_messages()
        assert own_question in (await agent.run("what did I ask before?", message_history=earlier)).output

    asyncio.run(work())
    assert asked == ["Bern", "Bern"]


def pydantic_ai_forms(url: str, key: str) -> None:
    """pydantic-ai: its structured output, by the provider's own form of answers and by a tool of its own."""
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=key)

    async def work() -> None:
        for model in (OpenAIChatModel(MODEL, provider=provider), OpenAIResponsesModel(MODEL, provider=provider)):
            agent: Any = Agent(model, output_type=NativeOutput(City), instructions="Be brief.")
            assert (await agent.run(FORM_QUESTION)).output == BERN
            async with agent.run_stream(FORM_QUESTION) as stream:
                assert await stream.get_output() == BERN
            by_tool: Any = Agent(model, output_type=ToolOutput(City, name="answer"))
            asks = 'use answer {"city": "Bern", "people": 134000}'
            assert (await by_tool.run(asks)).output == BERN

    asyncio.run(work())


def openai_agents_chat(url: str, key: str) -> None:
    from agents import OpenAIChatCompletionsModel

    _openai_agents(OpenAIChatCompletionsModel, url, key)


def openai_agents_responses(url: str, key: str) -> None:
    from agents import OpenAIResponsesModel

    _openai_agents(OpenAIResponsesModel, url, key)


def _openai_agents(model: Any, url: str, key: str) -> None:
    from agents import Agent, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    asked: list[str] = []

    def get_weather(city: str) -> str:
        asked.append(city)
        return WEATHER

    async def work() -> None:
        client = AsyncOpenAI(base_url=url, api_key=key, max_retries=0)
        agent: Any = Agent(
            name="someone", instructions="Be brief.", tools=[function_tool(get_weather)],
            model=model(model=MODEL, openai_client=client),
        )  # fmt: skip
        assert "PKG-" in (await Runner.run(agent, QUESTION)).final_output
        assert WEATHER in (await Runner.run(agent, TOOL_QUESTION)).final_output
        streamed = Runner.run_streamed(agent, TOOL_QUESTION)
        async for _ in streamed.stream_events():
            pass
        assert WEATHER in streamed.final_output

        formed: Any = Agent(
            name="someone", instructions="Be brief.", output_type=City, model=model(model=MODEL, openai_client=client)
        )
        assert (await Runner.run(formed, FORM_QUESTION)).final_output == BERN

    asyncio.run(work())
    assert asked == ["Bern", "Bern"]


def langchain(url: str, key: str) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    @tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        assert city == "Bern"
        return WEATHER

    model = ChatOpenAI(model=MODEL, base_url=url, api_key=SecretStr(key), max_retries=0)
    assert "PKG-" in model.invoke(QUESTION).text
    assert "PKG-" in "".join(chunk.text for chunk in model.stream(QUESTION))
    bound = model.bind_tools([get_weather])
    for is_streamed in (False, True):
        said: list[Any] = [HumanMessage(TOOL_QUESTION)]
        for _ in range(2):
            pieces = list(bound.stream(said)) if is_streamed else [bound.invoke(said)]
            answer: Any = pieces[0]
            for piece in pieces[1:]:
                answer += piece
            said.append(answer)
            said += [
                ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls
            ]
        assert WEATHER in answer.text
    formed: Any = model.with_structured_output(City, method="json_schema")
    assert formed.invoke(FORM_QUESTION) == BERN


def program(name: str) -> Callable[[str, str], None]:
    """The program of ten lines that docs/python.md has beside ours, word for word but for the model's name: our door's."""

    def check(url: str, key: str) -> None:
        os.environ |= {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": url}
        source = (PROGRAMS / f"{name}_program.py").read_text(encoding="utf-8").replace("gpt-5-mini", MODEL)
        with redirect_stdout(StringIO()) as printed:
            exec(compile(source, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
        assert printed.getvalue() == "weather: Sunny in Paris\n"

    return check


CHECKS: dict[str, tuple[Callable[[str, str], None], ...]] = {
    "openai": (openai_chat, openai_responses, openai_forms),
    "pydantic_ai": (pydantic_ai_chat, pydantic_ai_responses, pydantic_ai_forms, program("pydantic_ai")),
    "agents": (openai_agents_chat, openai_agents_responses, program("openai_agents")),
    "langchain_openai": (langchain, program("langgraph")),
}
"""Package -> what is asked with it."""


def only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: whatever connects, connects to this machine."""
    if event != "socket.connect" or not isinstance(arguments[1], tuple):
        return
    host = str(arguments[1][0])
    if host not in ("127.0.0.1", "::1", "localhost"):
        sys.stderr.write(f"a connection to {host}\n")
        os._exit(3)  # also where whoever opened it would swallow an exception


if __name__ == "__main__":
    sys.addaudithook(only_loopback)
    for check in CHECKS[sys.argv[3]]:
        check(sys.argv[1], sys.argv[2])
