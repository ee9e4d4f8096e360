"""LangGraph with SqliteSaver, durability `sync`: one turn of two model calls and one tool call, in an environment of its own.

Driven by `bench.turn` and `bench.load`: its one argument is JSON with the directory of the database and the
texts; then each line of standard input is JSON, `{"thread", "history", "measured"}`: a new thread gets so many turns
of history in one update of its state; then the measured ones. The answer is one line of JSON:
their milliseconds, and by how many bytes each made the database grow. `{"threads", "turns"}`: so many turns of each thread, all
of them asking at once and again as soon as they are answered; the answer is how many milliseconds each turn was waited for. The
model takes no time; its texts are those of the turn on the other side.
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
    connection = sqlite3.connect(Path(GIVEN["directory"]) / "checkpoints.sqlite", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    app = graph.compile(checkpointer=saver)
    print(json.dumps("ready"), flush=True)
    known: set[str] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "threads" in asked:
            print(json.dumps(take_all(app, asked["threads"], asked["turns"])), flush=True)
            continue
        thread: Any = {"configurable": {"thread_id": asked["thread"]}}
        if asked["thread"] not in known:
            known.add(asked["thread"])
            said = [message for turn in range(asked["history"]) for message in turn_said(turn)]
            app.update_state(thread, {"messages": said}, as_node="agent")
        before = stored_bytes(connection)
        times = [take(app, thread) for _ in range(asked["measured"])]
        grown = (stored_bytes(connection) - before) // max(1, len(times))
        print(json.dumps({"times": times, "bytes_per_turn": grown}), flush=True)


def take(app: Any, thread: Any) -> float:
    """One turn, every step durable before the next; its milliseconds."""
    question: Any = {"messages": [HumanMessage(content=GIVEN["question"])]}
    started = time.perf_counter()
    app.invoke(question, thread, durability="sync")
    return (time.perf_counter() - started) * 1000


def take_all(app: Any, names: list[str], turns: int) -> list[float]:
    """One turn after the other, of the thread that waits longest; from when it was asked, milliseconds until each is answered."""
    asked_at = dict.fromkeys(names, time.perf_counter())
    waited = []
    for _ in range(turns):
        for name in names:
            take(app, {"configurable": {"thread_id": name}})
            now = time.perf_counter()
            waited.append((now - asked_at[name]) * 1000)
            asked_at[name] = now
    return waited


def turn_said(number: int) -> list[Any]:
    call = f"call-{number}"
    return [
        HumanMessage(content=GIVEN["question"]),
        AIMessage(content="", tool_calls=[{"name": "look_up", "args": {}, "id": call}]),
        ToolMessage(content=GIVEN["tool_output"], tool_call_id=call, name="look_up"),
        AIMessage(content=GIVEN["answer"]),
    ]


def stored_bytes(connection: sqlite3.Connection) -> int:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return pages * size


main()
