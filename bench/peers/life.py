"""What every peer's crash and cancel script shares: counted effects, deaths at points, and one blocking tool.

Run by the interpreter of the peer's own environment; standard library alone. `crash POINT DIR LIFE`: one life of a turn
of two model calls around one tool; in life 1 the process kills itself at POINT, in life 2 the framework's own way to
resume is taken. `cancel DIR`: a turn is cancelled while its tool, a plain blocking function, runs.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
POINT = sys.argv[2] if MODE == "crash" else ""
DIRECTORY = Path(sys.argv[3] if MODE == "crash" else sys.argv[2])
LIFE = sys.argv[4] if MODE == "crash" else "1"
LATER_S = 0.3
TOOL_S = 1.0
CANCEL_AFTER_S = 0.1
WATCH_S = 1.5


def counted(kind: str) -> None:
    """One more of it, on the disk."""
    with (DIRECTORY / "effects").open("a") as file:
        file.write(f"{kind}\n")
        file.flush()
        os.fsync(file.fileno())


def die_at(point: str) -> None:
    """In the first life, SIGKILL where it was asked for."""
    if LIFE == "1" and point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def model_called(*, is_second: bool) -> None:
    """A call of the model, which takes no time."""
    if is_second:
        die_at("in_llm2")
        if LIFE == "1" and POINT == "in_llm2_300ms":
            time.sleep(LATER_S)
            die_at(POINT)
    counted("llm")
    die_at("llm2_done" if is_second else "llm1_done")


def charge() -> str:
    """The tool: one effect outside; to be cancelled, it waits before that."""
    if MODE == "cancel":
        (DIRECTORY / "begun").touch()
        time.sleep(TOOL_S)
    counted("tool")
    die_at("tool_effect")
    return "ok"


def effects() -> int:
    """How often the tool had its effect."""
    path = DIRECTORY / "effects"
    return path.read_text().split().count("tool") if path.exists() else 0


def say(**found: Any) -> None:
    """The one line that the matrix reads."""
    print(json.dumps(found), flush=True)


async def cancelled(turn: Callable[[], Awaitable[Any]], look: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    """The turn is begun, cancelled in the middle of its tool, and what is left of it is looked at."""
    task = asyncio.ensure_future(turn())
    while not (DIRECTORY / "begun").exists():
        await asyncio.sleep(0.005)
    await asyncio.sleep(CANCEL_AFTER_S)
    at = time.perf_counter()
    task.cancel()
    try:
        await task
        outcome = "completed"
    except asyncio.CancelledError:
        outcome = "cancelled"
    except Exception as error:  # noqa: BLE001 - however it ended is the result
        outcome = type(error).__name__
    back_ms = round((time.perf_counter() - at) * 1000, 1)
    await asyncio.sleep(WATCH_S)
    landed = effects() > 0
    try:
        state = await look()
    except Exception as error:  # noqa: BLE001 - the same
        state = {"usable": False, "why": f"{type(error).__name__}: {str(error)[:80]}"}
    say(outcome=outcome, back_ms=back_ms, effect_after_cancel=landed, **state)
