"""LangGraph with SqliteSaver, durability `sync`: one turn of two model calls and one tool call, in an environment of its own.

Driven by `bench.turn`: its one argument is JSON with the directory of the database and the texts; then each line of
standard input, `<history turns> <measured turns>`, is one round in a new thread, answered by one line of JSON: the
measured turns in milliseconds. The model takes no time; its texts are those of the turn on the other side.
"""

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

GIVEN = json.loads(sys.argv[1])


class TwoCalls(BaseChatModel):
    """Asks for the tool, then answers."""

    @property
    def _llm_type(self) -> str:
        return "two-calls"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            answer = AIMessage(content=GIVEN["answer"])
        else:
            call = {"name": "look_up", "args": {}, "id": f"call-{len(messages)}"}
            answer = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def look_up() -> str:
    """Look it up."""
    return GIVEN["tool_output"]


def main() -> None:
    model, system = TwoCalls(), SystemMessage(content=GIVEN["system"])

    def agent(state: Any) -> Any:
        return {"messages": [model.invoke([system, *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([look_up]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "agent")
    saver = SqliteSaver(sqlite3.connect(Path(GIVEN["directory"]) / "checkpoints.sqlite", check_same_thread=False))
    saver.setup()
    app = graph.compile(checkpointer=saver)
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        history, measured = map(int, line.split())
        thread: Any = {"configurable": {"thread_id": f"round-{number}"}}
        times = []
        for turn in range(history + measured):
            question: Any = {"messages": [HumanMessage(content=GIVEN["question"])]}
            started = time.perf_counter()
            app.invoke(question, thread, durability="sync")
            if turn >= history:
                times.append((time.perf_counter() - started) * 1000)
        print(json.dumps(times), flush=True)


main()
