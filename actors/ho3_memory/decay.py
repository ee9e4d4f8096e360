"""How much is left of something after a time."""

from __future__ import annotations

from hobus.actors.ho3_memory.event_time import HOUR_US

DECIMALS = 9
"""Every float that is recorded, ranked or compared is rounded to so many decimals first: same bytes on any machine."""


def remaining(age_us: int, half_life_hours: float) -> float:
    """The unrounded share that is left after `age_us`: 1 at no age or a negative one, one half at one half-life."""
    if age_us <= 0:
        return 1.0
    return 2.0 ** -(age_us / HOUR_US / half_life_hours)


def decay(last_seen_us: int, as_of_us: int, half_life_hours: float) -> float:
    """What a signal weighs that was last seen then: at most 1, rounded."""
    return round(remaining(as_of_us - last_seen_us, half_life_hours), DECIMALS)
