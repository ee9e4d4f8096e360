"""States of a supervised process and every legal transition between them; anything else is a programming error.

stopped --spawned--> starting --is_ready/is_degraded--> ready <-> degraded
^                    |            any of the three --crashed--> backoff --spawned--> starting
|                    |                             --gave_up--> failed
+------ended/crashed-- draining <--drain-- any living state

"""

from __future__ import annotations

from typing import Literal

State = Literal["starting", "ready", "degraded", "draining", "backoff", "failed", "stopped"]
Event = Literal["spawned", "is_starting", "is_ready", "is_degraded", "crashed", "gave_up", "drain", "ended"]

_LIVING: dict[Event, State] = {
    "is_starting": "starting",
    "is_ready": "ready",
    "is_degraded": "degraded",
    "crashed": "backoff",
    "gave_up": "failed",
    "drain": "draining",
    "ended": "stopped",
}

TRANSITIONS: dict[State, dict[Event, State]] = {
    "stopped": {"spawned": "starting", "drain": "stopped"},
    "starting": _LIVING,
    "ready": _LIVING,
    "degraded": _LIVING,
    "draining": {
        "is_starting": "draining",
        "is_ready": "draining",
        "is_degraded": "draining",
        "crashed": "stopped",
        "ended": "stopped",
        "drain": "draining",
    },
    "backoff": {"spawned": "starting", "gave_up": "failed", "drain": "stopped"},
    "failed": {"drain": "stopped"},
}

RUNNING: frozenset[State] = frozenset({"starting", "ready", "degraded", "draining"})
"""States in which there is an operating system process."""


def next_state(state: State, event: Event) -> State:
    """The state after this event. Raises ValueError for a pair that cannot happen."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ValueError(f"a process in state {state} cannot be told {event}") from None
