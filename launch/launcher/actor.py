"""Where commands to the launcher arrive; what they mean is `members.py`'s."""

from __future__ import annotations

from hobus.bus.dispatch import Actor, Call
from hobus.bus.messages import launcher
from hobus.launch.launcher.members import Crew
from hobus.launch.launcher.supervision import Member


class LauncherActor(Actor):
    """Every command is one synchronous step: accepted, or refused with a reason."""

    service = "launcher"

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    async def on_scale(self, message: launcher.Scale, call: Call) -> launcher.Members:
        """So many processes of a role."""
        del call
        return told(self._crew.scale(message.role, message.count))

    async def on_restart(self, message: launcher.Restart, call: Call) -> launcher.Members:
        """One process anew."""
        del call
        return told([self._crew.restart(message.actor, kill=message.kill)])

    async def on_drain(self, message: launcher.DrainMember, call: Call) -> launcher.Members:
        """One process at rest."""
        del call
        return told([self._crew.rest(message.actor)])


def told(members: list[Member]) -> launcher.Members:
    """These members as the answer to a command."""
    rows = [launcher.MemberRow(actor=member.actor, state=member.state, instance=member.instance) for member in members]
    return launcher.Members(members=rows)
