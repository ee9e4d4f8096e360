"""What a process does when its launcher is gone: edges first, what others still need last, everything bounded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from hobus.bus.port import Clock
from hobus.config.schema import AdminConfig

STAGES = {"http": 0, "host": 0, "ho2": 1, "ho1": 2, "ho3": 2, "gateway": 2, "ledger": 3, "broker": 4}
"""A role ends when nobody of an earlier stage is left: the host answers its turns, HO2 settles its runs, and so on."""


def needed_by(role: str, roles: Iterable[str]) -> bool:
    """Whether anybody among these roles still needs a process of `role`; clients and launchers do not count."""
    return any(STAGES.get(other, STAGES["broker"]) < STAGES[role] for other in roles)


def patience_s(role: str, config: AdminConfig) -> float:
    """How long after the launcher's death a process of this role ends at the latest."""
    return config.launcher.orphan_drain_s + max(0, STAGES[role] - 1) * config.bus.drain_ms / 1000


def hard_limit_s(config: AdminConfig) -> float:
    """When even a stuck process ends."""
    return config.launcher.orphan_drain_s + (STAGES["broker"] + 1) * config.bus.drain_ms / 1000


async def wait_until_not_needed(
    role: str,
    roles_present: Callable[[], Awaitable[list[str]]],
    *,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]],
    config: AdminConfig,
) -> float:
    """Returns when nobody needs this process any more or its patience is over; what is left of it, in seconds."""
    deadline = clock.monotonic() + patience_s(role, config)
    while clock.monotonic() < deadline:
        if not needed_by(role, await roles_present()):
            break
        await sleep(config.launcher.orphan_poll_ms / 1000)
    return max(0.0, deadline - clock.monotonic())
