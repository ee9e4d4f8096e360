"""What commands of `hobus memory` are given, checked, and how the memory process is asked."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Any, TypeVar

from hobus.bus.clock import SystemClock
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import iso
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console.errors import RefusedFault, UsageFault, next_command, next_here

R = TypeVar("R", bound=Message)
P = TypeVar("P", m.Signals, m.Overlays)

_SECONDS = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?Z?", re.ASCII)


def place(home: Home) -> Place:
    """The running cluster. Raises CommandError (refused) when memory is off in it."""
    found = place_of(home, running(home))
    config = found.snapshot.config
    if config.memory is not None:
        return found
    own = home.config / "admin_config.json"
    why = "section ho3 of its configuration is null" if config.ho3 is None else "ho3.enabled is false"
    fix = f'remove `"ho3": null` from {own}'
    if config.ho3 is not None:
        fix = f"set ho3.enabled to true in {own}"
    copied = "" if own.exists() else f"{next_command('init admin_config.json', home.root)} copies that file there; "
    raise RefusedFault(
        f"memory is off in the cluster of {home.root}: {why}",
        hint=f"{copied}{fix}, then: {next_command('down', home.root)} && {next_command('up', home.root)}",
    )


def ask(there: Place, question: Message, expect: type[R]) -> R:
    """The memory process's answer. Raises RuntimeFault."""

    async def answer() -> R:
        async with connected(there, "operator") as bus:
            timeout_s = there.snapshot.config.launcher.client_timeout_ms / 1000
            return await bus.request("ho3", question, expect=expect, timeout_s=timeout_s)

    return asyncio.run(answer())


def all_pages(there: Place, question: m.ReadSignals | m.ReadOverlays, expect: type[P], rows: str) -> P:
    """The whole answer, of one moment."""
    found = ask(there, question, expect)
    whole: list[Any] = [*getattr(found, rows)]
    while after := found.next:
        as_of = found.as_of
        further = {"after": after, "as_of_ts": as_of.as_of_ts, "as_of_seq": as_of.as_of_seq}
        found = ask(there, question.model_copy(update=further), expect)
        whole += getattr(found, rows)
    return found.model_copy(update={rows: whole})


def principal(name: str | None) -> str | None:
    """Raises CommandError (usage) for what names no principal."""
    if name is None or re.fullmatch(r"local|key/[a-z0-9][a-z0-9_-]{0,39}", name):
        return name
    raise UsageFault(f"--principal {name[:80]!r}: expected local or key/NAME", hint=next_here("keys list"))


def agent(there: Place, agent_id: str | None) -> str:
    """An agent of the configuration. Raises CommandError (usage) for another one."""
    chosen = agent_id or there.snapshot.config.host.agent_id
    if chosen not in there.snapshot.agents:
        known = ", ".join(there.snapshot.agents)
        raise UsageFault(f"--agent {chosen}: no such agent; configured: {known}")
    return chosen


def signal(signal_id: str | None) -> str | None:
    """A signal's name, if one is given. Raises CommandError (usage) for what is none."""
    is_one = signal_id is None or (re.fullmatch(r"[a-z_]+:\S+", signal_id) and len(signal_id) <= 160)  # noqa: PLR2004
    if signal_id is None or (is_one and _is_text(signal_id)):
        return signal_id
    raise UsageFault(
        f"{signal_id[:80]!r} is not a signal: expected <kind>:<label>, e.g. tool:list_packages",
        hint=next_here("memory signals"),
    )


def artifact(artifact_id: str) -> str:
    """An artifact's id. Raises CommandError (usage) for what is none."""
    if re.fullmatch(r"ART-\S{1,76}", artifact_id) and _is_text(artifact_id):
        return artifact_id
    raise UsageFault(f"{artifact_id[:80]!r} is not an artifact: expected ART-<hash>", hint=next_here("memory overlays"))


def weight(new_weight: float) -> float:
    """A share. Raises CommandError (usage) for another number."""
    if 0 <= new_weight <= 1:  # false for nan, which no comparison of a range's ends refuses
        return new_weight
    raise UsageFault(f"WEIGHT {new_weight:g}: expected a number from 0 to 1")


def _is_text(text: str) -> bool:
    """Whether the bytes that were given are UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def reason(words: str) -> str:
    """Why something is changed. Raises CommandError (usage) for nothing, or for too much."""
    if not _is_text(words):
        raise UsageFault("--reason: not valid UTF-8")
    if words.strip() and len(words) <= 200:  # noqa: PLR2004 - as the message has it
        return words
    raise UsageFault("--reason: expected 1 to 200 characters")


def time(as_of: str | None) -> str | None:
    """A person's time as a timestamp. Raises CommandError (usage) for what is none."""
    if as_of is None:
        return None
    try:
        if _SECONDS.fullmatch(as_of) is None:
            raise ValueError
        at = datetime.fromisoformat(as_of.removesuffix("Z"))
    except ValueError:
        raise UsageFault(
            f"--as-of {as_of[:40]}: expected a time in UTC, e.g. 2026-01-31 or 2026-01-31T12:00:00"
        ) from None
    return at.isoformat(timespec="microseconds") + "Z"


def now() -> str:
    """The clock's time as a timestamp."""
    return iso(SystemClock().now())
