"""Whether an actor is ready: as it says itself, and as long as those are that it needs.

The actor is asked until it is ready, or on. Whom it needs it says by its class (`Actor.needs`); which roles are ready
the broker says, at once whenever that changes and with each of its beats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field

from hobus.bus.dispatch import Actor
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.control import REASON_MAX_CHARS, Beat
from hobus.bus.text import cut

State = Literal["starting", "ready", "degraded", "draining"]


class Readiness(Struct):
    """The state that others are told, and why; `on_change` hears every change, `on_bug` a programming error."""

    actor: Actor | None
    interval_s: float
    on_change: Callable[[], None]
    on_bug: Callable[[BaseException], None]
    state: State = "starting"
    reason: str = ""
    _task: asyncio.Task[None] | None = None
    _own: str | None = None  # what the actor said of itself; None until it was asked
    _ready_roles: set[str] = field(default_factory=set[str])

    def starts(self, at_what: str) -> None:
        """Note how far the starting actor is; empty: it does not say."""
        if self.state == "starting":
            self._become("starting", at_what)

    def ask(self) -> None:
        """Ask the actor, at each interval, until it is ready; one that is watched, also after that."""
        self._task = asyncio.get_running_loop().create_task(self._keep_asking())
        self._task.add_done_callback(self._note_end)

    def hear(self, word: Beat) -> None:
        """Take the broker's word on who is ready; a broker that does not know everybody yet changes nothing."""
        self._ready_roles = set(word.ready_roles) | (set() if word.is_whole else self._ready_roles)
        self._judge()

    def drain(self) -> None:
        self.close()
        self._become("draining", "")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _keep_asking(self) -> None:
        while True:
            self._own = await self._explain_not_ready()
            self._judge()
            if not self._own and not (self.actor is not None and self.actor.is_watched):
                return
            await asyncio.sleep(self.interval_s)

    async def _explain_not_ready(self) -> str:
        if self.actor is None:
            return ""
        try:
            return await self.actor.ready()
        except RuntimeFault as fault:
            return str(fault)

    def _judge(self) -> None:
        """Judge by the actor's own reason first; say nothing before it was asked, and nothing new once it drains."""
        if self._own is None or self.state == "draining":
            return
        reason = self._own or name_missing(() if self.actor is None else self.actor.needs, self._ready_roles)
        self._become("degraded" if reason else "ready", reason)

    def _become(self, state: State, reason: str) -> None:
        reason = cut(reason, REASON_MAX_CHARS)
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self.on_change()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_bug(error)


def name_missing(needs: tuple[str, ...], ready_roles: set[str]) -> str:
    """Return '' when one of these roles is ready, or none is needed; else a sentence that names them."""
    if not needs or ready_roles.intersection(needs):
        return ""
    return f"the {needs[0]} is not ready" if len(needs) == 1 else f"neither {' nor '.join(needs)} is ready"
