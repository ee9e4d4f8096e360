"""Python's cycle collector, told once what a process of this kind is like.

A turn makes thousands of small objects (messages, headers, handles) and next to no cycles: reference counts free them.
At Python's own thresholds the collector walks the newest of them every 700 allocations, about two times in a turn, for
nothing; that was 7 % of a turn's CPU.
"""

from __future__ import annotations

import gc

_NEWEST, _MIDDLE, _OLDEST = 10_000, 20, 20
"""Allocations until the newest objects are looked at; looks until the next older ones are."""


def freeze_for_forks() -> None:
    """Freeze what there is before forks, and give back what Python keeps of freed objects.

    Else each fork's own `settle` gives that back, and so writes to a hundred pages that all could share.
    """
    gc.freeze()
    gc.collect()


def settle() -> None:
    """Freeze what start-up made, which stays for ever: a full look takes tens of milliseconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEWEST, _MIDDLE, _OLDEST)
