"""The life cycle of a session's run: one table, from which check, diagram and tests are made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hobus.bus.messages.session import Lifecycle

TRANSITIONS: Mapping[Lifecycle, tuple[Lifecycle, ...]] = MappingProxyType(
    {
        "Idle": ("Running",),
        "Running": ("WaitingInput", "Paused", "Cancelling", "Completed", "Failed"),
        "WaitingInput": ("Running", "Paused", "Cancelling", "Completed", "Failed"),
        "Paused": ("Running", "Cancelling"),
        "Cancelling": ("Cancelled",),
        "Completed": ("Idle",),
        "Failed": ("Idle",),
        "Cancelled": ("Idle",),
    }
)
"""Completed, Failed and Cancelled are left again by the event that ends the run."""

DEGRADED_PATH: tuple[Lifecycle, ...] = ("Cancelled", "Idle")
"""TurnDegraded is legal in every state: it ends the active run at once, past the table."""


def may(source: Lifecycle, target: Lifecycle) -> bool:
    """Whether the table has this transition."""
    return target in TRANSITIONS[source]


def walk(source: Lifecycle, *path: Lifecycle) -> Lifecycle | None:
    """The last state of the path if every step of it stands in the table, else None."""
    for target in path:
        if not may(source, target):
            return None
        source = target
    return source


def diagram() -> str:
    """The table as a Mermaid state diagram (docs/sessions.md holds exactly this text)."""
    lines = ["stateDiagram-v2", "    [*] --> Idle"]
    lines += [f"    {source} --> {target}" for source, targets in TRANSITIONS.items() for target in targets]
    return "\n".join(lines)
