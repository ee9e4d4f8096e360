"""The screen of memory: what an agent has learned, what that rests on, what waits for a person; and their decision."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from hobus.bus.errors import mark_in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.ids import format_iso
from hobus.bus.record.payloads.memory import GateResult
from hobus.launch.cli.commands.memory import place_of_memory
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import Asked, PageAnswer, PageRequest
from hobus.launch.console.errors import UsageFault

_CHANGES: dict[str, type[m.ConfirmOverlay | m.DeactivateOverlay | m.ActivateOverlay]] = {
    "confirm": m.ConfirmOverlay, "reject": m.DeactivateOverlay, "deactivate": m.DeactivateOverlay,
    "activate": m.ActivateOverlay,
}  # fmt: skip
_WIDTH, _HEIGHT = 100.0, 20.0
_HALF_LIVES = 4.0
_EVENT = re.compile(r"EVT-([0-9a-f-]{36})-([0-9]+)-")


def draw_curve(decay: float) -> str:
    """Return points of how a signal's weight falls over four half-lives from now. Pure."""
    count = limits.CURVE_POINTS
    at = [number / (count - 1) for number in range(count)]
    return " ".join(f"{x * _WIDTH:.1f},{_HEIGHT - _HEIGHT * decay * 2 ** (-x * _HALF_LIVES):.1f}" for x in at)


def turns_behind(event_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Return session and run of the turns that logged these events, each once. Pure."""
    return list(dict.fromkeys((found[1], found[2]) for one in event_ids if (found := _EVENT.match(one))))


async def show_memory(look: PageRequest) -> PageAnswer:
    """`hobus memory overlays --all`, `signals` and `review` of one agent."""
    look.source.run()
    place = place_of_memory(look.source.home)
    config = place.snapshot.config
    agent = look.query.get("agent") or config.host.agent_id
    if agent not in place.snapshot.agents:
        raise UsageFault(f"there is no agent {agent[:80]}; there are {', '.join(place.snapshot.agents)}")
    after = look.sequence("after")
    question = m.ReadOverlays(agent_id=agent, active_only=False, after=m.FIRST_PAGE if after is None else after)
    overlays = await look.source.asked("ho3", question, m.Overlays)
    signals = await look.source.asked("ho3", m.ReadSignals(agent_id=agent, with_ids=False), m.Signals)
    review = await look.source.asked("ho3", m.ReadReview(agent_id=agent), m.Review)
    rows = sorted(signals.signals, key=lambda one: (-one.count, one.signal_id))[: limits.SIGNALS]
    gates = await asyncio.gather(*(_read_gate(look, agent, one) for one in rows))
    is_cut = bool(len(rows) < len(signals.signals) or signals.next)
    document = {
        "agent_id": agent, "overlays": overlays, "signals": rows, "gates": gates, "review": review,
        "more_signals": is_cut, "rules": config.memory,
    }  # fmt: skip
    shown: dict[str, Any] = {
        "agent": agent, "agents": list(place.snapshot.agents), "overlays": overlays, "review": review,
        "gate": config.memory,
        "signals": [(one, gate, draw_curve(one.decay)) for one, gate in zip(rows, gates, strict=True)],
        "turns_behind": turns_behind, "is_cut": is_cut,
    }  # fmt: skip
    return PageAnswer("memory.html", "Memory", document, shown, has_texts=True)


async def _read_gate(look: PageRequest, agent: str, signal: m.Accumulator) -> GateResult:
    """Return how far the signal is from being learned: `hobus memory gate`."""
    question = m.CheckGate(agent_id=agent, signal_id=signal.signal_id, principal=signal.principal)
    return (await look.source.asked("ho3", question, m.GateChecked)).gate


async def change(asked: Asked) -> str:
    """Confirm, reject, switch off or on one line; why, and who, is recorded."""
    form, verb = asked.form, asked.form.get("verb", "")
    if verb not in _CHANGES:
        raise UsageFault("expected confirm, reject, deactivate or activate")
    about: dict[str, Any] = {
        "agent_id": form.get("agent", ""), "artifact_id": form.get("artifact", ""),
        "at": format_iso(asked.source.clock.now()),
        "reason": f"{form.get('text', '').strip() or verb} ({asked.person.name})",
    }  # fmt: skip
    try:
        wanted = _CHANGES[verb](**about).checked()
    except ValueError as error:
        raise UsageFault(f"{verb}: {error}") from None
    with mark_in_doubt():
        answer = await asked.source.asked("ho3", wanted, m.OverlayChanged)
    return f"{answer.overlay.artifact.artifact_id} is {answer.overlay.state}"
