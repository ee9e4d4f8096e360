"""Which processes come and which leave when a role is to have another number of them; values in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hobus.launch.launcher.supervision import Member


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done to the members of a role, each list by rising number."""

    new: list[str]
    """Places to make and start."""
    back: list[str]
    """Places that were drained or about to be removed and are wanted after all."""
    leaving: list[str]
    """Places to empty and remove, the highest numbers first to go."""


def change_to(members: Iterable[Member], role: str, count: int) -> Change:
    """The change to exactly the places 1..count of this role; one that is emptied, or was drained, is started again."""
    there = {number_of(member.actor): member for member in members if member.role == role}
    wanted = range(1, count + 1)
    return Change(
        new=[f"{role}/{number}" for number in wanted if number not in there],
        back=[member.actor for number, member in sorted(there.items()) if number <= count and _is_away(member)],
        leaving=[member.actor for number, member in sorted(there.items()) if number > count],
    )


def number_of(actor: str) -> int:
    """`ho1/12` is number 12."""
    return int(actor.rpartition("/")[2])


def _is_away(member: Member) -> bool:
    """It rests, or will: nobody is to start it again."""
    return member.state == "stopped" or (bool(member.resting_since) and member.then != "start")
