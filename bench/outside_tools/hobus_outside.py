"""Tools with effects outside the cluster, as an installed package has them.

What they do is seen in the directory that `HOBUS_OUTSIDE` names: `<tool>.runs` gets a line whenever a tool is begun,
`<tool>.effects` one for each effect. A tool stands still behind its effect while there is a file `hold` there.
`charge_keyed` asks an outside that knows keys: the same key again changes nothing. `charge_late` waits first. The
others wait alone, each in its own way.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from pathlib import Path

from hobus import Invocation, tool

HELD_S_MAX = 30.0
WAIT_S = 1.0
LOOK_S = 0.001


@tool(idempotent=True, writes=True)
def charge_keyed(*, call: Invocation) -> dict[str, bool]:
    """Charges the card, once for each key."""
    return _charged("charge_keyed", call, once=True)


@tool(idempotent=False, writes=True)
def charge_unkeyed(*, call: Invocation) -> dict[str, bool]:
    """Charges the card."""
    return _charged("charge_unkeyed", call)


@tool(idempotent=False, writes=True)
def charge_late(*, call: Invocation) -> dict[str, bool]:
    """Charges the card after a while."""
    return _charged("charge_late", call, wait_s=WAIT_S)


@tool(idempotent=True, writes=False)
async def sleep_async() -> dict[str, bool]:
    """Waits as long as the file `sleep_s` says, and yields meanwhile."""
    await asyncio.sleep(_sleep_s())
    return {"slept": True}


@tool(idempotent=True, writes=False)
def sleep_def() -> dict[str, bool]:
    """Waits as long as the file `sleep_s` says."""
    time.sleep(_sleep_s())
    return {"slept": True}


@tool(idempotent=True, writes=False)
async def block_async() -> dict[str, bool]:
    """Waits as long, and lets no other call of its process go on meanwhile."""
    time.sleep(_sleep_s())
    return {"slept": True}


@tool(idempotent=True, writes=False)
async def short_async() -> dict[str, bool]:
    """Yields once."""
    await asyncio.sleep(0)
    return {"slept": True}


def _sleep_s() -> float:
    return float((_outside() / "sleep_s").read_text(encoding="ascii"))


def _line(tool_id: str, kind: str, text: str, *, once: bool = False) -> None:
    with (_outside() / f"{tool_id}.{kind}").open("a+", encoding="ascii") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        file.seek(0)
        if once and f"{text}\n" in file.readlines():
            return
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())


def _charged(tool_id: str, call: Invocation, *, once: bool = False, wait_s: float = 0.0) -> dict[str, bool]:
    _line(tool_id, "runs", f"{os.getpid()} {time.time()}")
    time.sleep(wait_s)
    _line(tool_id, "effects", call.idempotency_key, once=once)
    until = time.monotonic() + HELD_S_MAX
    while (_outside() / "hold").exists() and time.monotonic() < until:
        time.sleep(LOOK_S)
    return {"charged": True}


def _outside() -> Path:
    return Path(os.environ["HOBUS_OUTSIDE"])
