"""LangGraph with AsyncSqliteSaver in one process: so many threads at once, each one turn of two model calls and a tool.

usage: langgraph_waiting.py THREADS MODEL_S; prints JSON. Every step is durable before the next one.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

THREADS, MODEL_S = int(sys.argv[1]), float(sys.argv[2])


async def model(state: Any) -> Any:
    await asyncio.sleep(MODEL_S)
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage("three packages: " + str(last.content))]}
    return {"messages": [AIMessage("", tool_calls=[{"name": "packages", "args": {}, "id": "c1"}])]}


async def tool(_state: Any) -> Any:
    return {"messages": [ToolMessage("PKG-1, PKG-2", tool_call_id="c1")]}


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with AsyncSqliteSaver.from_conn_string(str(Path(directory) / "c.db")) as saver:
            await saver.conn.execute("PRAGMA journal_mode=WAL")
            await saver.conn.execute("PRAGMA synchronous=FULL")
            graph = StateGraph(MessagesState)
            graph.add_node("model", model)
            graph.add_node("tool", tool)
            graph.add_edge(START, "model")
            graph.add_conditional_edges("model", lambda state: "tool" if state["messages"][-1].tool_calls else END)
            graph.add_edge("tool", "model")
            app = graph.compile(checkpointer=saver)
            times: list[float] = []

            async def one(number: int) -> bool:
                began = time.monotonic()
                asked: Any = {"messages": [("user", "what packages are installed?")]}
                thread: Any = {"configurable": {"thread_id": str(number)}}
                found = await app.ainvoke(asked, thread, durability="sync")
                times.append(time.monotonic() - began)
                return found["messages"][-1].content.startswith("three")

            began = time.monotonic()
            right = await asyncio.gather(*(one(number) for number in range(THREADS)), return_exceptions=True)
            took_s = time.monotonic() - began
    times.sort()
    used = resource.getrusage(resource.RUSAGE_SELF)
    said = {
        "took_s": round(took_s, 1), "p50_s": round(times[len(times) // 2], 2), "asked": THREADS,
        "right": sum(one is True for one in right),
        "cpu_ms_per_turn": round((used.ru_utime + used.ru_stime) * 1000 / THREADS, 1), "mb": used.ru_maxrss // 1024,
    }  # fmt: skip
    print(json.dumps(said))


asyncio.run(main())
