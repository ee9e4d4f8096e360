"""`/memory` in the chat, and what is told of a statement that a turn remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from hobus.bus.clock import SystemClock
from hobus.bus.errors import in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.ids import iso
from hobus.launch.cli.chat.cells import printable
from hobus.launch.cluster.client import connected
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError

if TYPE_CHECKING:
    from hobus.launch.cli.chat.talk import Talk

_DIM = "bright_black"
_CHANGES: dict[str, tuple[type[m.DeactivateOverlay | m.ActivateOverlay | m.ConfirmOverlay], str]] = {
    "off": (m.DeactivateOverlay, "switched off in the chat"),
    "on": (m.ActivateOverlay, "switched on in the chat"),
    "confirm": (m.ConfirmOverlay, "confirmed in the chat"),
    "reject": (m.DeactivateOverlay, "rejected in the chat"),
}
_USAGE = "/memory, or /memory off, on, confirm or reject, and ART-…"


async def about_memory(words: list[str], talk: Talk) -> list[tuple[str, str]]:
    """What is remembered of this machine's clients, or what a change brought. Raises RuntimeFault, CommandError."""
    place = talk.place()
    config = place.snapshot.config
    if config.memory is None:
        return [("memory is off in this cluster", _DIM)]
    agent_id = config.host.agent_id
    if talk.current_session is not None:
        agent_id = (await talk.view()).agent_id
    timeout_s = config.launcher.client_timeout_ms / 1000
    async with connected(place, "operator") as bus:
        if words:
            change = _change(words, agent_id)
            with in_doubt():
                changed = await bus.request("ho3", change, expect=m.OverlayChanged, timeout_s=timeout_s)
            return [_line(changed.overlay)]
        question = m.ReadOverlays(agent_id=agent_id, principal=m.LOCAL, active_only=False)
        shown: list[m.Overlay] = []
        after = question.after
        while after is not None:  # page after page, as of the first one
            question = question.model_copy(update={"after": after})
            found = await bus.request("ho3", question, expect=m.Overlays, timeout_s=timeout_s)
            shown += [one for one in found.overlays if one.state in ("active", "pending")]
            as_of = {"as_of_ts": found.as_of.as_of_ts, "as_of_seq": found.as_of.as_of_seq}
            question, after = question.model_copy(update=as_of), found.next
    if not shown:
        return [("nothing is remembered", _DIM)]
    return [*(_line(one) for one in shown), (_USAGE, _DIM)]


def _change(words: list[str], agent_id: str) -> m.DeactivateOverlay | m.ActivateOverlay | m.ConfirmOverlay:
    known = _CHANGES.get(words[0])
    if known is None or len(words) != 2:  # noqa: PLR2004 - what, and of which
        raise CommandError("/memory: expected a change and an artifact", hint=_USAGE, exit_code=exit_codes.USAGE)
    kind, reason = known
    try:
        return kind(agent_id=agent_id, artifact_id=words[1], reason=reason, at=iso(SystemClock().now()))
    except ValidationError:
        said = f"/memory {words[0]}: {printable(words[1][:80])} is no artifact: expected ART-…, as /memory lists them"
        raise CommandError(said, hint=_USAGE, exit_code=exit_codes.USAGE) from None


def _line(overlay: m.Overlay) -> tuple[str, str]:
    artifact = overlay.artifact
    colour = "yellow" if overlay.state == "pending" else _DIM
    whose = "" if artifact.principal == m.LOCAL else f"  (of {artifact.principal or 'everybody'})"
    return f"{artifact.artifact_id}  {overlay.state}  {printable(artifact.context_line)}{whose}", colour
