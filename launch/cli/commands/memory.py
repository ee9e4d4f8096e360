"""`hobus memory`: what an agent has learned, why, and how to switch it off; asked of the running memory process."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, NamedTuple, TypeVar

import click
from msgspec import Meta, convert

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.bus.dispatch import SaidBy
from hobus.bus.errors import mark_in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import Message, NonBlank
from hobus.bus.messages.ids import LOCAL, Principal, SignalId, format_iso, parse_iso
from hobus.launch.cli.commands import cluster_options
from hobus.launch.cli.commands.options import Family, Output, Sent, with_json
from hobus.launch.cluster.client import find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import RefusedFault, UsageFault, format_next_command, format_next_here
from hobus.launch.console.output import format_count, format_minute, format_zone, say, wants_json
from hobus.launch.console.view import Columns, print_rows

R = TypeVar("R", bound=Message)
P = TypeVar("P", m.Signals, m.Overlays)


@click.group(cls=Family)
def memory() -> None:
    """Show what an agent has learned, from whom and why; confirm it, switch it off."""


# --- what is given ----------------------------------------------------------------------------------------------------


class MemoryValue(click.ParamType[Any]):
    """A value of this kind that messages to memory take; bytes that are not UTF-8 are none."""

    def __init__(self, kind: Any, told: Callable[[Any], str], lists: str = "") -> None:
        """Prepare. `told`: the sentence for what is none; `lists`: the command that lists what there is."""
        self.name, self._kind, self._told, self._lists = "text", kind, told, lists

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the same value. Raises UsageFault."""
        del param, ctx
        try:
            str(value).encode()
            return convert(value, self._kind, strict=False)
        except ValueError:
            raise UsageFault(self._told(value), hint=self._lists and format_next_here(self._lists)) from None


class MomentParam(click.ParamType[str]):
    """A person's time as a timestamp: a day, or a time of it, in UTC."""

    name = "time"
    _FORM = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?Z?", re.ASCII)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the timestamp; what is left out is zero. Raises UsageFault."""
        del param, ctx
        try:
            if self._FORM.fullmatch(value) is None:
                raise ValueError
            at = datetime.fromisoformat(value.removesuffix("Z"))
        except ValueError:
            said = "expected a time in UTC, e.g. 2026-01-31 or 2026-01-31T12:00:00"
            raise UsageFault(f"--as-of {value[:40]}: {said}") from None
        return at.isoformat(timespec="microseconds") + "Z"


SIGNAL = MemoryValue(
    SignalId,
    lambda given: f"{given[:80]!r} is not a signal: expected <kind>:<label>, e.g. tool:list_packages",
    "memory signals",
)
ARTIFACT = MemoryValue(
    m.ArtifactId, lambda given: f"{given[:80]!r} is not an artifact: expected ART-<hash>", "memory overlays"
)
PRINCIPAL = MemoryValue(
    Principal, lambda given: f"--principal {given[:80]!r}: expected local or key/NAME[/USER]", "keys list"
)
WEIGHT = MemoryValue(m.Weight, lambda given: f"WEIGHT {given[:40]}: expected a number from 0 to 1")
REASON = MemoryValue(
    Annotated[NonBlank, Meta(max_length=limits.REASON_MAX_CHARS)],
    lambda _given: f"--reason: expected 1 to {limits.REASON_MAX_CHARS} characters of UTF-8",
)

_as_of = click.option(
    "--as-of",
    "as_of",
    metavar="TIME",
    type=MomentParam(),
    help="As of this time, UTC: 2026-01-31 or 2026-01-31T12:00:00.",
)
_principal = click.option(
    "--principal", metavar="NAME", type=PRINCIPAL,
    help="Only this principal: local (this machine's clients), key/NAME (an HTTP key), key/NAME/USER.",
)  # fmt: skip
_reason = click.option("--reason", type=REASON, required=True, help="Why; it is recorded.")
_artifact = click.argument("artifact_id", metavar="ARTIFACT", type=ARTIFACT)


class ChosenMemory(NamedTuple):
    """The running cluster, and the agent whose memory is meant."""

    place: Place
    agent_id: str

    def ask(self, question: Message, expect: type[R]) -> R:
        """Return the memory process's answer. Raises RuntimeFault, CommandError."""
        return cluster_options.ask(self.place, "ho3", question, expect)

    def read_all_pages(self, question: m.ReadSignals | m.ReadOverlays, expect: type[P], rows: str) -> P:
        found = self.ask(question, expect)
        whole: list[Any] = [*getattr(found, rows)]
        while after := found.next:
            as_of = found.as_of
            further = {"after": after, "as_of_ts": as_of.as_of_ts, "as_of_seq": as_of.as_of_seq}
            found = self.ask(question.model_copy(update=further), expect)
            whole += getattr(found, rows)
        return found.model_copy(update={rows: whole})

    @property
    def columns(self) -> Columns:
        """Return columns of overlays; TOKENS: what the line takes of budget.ho3_bias_budget, by the estimate."""
        chars_per_token = self.place.snapshot.config.attention.chars_per_token
        return {
            "ARTIFACT": "artifact.artifact_id", "STATE": "state",
            "PRINCIPAL": lambda one: one.artifact.principal or "everybody", "TYPE": "artifact.artifact_type",
            "WEIGHT": lambda one: f"{one.artifact.weight:g}", "SCOPE": "artifact.scope",
            "LABELS": lambda one: list(dict.fromkeys([*one.artifact.labels.domain, *one.artifact.labels.task])),
            "TOKENS": lambda one: len(one.artifact.context_line) // chars_per_token,
            "SIGNALS": "artifact.source_signal_ids", "EVENTS": lambda one: len(one.artifact.source_event_ids),
            "CHANGED BY": lambda one: next((SaidBy(by.principal, by.door) for by in one.changes[::-1] if by.door), ""),
            "LINE": "artifact.context_line",
        }  # fmt: skip


def _add_agent(command: Callable[..., Output]) -> Callable[..., Any]:
    """Give the command `of: ChosenMemory`, taken from `--agent`."""

    @functools.wraps(command)
    def asked(*, home: Home, agent_id: str | None, **arguments: Any) -> Output:
        place = place_of_memory(home)
        chosen = agent_id or place.snapshot.config.host.agent_id
        meant = cluster_options.find_known_agent(chosen, place.snapshot, running_in=home) or chosen
        return command(of=ChosenMemory(place, meant), **arguments)

    said = "The agent (default: host.agent_id)."
    return click.option("--agent", "agent_id", metavar="ID", help=said)(with_json(asked))


def place_of_memory(home: Home) -> Place:
    """Return the running cluster. Raises CommandError (refused) when memory is off in it."""
    found = find_cluster(home)
    config = found.snapshot.config
    if config.memory is not None:
        return found
    why, fix = "section ho3 of its configuration is null", "config unset ho3"
    if config.ho3 is not None:
        why, fix = "ho3.enabled is false", "config set ho3.enabled true"
    hint = " && ".join(format_next_command(one, home.root) for one in (fix, "down", "up"))
    raise RefusedFault(f"memory is off in the cluster of {home.root}: {why}", hint=hint)


# --- READ -------------------------------------------------------------------------------------------------------------


@memory.command()
@click.option("--min-count", type=Sent(min=0), default=0, help="Only signals with at least so many events.")
@_principal
@_as_of
@_add_agent
def signals(*, of: ChosenMemory, as_of: str | None, principal: str | None, min_count: int) -> Output:
    """List signals with principal, counts, sessions, last time and present weight."""
    question = m.ReadSignals(
        agent_id=of.agent_id, principal=principal, as_of_ts=as_of, min_count=min_count, with_ids=wants_json()
    )
    found = of.read_all_pages(question, m.Signals, "signals")
    columns: Columns = {
        "SIGNAL": "signal_id", "PRINCIPAL": "principal", "EVENTS": "count", "SESSIONS": "session_count",
        f"LAST SEEN {format_zone(SystemClock().now())}": lambda one: _format_minute(one.last_seen), "DECAY": "decay",
    }  # fmt: skip
    return Output(found, lambda: print_rows(found.signals, columns))


@memory.command()
@click.option("--signal", "signal_id", metavar="ID", type=SIGNAL, help="Only lines of this signal.")
@click.option(
    "--all", "is_all", is_flag=True, help="Also pending, off, expired, superseded ones, and those of weight 0."
)
@_principal
@_as_of
@_add_agent
def overlays(
    *, of: ChosenMemory, as_of: str | None, principal: str | None, signal_id: str | None, is_all: bool
) -> Output:
    """List learned lines with principal, weight and events."""
    question = m.ReadOverlays(
        agent_id=of.agent_id, principal=principal, as_of_ts=as_of, signal_id=signal_id, active_only=not is_all
    )
    found = of.read_all_pages(question, m.Overlays, "overlays")
    return Output(found, lambda: print_rows(found.overlays, of.columns, spare=_SPARE))


@memory.command()
@click.argument("signal_id", metavar="SIGNAL", type=SIGNAL)
@click.option("--everybody", is_flag=True, help="Count everybody's events, as for ho3.shared_types.")
@_principal
@_as_of
@_add_agent
def gate(*, of: ChosenMemory, as_of: str | None, principal: str | None, everybody: bool, signal_id: str) -> Output:
    """Say whether a signal's gate is open, and why (default: for principal local)."""
    if everybody and principal:
        raise UsageFault("--everybody and --principal: name one of them")
    whose = None if everybody else principal or LOCAL
    question = m.CheckGate(agent_id=of.agent_id, principal=whose, as_of_ts=as_of, signal_id=signal_id)
    found = of.ask(question, m.GateChecked)

    def show() -> None:
        if found.accumulator is None:
            say(f"{signal_id}: no event was ever logged")
        say(f"{signal_id}: {'crossed' if found.gate.crossed else 'closed'} ({found.gate.reason})")

    return Output(found, show)


@memory.command()
@_add_agent
def stats(*, of: ChosenMemory) -> Output:
    """Show how much is remembered, and how far memory is behind the record."""
    found = of.ask(m.ReadMemoryStats(agent_id=of.agent_id), m.MemoryStats)
    active = f"{found.active_overlays} of {format_count(found.overlays, 'overlay')} active"
    applied = (
        f"record applied up to #{found.applied_seq}" if found.applied_seq >= 0 else "nothing of the record applied"
    )
    saved = f"checkpoint at #{found.checkpoint_seq}" if found.checkpoint_seq >= 0 else "no checkpoint yet"

    def show() -> None:
        say(f"{of.agent_id}: {format_count(found.signals, 'signal')}, {format_count(found.events, 'event')}; {active}")
        say(f"gate {found.gate_mode}; {applied}, {saved}")

    return Output(found, show)


@memory.command()
@_principal
@_as_of
@_add_agent
def review(*, of: ChosenMemory, as_of: str | None, principal: str | None) -> Output:
    """List constraints to confirm or reject, and refused lines with the reason."""
    found = of.ask(m.ReadReview(agent_id=of.agent_id, principal=principal, as_of_ts=as_of), m.Review)

    def show() -> None:
        print_rows(found.pending, of.columns, spare=_SPARE, empty="no constraint waits")
        if found.pending:
            first = found.pending[0].artifact.artifact_id
            say(f"to confirm one: {format_next_here(f'memory confirm {first}')}; `memory reject` refuses it")
        refused: Columns = {
            f"REFUSED {format_zone(SystemClock().now())}": lambda one: _format_minute(one.at),
            "PRINCIPAL": lambda one: one.principal or "everybody", "SIGNAL": "signal_id", "REASON": "reason",
            "LINE": "line",
        }  # fmt: skip
        print_rows(found.quarantined, refused, empty="no line was refused")

    return Output(found, show)


# --- LOG --------------------------------------------------------------------------------------------------------------


@memory.command()
@_artifact
@click.option("--reason", type=REASON, default="confirmed", help="Why; it is recorded.")
@_add_agent
def confirm(*, of: ChosenMemory, artifact_id: str, reason: str) -> Output:
    """Confirm a pending constraint; prompts show it from now on."""
    return _change(m.ConfirmOverlay, of, artifact_id, reason)


@memory.command()
@_artifact
@click.option("--reason", type=REASON, default="rejected", help="Why; it is recorded.")
@_add_agent
def reject(*, of: ChosenMemory, artifact_id: str, reason: str) -> Output:
    """Reject a pending constraint; as with `deactivate`, it is not learned again."""
    return _change(m.DeactivateOverlay, of, artifact_id, reason)


@memory.command()
@_artifact
@_reason
@_add_agent
def deactivate(*, of: ChosenMemory, artifact_id: str, reason: str) -> Output:
    """Switch a line off: no prompt shows it, and it is not learned again until you switch it on."""
    return _change(m.DeactivateOverlay, of, artifact_id, reason)


@memory.command()
@_artifact
@_reason
@_add_agent
def activate(*, of: ChosenMemory, artifact_id: str, reason: str) -> Output:
    """Switch a line on again, and allow learning from its signals."""
    return _change(m.ActivateOverlay, of, artifact_id, reason)


@memory.command()
@_artifact
@click.argument("new_weight", metavar="WEIGHT", type=WEIGHT)
@_reason
@_add_agent
def weight(*, of: ChosenMemory, artifact_id: str, new_weight: float, reason: str) -> Output:
    """Set a line's weight, 0 (silent) to 1."""
    return _change(m.UpdateOverlayWeight, of, artifact_id, reason, new_weight=new_weight)


def _change(
    change: type[m.ConfirmOverlay | m.DeactivateOverlay | m.ActivateOverlay | m.UpdateOverlayWeight],
    of: ChosenMemory,
    artifact_id: str,
    reason: str,
    **more: Any,
) -> Output:
    """Make a change, which says which artifact, and why; `more`: what else this one says."""
    at = format_iso(SystemClock().now())
    asked = change(agent_id=of.agent_id, artifact_id=artifact_id, reason=reason, at=at, **more)
    with mark_in_doubt():
        answer = of.ask(asked, m.OverlayChanged)
    artifact = answer.overlay.artifact
    changed = f"{artifact.artifact_id}: {answer.overlay.state}, weight {artifact.weight:g}"
    was_confirmed = any(one.entry_id.startswith("HO3_OVERLAY_CONFIRMED:") for one in answer.overlay.changes)
    if change is m.ConfirmOverlay and not was_confirmed:
        changed += "; it did not wait, and nothing was changed"
    return Output(answer, lambda: say(changed))


# --- printing ---------------------------------------------------------------------------------------------------------


_SPARE = ("CHANGED BY", "TOKENS", "EVENTS", "SCOPE", "TYPE", "LABELS")


def _format_minute(timestamp: str) -> str:
    return format_minute(parse_iso(timestamp))
