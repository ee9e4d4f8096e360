"""`hobus memory`: what an agent has learned, why, and how to switch it off; asked of the running memory process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import iso, parse_iso
from hobus.launch.cli.commands.options import Family, Output, with_home, with_json
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console.errors import RefusedFault, UsageFault, next_command, next_here
from hobus.launch.console.output import counted, day_and_minute, say, table, wants_json, zone

R = TypeVar("R", bound=Message)

_SECONDS = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?Z?", re.ASCII)


@click.group(cls=Family)
def memory() -> None:
    """Show what an agent has learned and why; switch it off."""


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    said = "The agent whose memory it is (default: host.agent_id)."
    return with_json(click.option("--agent", "agent_id", metavar="ID", help=said)(with_home(command)))


def _as_of(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--as-of", "as_of", metavar="TIME", help="As it was then, UTC: 2026-01-31 or 2026-01-31T12:00:00."
    )(command)


def _reason(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--reason", required=True, help="Why; it is recorded.")(command)


# --- READ -----------------------------------------------------------------------------------------------------------


@memory.command()
@click.option("--min-count", type=click.IntRange(min=0), default=0, help="Only signals with at least so many events.")
@_as_of
@_common
def signals(*, home: Home, agent_id: str | None, as_of: str | None, min_count: int) -> Output:
    """List the signals: how often, in how many sessions, when last, and what they weigh now."""
    place = _place(home)
    question = m.ReadSignals(
        agent_id=_agent(place, agent_id), as_of_ts=_time(as_of), min_count=min_count, with_ids=wants_json()
    )
    found = _ask(place, question, m.Signals)
    rows = [
        (one.signal_id, str(one.count), str(one.session_count), _minute(one.last_seen), f"{one.decay:.3f}")
        for one in found.signals
    ]
    return Output(
        found, lambda: table(("SIGNAL", "EVENTS", "SESSIONS", f"LAST SEEN {zone(SystemClock().now())}", "DECAY"), rows)
    )


@memory.command()
@click.option("--signal", "signal_id", metavar="ID", help="Only what rests on this signal.")
@click.option("--all", "is_all", is_flag=True, help="With those that are off, expired or of weight 0.")
@_as_of
@_common
def overlays(*, home: Home, agent_id: str | None, as_of: str | None, signal_id: str | None, is_all: bool) -> Output:
    """List what was learned: each line, its weight, and the events that it rests on."""
    place = _place(home)
    question = m.ReadOverlays(
        agent_id=_agent(place, agent_id), as_of_ts=_time(as_of), signal_id=_signal(signal_id), active_only=not is_all
    )
    found = _ask(place, question, m.Overlays)
    headings = ("ARTIFACT", "STATE", "WEIGHT", "SCOPE", "SIGNALS", "EVENTS", "LINE")
    return Output(found, lambda: table(headings, [_cells(one) for one in found.overlays]))


@memory.command()
@click.argument("signal_id", metavar="SIGNAL")
@_as_of
@_common
def gate(*, home: Home, agent_id: str | None, as_of: str | None, signal_id: str) -> Output:
    """Say whether a signal may be consolidated now, and why."""
    place = _place(home)
    asked = _signal(signal_id)
    assert asked is not None  # noqa: S101 - an argument is always given
    found = _ask(
        place, m.CheckGate(agent_id=_agent(place, agent_id), as_of_ts=_time(as_of), signal_id=asked), m.GateChecked
    )

    def show() -> None:
        if found.accumulator is None:
            say(f"{signal_id}: no event was ever logged")
        say(f"{signal_id}: {'crossed' if found.gate.crossed else 'closed'} ({found.gate.reason})")

    return Output(found, show)


@memory.command()
@_common
def stats(*, home: Home, agent_id: str | None) -> Output:
    """Say how much is remembered and how far memory has followed the record."""
    place = _place(home)
    agent = _agent(place, agent_id)
    found = _ask(place, m.ReadMemoryStats(agent_id=agent), m.MemoryStats)
    active = f"{found.active_overlays} of {counted(found.overlays, 'overlay')} active"
    applied = (
        f"record applied up to #{found.applied_seq}" if found.applied_seq >= 0 else "nothing of the record applied"
    )
    saved = f"checkpoint at #{found.checkpoint_seq}" if found.checkpoint_seq >= 0 else "no checkpoint yet"

    def show() -> None:
        say(f"{agent}: {counted(found.signals, 'signal')}, {counted(found.events, 'event')}; {active}")
        say(f"gate {found.gate_mode}; {applied}, {saved}")

    return Output(found, show)


# --- LOG ------------------------------------------------------------------------------------------------------------


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@_reason
@_common
def deactivate(*, home: Home, agent_id: str | None, artifact_id: str, reason: str) -> Output:
    """Switch a learned line off; it is in no prompt from now on."""
    place = _place(home)
    change = m.DeactivateOverlay(
        agent_id=_agent(place, agent_id), artifact_id=_artifact(artifact_id), reason=_given(reason), at=_now()
    )
    return _changed(_ask(place, change, m.OverlayChanged))


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.argument("new_weight", metavar="WEIGHT", type=click.FloatRange(0, 1))
@_reason
@_common
def weight(*, home: Home, agent_id: str | None, artifact_id: str, new_weight: float, reason: str) -> Output:
    """Give a learned line another weight, 0 (silent) to 1."""
    place = _place(home)
    change = m.UpdateOverlayWeight(
        agent_id=_agent(place, agent_id),
        artifact_id=_artifact(artifact_id),
        new_weight=_weight(new_weight),
        reason=_given(reason),
        at=_now(),
    )
    return _changed(_ask(place, change, m.OverlayChanged))


def _changed(answer: m.OverlayChanged) -> Output:
    artifact = answer.overlay.artifact
    changed = f"{artifact.artifact_id}: {_state(answer.overlay)}, weight {artifact.weight:g}"
    return Output(answer, lambda: say(changed))


# --- asking ---------------------------------------------------------------------------------------------------------


def _place(home: Home) -> Place:
    """The running cluster. Raises CommandError (refused) when memory is off in it."""
    place = place_of(home, running(home))
    config = place.snapshot.config
    if config.memory is not None:
        return place
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


def _ask(place: Place, question: Message, expect: type[R]) -> R:
    async def ask() -> R:
        async with connected(place, "operator") as bus:
            timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
            return await bus.request("ho3", question, expect=expect, timeout_s=timeout_s)

    return asyncio.run(ask())


def _agent(place: Place, agent_id: str | None) -> str:
    """An agent of the configuration. Raises CommandError (usage) for another one."""
    chosen = agent_id or place.snapshot.config.host.agent_id
    if chosen not in place.snapshot.agents:
        known = ", ".join(place.snapshot.agents)
        raise UsageFault(f"--agent {chosen}: no such agent; configured: {known}")
    return chosen


def _signal(signal_id: str | None) -> str | None:
    is_one = signal_id is None or (re.fullmatch(r"[a-z_]+:\S+", signal_id) and len(signal_id) <= 160)  # noqa: PLR2004
    if signal_id is None or (is_one and _is_text(signal_id)):
        return signal_id
    raise UsageFault(
        f"{signal_id[:80]!r} is not a signal: expected <kind>:<label>, e.g. tool:list_packages",
        hint=next_here("memory signals"),
    )


def _artifact(artifact_id: str) -> str:
    if re.fullmatch(r"ART-\S{1,76}", artifact_id) and _is_text(artifact_id):
        return artifact_id
    raise UsageFault(f"{artifact_id[:80]!r} is not an artifact: expected ART-<hash>", hint=next_here("memory overlays"))


def _weight(new_weight: float) -> float:
    if 0 <= new_weight <= 1:  # false for nan, which no comparison of a range's ends refuses
        return new_weight
    raise UsageFault(f"WEIGHT {new_weight:g}: expected a number from 0 to 1")


def _is_text(text: str) -> bool:
    """Whether the bytes that were given are UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _given(reason: str) -> str:
    if not _is_text(reason):
        raise UsageFault("--reason: not valid UTF-8")
    if reason.strip() and len(reason) <= 200:  # noqa: PLR2004 - as the message has it
        return reason
    raise UsageFault("--reason: expected 1 to 200 characters")


def _time(as_of: str | None) -> str | None:
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


def _now() -> str:
    return iso(SystemClock().now())


# --- printing -------------------------------------------------------------------------------------------------------


def _cells(overlay: m.Overlay) -> tuple[str, ...]:
    artifact = overlay.artifact
    return (
        artifact.artifact_id,
        _state(overlay),
        f"{artifact.weight:g}",
        artifact.scope,
        ", ".join(artifact.source_signal_ids),
        str(len(artifact.source_event_ids)),
        artifact.context_line,
    )


def _state(overlay: m.Overlay) -> str:
    """One word for why it is in prompts or not."""
    if overlay.is_active:
        return "active"
    if not overlay.artifact.enabled:
        return "off"
    return "silent" if overlay.artifact.weight <= 0 else "expired"


def _minute(timestamp: str) -> str:
    return day_and_minute(parse_iso(timestamp))
