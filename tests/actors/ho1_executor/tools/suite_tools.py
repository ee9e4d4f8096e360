"""Tools that behave and tools that do not, for the runner suite; light, because tool processes import them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolFault, ToolHost

_ANYTHING: dict[str, Any] = {"type": "object"}


async def _echo(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return {"arguments": dict(arguments), "context": dict(host.context), "view": dict(host.snapshot)}


async def _ask(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return [await host.request("gateway", "gateway.read_budget", {"session_id": name}) for name in arguments["names"]]


async def _fault(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    raise ToolFault(arguments["sentence"])


async def _bug(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    raise RuntimeError("the secret of the house")


async def _caused(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    try:
        raise KeyError("under it")
    except KeyError as error:
        raise ToolFault("no such thing") from error


async def _long_bug(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    raise RuntimeError("x" * arguments["size"])


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class _NamelessBug(Exception, metaclass=_Nameless):
    pass


class _Unseen(ToolFault):
    """Raises whatever it is asked, to end whoever asks."""

    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__
    __class__ = __cause__ = property(__str__)  # type: ignore[assignment]


class _BareEnd(BaseException):
    pass


async def _unseeable(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    raise {"nameless": _NamelessBug, "unseen": _Unseen, "bare": _BareEnd}[arguments["kind"]]


async def _text(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return arguments["text"] * arguments["times"]


async def _value(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return {"nan": float("nan"), "set": {1}, "deep": _deep()}[arguments["kind"]]


def _deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


async def _verify(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return dict(await host.check("verify"))


async def _spin(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Never gives the processor back; leaves a mark as long as it lives."""
    _mark(arguments)
    while True:
        time.sleep(0.001)


async def _stubborn(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Ignores what can be ignored, and has a process of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        _mark({"path": arguments["path"] + ".grandchild"})
        time.sleep(60)
        os._exit(0)
    _mark(arguments)
    time.sleep(60)


async def _die(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    if arguments["how"] == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGSEGV)


async def _print(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """By every way that there is; then as it is told."""
    print("said")
    print("complained", file=sys.stderr)
    subprocess.run(["echo", "by a program"], check=True)
    os.write(1, b"\x00\x00\x00\x01\xc1\n")
    print("\udcff", end="")
    print("x" * arguments.get("more", 0), end="")
    if arguments.get("then") == "spin":
        print("before it spins")
        await _spin(arguments, host)
    if arguments.get("then") == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if arguments.get("then") == "close":
        sys.stdout.close()
        os.close(1)
        os.close(2)
    return {"read": sys.stdin.read()}


async def _harm(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Does something to the standard streams of its process."""
    print("before")
    exec(arguments["code"], {"os": os, "sys": sys, "room": _room})  # noqa: S102 - one line of a test


def _room() -> bool:
    try:
        os.close(os.dup(0))
    except OSError:
        return False
    return True


async def _leave(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Leaves something running that goes on when the file is there."""
    path = arguments["path"]
    if arguments["what"] == "program":
        wait = f"while [ ! -e {path} ]; do sleep 0.02; done; echo from the program; touch {path}.done"
        subprocess.Popen(["sh", "-c", wait], start_new_session=True)
    if arguments["what"] == "thread":
        threading.Thread(target=_print_when, args=(path, "from the thread"), daemon=True).start()
    print("left")


async def _say(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    print("own")


def _print_when(path: str, words: str) -> None:
    while not os.path.exists(path):  # noqa: PTH110
        time.sleep(0.02)
    print(words)
    with open(path + ".done", "w"):  # noqa: PTH123
        pass


async def _garbage(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Writes to whatever socket it can find, as a hostile or broken extension could."""
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, bytes(arguments["bytes"]))
        except OSError:
            continue
    time.sleep(60)


async def _pid(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return {"pid": os.getpid(), "modules": sorted(set(sys.modules) & {"zmq", "pytest"})}


async def _wait_elsewhere(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    await asyncio.sleep(0)


def _mark(arguments: Mapping[str, Any]) -> None:
    with open(arguments["path"], "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(os.getpid()))


def _tool(tool_id: str, run: Any, *, is_alone: bool = False) -> ToolDefinition:
    return ToolDefinition(
        tool_id=tool_id, description=tool_id, parameters=_ANYTHING, idempotent=True, run=run, is_alone=is_alone
    )


def _alone(tool_id: str, run: Any) -> ToolDefinition:
    return _tool(tool_id, run, is_alone=True)


BOTH = {
    tool.tool_id: tool
    for tool in (
        _tool("echo", _echo), _tool("ask", _ask), _tool("fault", _fault), _tool("bug", _bug), _tool("text", _text),
        _tool("value", _value), _tool("caused", _caused), _tool("long_bug", _long_bug), _tool("verify", _verify),
        _tool("unseeable", _unseeable),
    )
}  # fmt: skip
"""What both runners must run alike."""

PROCESS = {
    tool.tool_id: tool
    for tool in (
        _alone("spin", _spin), _alone("stubborn", _stubborn), _alone("die", _die), _alone("print", _print),
        _alone("harm", _harm), _alone("leave", _leave), _alone("say", _say), _alone("garbage", _garbage), _alone("pid", _pid),
        _alone("elsewhere", _wait_elsewhere),
    )
}  # fmt: skip
"""What only a process survives."""

ALL = BOTH | PROCESS


def report_of(directory: Any) -> dict[str, Any]:
    """Stands in for a verifier: what it was given."""
    return {"ok": True, "directory": str(directory)}
