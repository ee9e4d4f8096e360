"""`hobus memory`: what an agent has learned, why, and how to switch it off; asked of the running memory process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.errors import in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.ids import LOCAL, parse_iso
from hobus.bus.said_by import SaidBy
from hobus.config.schema import AdminConfig
from hobus.launch.cli.commands import memory_asking as asking
from hobus.launch.cli.commands.options import Family, Output, Sent, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, next_command
from hobus.launch.console.output import counted, day_and_minute, say, table, wants_json, zone


@click.group(cls=Family)
def memory() -> None:
    """Show what an agent has learned, whose it is and why; confirm it, switch it off."""


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    said = "The agent whose memory it is (default: host.agent_id)."
    return click.option("--agent", "agent_id", metavar="ID", help=said)(with_json(command))


def _as_of(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--as-of", "as_of", metavar="TIME", help="As it was then, UTC: 2026-01-31 or 2026-01-31T12:00:00."
    )(command)


def _principal(command: Callable[..., Any]) -> Callable[..., Any]:
    said = "Only of this principal: local (this machine's clients), key/NAME (who has that HTTP key), key/NAME/USER."
    return click.option("--principal", metavar="NAME", help=said)(command)


def _reason(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--reason", required=True, help="Why; it is recorded.")(command)


# --- READ -----------------------------------------------------------------------------------------------------------


@memory.command()
@click.option("--min-count", type=Sent(min=0), default=0, help="Only signals with at least so many events.")
@_principal
@_as_of
@_common
def signals(*, home: Home, agent_id: str | None, as_of: str | None, principal: str | None, min_count: int) -> Output:
    """List the signals: whose, how often, in how many sessions, when last, and what they weigh now."""
    place = asking.place(home)
    question = m.ReadSignals(
        agent_id=asking.agent(place, agent_id), principal=asking.principal(place, principal),
        as_of_ts=asking.time(as_of), min_count=min_count, with_ids=wants_json(),
    )  # fmt: skip
    found = asking.all_pages(place, question, m.Signals, "signals")
    rows = [
        (
            one.signal_id, one.principal or "", str(one.count), str(one.session_count), _minute(one.last_seen),
            f"{one.decay:.3f}",
        )
        for one in found.signals
    ]  # fmt: skip
    headings = ("SIGNAL", "PRINCIPAL", "EVENTS", "SESSIONS", f"LAST SEEN {zone(SystemClock().now())}", "DECAY")
    return Output(found, lambda: table(headings, rows))


@memory.command()
@click.option("--signal", "signal_id", metavar="ID", help="Only what rests on this signal.")
@click.option("--all", "is_all", is_flag=True, help="In every state: pending, off, expired, superseded, of weight 0.")
@_principal
@_as_of
@_common
def overlays(  # noqa: PLR0913 - options
    *, home: Home, agent_id: str | None, as_of: str | None, principal: str | None, signal_id: str | None, is_all: bool
) -> Output:
    """List what was learned: each line, whose it is, its weight, and the events that it rests on."""
    place = asking.place(home)
    question = m.ReadOverlays(
        agent_id=asking.agent(place, agent_id), principal=asking.principal(place, principal),
        as_of_ts=asking.time(as_of), signal_id=asking.signal(signal_id), active_only=not is_all,
    )  # fmt: skip
    found = asking.all_pages(place, question, m.Overlays, "overlays")
    config = place.snapshot.config
    return Output(found, lambda: table(_HEADINGS, [_cells(one, config) for one in found.overlays], spare=_SPARE))


@memory.command()
@click.argument("signal_id", metavar="SIGNAL")
@click.option("--everybody", is_flag=True, help="On everybody's events, as for the types of ho3.shared_types.")
@_principal
@_as_of
@_common
def gate(  # noqa: PLR0913 - options
    *, home: Home, agent_id: str | None, as_of: str | None, principal: str | None, everybody: bool, signal_id: str
) -> Output:
    """Say whether a signal may be consolidated now, and why: on the events of local, unless another is named."""
    if everybody and principal:
        raise UsageFault("--everybody and --principal: name one of them")
    place = asking.place(home)
    asked = asking.signal(signal_id)
    assert asked is not None  # noqa: S101 - an argument is always given
    question = m.CheckGate(
        agent_id=asking.agent(place, agent_id),
        principal=None if everybody else asking.principal(place, principal) or LOCAL,
        as_of_ts=asking.time(as_of), signal_id=asked,
    )  # fmt: skip
    found = asking.ask(place, question, m.GateChecked)

    def show() -> None:
        if found.accumulator is None:
            say(f"{signal_id}: no event was ever logged")
        say(f"{signal_id}: {'crossed' if found.gate.crossed else 'closed'} ({found.gate.reason})")

    return Output(found, show)


@memory.command()
@_common
def stats(*, home: Home, agent_id: str | None) -> Output:
    """Say how much is remembered and how far memory has followed the record."""
    place = asking.place(home)
    agent = asking.agent(place, agent_id)
    found = asking.ask(place, m.ReadMemoryStats(agent_id=agent), m.MemoryStats)
    active = f"{found.active_overlays} of {counted(found.overlays, 'overlay')} active"
    applied = (
        f"record applied up to #{found.applied_seq}" if found.applied_seq >= 0 else "nothing of the record applied"
    )
    saved = f"checkpoint at #{found.checkpoint_seq}" if found.checkpoint_seq >= 0 else "no checkpoint yet"

    def show() -> None:
        say(f"{agent}: {counted(found.signals, 'signal')}, {counted(found.events, 'event')}; {active}")
        say(f"gate {found.gate_mode}; {applied}, {saved}")

    return Output(found, show)


@memory.command()
@_principal
@_as_of
@_common
def review(*, home: Home, agent_id: str | None, as_of: str | None, principal: str | None) -> Output:
    """List what waits for you: constraints to confirm or reject, and lines that were refused, with the reason."""
    place = asking.place(home)
    question = m.ReadReview(
        agent_id=asking.agent(place, agent_id),
        principal=asking.principal(place, principal),
        as_of_ts=asking.time(as_of),
    )
    found = asking.ask(place, question, m.Review)
    config = place.snapshot.config

    def show() -> None:
        if found.pending:
            table(_HEADINGS, [_cells(one, config) for one in found.pending], spare=_SPARE)
            first = found.pending[0].artifact.artifact_id
            say(f"to take one: {next_command(f'memory confirm {first}', home.root)}; `memory reject` for the contrary")
        else:
            say("no constraint waits")
        if found.quarantined:
            headings = (f"REFUSED {zone(SystemClock().now())}", "PRINCIPAL", "SIGNAL", "REASON", "LINE")
            table(
                headings,
                [
                    (_minute(one.at), one.principal or "everybody", one.signal_id, one.reason, one.line)
                    for one in found.quarantined
                ],
            )
        else:
            say("no line was refused")

    return Output(found, show)


# --- LOG ------------------------------------------------------------------------------------------------------------


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.option("--reason", default="confirmed", help="Why; it is recorded.")
@_common
def confirm(*, home: Home, agent_id: str | None, artifact_id: str, reason: str) -> Output:
    """Confirm a constraint that waits; it is in prompts from now on."""
    return _changed(m.ConfirmOverlay, home, agent_id, artifact_id, reason)


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.option("--reason", default="rejected", help="Why; it is recorded.")
@_common
def reject(*, home: Home, agent_id: str | None, artifact_id: str, reason: str) -> Output:
    """Reject a constraint that waits: as `deactivate`, it is in no prompt and not learned again."""
    return _changed(m.DeactivateOverlay, home, agent_id, artifact_id, reason)


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@_reason
@_common
def deactivate(*, home: Home, agent_id: str | None, artifact_id: str, reason: str) -> Output:
    """Switch a learned line off; it is in no prompt from now on, and not learned again until it is switched on."""
    return _changed(m.DeactivateOverlay, home, agent_id, artifact_id, reason)


def _changed(
    change: type[m.ConfirmOverlay | m.DeactivateOverlay | m.ActivateOverlay | m.UpdateOverlayWeight],
    home: Home,
    agent_id: str | None,
    artifact_id: str,
    reason: str,
    **more: Any,
) -> Output:
    """A change says which artifact, and why; `more`: what else this one says."""
    place = asking.place(home)
    asked = change(
        agent_id=asking.agent(place, agent_id),
        artifact_id=asking.artifact(artifact_id),
        reason=asking.reason(reason),
        at=asking.now(),
        **more,
    )
    with in_doubt():
        answer = asking.ask(place, asked, m.OverlayChanged)
    artifact = answer.overlay.artifact
    changed = f"{artifact.artifact_id}: {answer.overlay.state}, weight {artifact.weight:g}"
    was_confirmed = any(one.entry_id.startswith("HO3_OVERLAY_CONFIRMED:") for one in answer.overlay.changes)
    if change is m.ConfirmOverlay and not was_confirmed:
        changed += "; it did not wait, and nothing was changed"
    return Output(answer, lambda: say(changed))


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@_reason
@_common
def activate(*, home: Home, agent_id: str | None, artifact_id: str, reason: str) -> Output:
    """Switch a line on again that is off; its signals may be learned from again, too."""
    return _changed(m.ActivateOverlay, home, agent_id, artifact_id, reason)


@memory.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.argument("new_weight", metavar="WEIGHT", type=click.FloatRange(0, 1))
@_reason
@_common
def weight(*, home: Home, agent_id: str | None, artifact_id: str, new_weight: float, reason: str) -> Output:
    """Give a learned line another weight, 0 (silent) to 1."""
    share = asking.weight(new_weight)
    return _changed(m.UpdateOverlayWeight, home, agent_id, artifact_id, reason, new_weight=share)


# --- printing -------------------------------------------------------------------------------------------------------


_HEADINGS = (
    "ARTIFACT",
    "STATE",
    "PRINCIPAL",
    "TYPE",
    "WEIGHT",
    "SCOPE",
    "LABELS",
    "TOKENS",
    "SIGNALS",
    "EVENTS",
    "CHANGED BY",
    "LINE",
)
_SPARE = ("CHANGED BY", "TOKENS", "EVENTS", "SCOPE", "TYPE", "LABELS")


def _cells(overlay: m.Overlay, config: AdminConfig) -> tuple[str, ...]:
    """TOKENS: what the line takes of budget.ho3_bias_budget, by the estimate."""
    artifact = overlay.artifact
    return (
        artifact.artifact_id,
        overlay.state,
        artifact.principal or "everybody",
        artifact.artifact_type,
        f"{artifact.weight:g}",
        artifact.scope,
        ", ".join(dict.fromkeys([*artifact.labels.domain, *artifact.labels.task])),
        str(len(artifact.context_line) // config.attention.chars_per_token),
        ", ".join(artifact.source_signal_ids),
        str(len(artifact.source_event_ids)),
        next((str(SaidBy(one.principal, one.door)) for one in overlay.changes[::-1] if one.door), "-"),
        artifact.context_line,
    )


def _minute(timestamp: str) -> str:
    return day_and_minute(parse_iso(timestamp))
