"""How the actor of each role is made for its own process; one file each, so that a process loads only what it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from hobus.bus.dispatch import Actor
from hobus.bus.messages.control import AnnounceTools


async def _nothing() -> None:
    """Close nothing: most actors leave nothing open."""


def _alone(_announce: Callable[[AnnounceTools], None]) -> None:
    """Announce nothing: most actors have no tools that come and go."""


def _unneeded(_given: Mapping[str, str]) -> None:
    """Take nothing: most actors need nothing of the user's environment."""


class Made(Struct, frozen=True):
    """An actor that is not started yet."""

    actor: Actor
    slots: int = 0
    """How many credit-bound requests it takes at once."""
    tools: Sequence[str] = ()
    """Tools that it can run."""
    begin: Callable[[Callable[[AnnounceTools], None]], None] = _alone
    """Called once the actor has started, on its loop: what may come late begins, and tools that come are announced."""
    give: Callable[[Mapping[str, str]], None] = _unneeded
    """Called once, after its tool processes are there and before it starts: the variables that `launch.given` names."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Ends what it leaves open beside the bus."""
