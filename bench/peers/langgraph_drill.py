"""LangGraph with its SQLite checkpointer, durability `sync`: the crash and the cancel matrix (`life.py`)."""

import asyncio
import sqlite3
from typing import Any

import life
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

THREAD: Any = {"configurable": {"thread_id": "t"}}


@tool
def charge() -> str:
    """Charges the card."""
    return life.charge()


def agent(state: Any) -> Any:
    is_second = isinstance(state["messages"][-1], ToolMessage)
    life.model_called(is_second=is_second)
    call = {"name": "charge", "args": {}, "id": f"c{len(state['messages'])}"}
    return {"messages": [AIMessage(content="done") if is_second else AIMessage(content="", tool_calls=[call])]}


def graph() -> Any:
    made = StateGraph(MessagesState)
    made.add_node("agent", agent)
    made.add_node("tools", ToolNode([charge]))
    made.add_edge(START, "agent")
    made.add_conditional_edges("agent", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END])
    made.add_edge("tools", "agent")
    return made


def crash() -> None:
    saver = SqliteSaver(sqlite3.connect(life.DIRECTORY / "checkpoints", check_same_thread=False))
    app = graph().compile(checkpointer=saver)
    given = {"messages": [HumanMessage("pay")]} if life.LIFE == "1" else None
    try:
        result = app.invoke(given, THREAD, durability="sync")
    except Exception as error:  # noqa: BLE001 - whatever it says of a resume is its result
        life.say(reply=None, why=f"{type(error).__name__}: {str(error)[:80]}")
        return
    life.say(reply=result["messages"][-1].content if result and result.get("messages") else None)


async def cancel() -> None:
    async with AsyncSqliteSaver.from_conn_string(str(life.DIRECTORY / "checkpoints")) as saver:
        app = graph().compile(checkpointer=saver)

        async def look() -> dict[str, Any]:
            before = [message.type for message in (await app.aget_state(THREAD)).values["messages"]]
            result = await app.ainvoke({"messages": [HumanMessage("next")]}, THREAD, durability="sync")
            types = [message.type for message in result["messages"]]
            is_valid = all(
                following == "tool"
                for message, following in zip(result["messages"], types[1:], strict=False)
                if getattr(message, "tool_calls", None)
            )
            return {"usable": bool(result), "transcript_valid": is_valid, "late_result_kept": "tool" in before}

        await life.cancelled(lambda: app.ainvoke({"messages": [HumanMessage("pay")]}, THREAD, durability="sync"), look)


if life.MODE == "crash":
    crash()
else:
    asyncio.run(cancel())
