"""When a dead process is started again, and when it is given up; values in, values out.

Back-off is exponential with jitter and a cap; it starts anew after a healthy life. A crash budget within a window ends
in `failed`, unless what it lacks is space.
"""

from __future__ import annotations

import errno
import os

from msgspec import Struct

from hobus.config.sections.processes import LauncherConfig


class CrashHistory(Struct, frozen=True):
    """What is remembered of a process's crashes: their times inside the window, and how many came in a row."""

    crashes: tuple[float, ...] = ()
    streak: int = 0


class RestartDecision(Struct, frozen=True):
    """What to do after a crash: restart after `delay_s`, or give up (None)."""

    history: CrashHistory
    delay_s: float | None


_NO_ROOM = ("disk_full", *map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))
"""What no restart fixes, but somebody at the machine will: our own word for it, and the system's."""


def decide_after_crash(  # noqa: PLR0913 - what a crash is judged by
    history: CrashHistory, *, started_at: float, now: float, draw: float, config: LauncherConfig, reason: str = ""
) -> RestartDecision:
    """Decide after a crash at `now` of a process that was started at `started_at`; `draw` is from [0, 1).

    `reason`: its last words. One that ended because there is no room is never given up, and does not count. The first
    one in a row waits for nothing: something that worked is wanted back at once.
    """
    window_start = now - config.crash_window_ms / 1000
    lacks_room = any(words in reason for words in _NO_ROOM)
    crashes = tuple(at for at in (*history.crashes, *(() if lacks_room else (now,))) if at > window_start)
    was_healthy = (now - started_at) * 1000 >= config.healthy_after_ms
    streak = 1 if was_healthy else history.streak + 1
    following = CrashHistory(crashes=crashes, streak=streak)
    if len(crashes) >= config.crash_budget and not lacks_room:
        return RestartDecision(following, None)
    return RestartDecision(following, compute_backoff_s(streak, draw=draw, config=config))


def compute_backoff_s(streak: int, *, draw: float, config: LauncherConfig) -> float:
    """Return seconds before the restart after the `streak`-th crash in a row: half of the step to the whole step.

    The first waits for nothing.
    """
    if streak <= 1:
        return 0.0
    doubled = config.restart_backoff_min_ms * 2 ** min(streak - 2, 32)
    step_ms = min(doubled, config.restart_backoff_max_ms)
    return step_ms * (0.5 + 0.5 * draw) / 1000
