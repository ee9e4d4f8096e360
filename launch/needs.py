"""Whose readiness rests on whose: a process whose need nobody fills is shown as degraded, whatever it says of itself.

Members in, rows out. Source: spec README, table of processes, column "ready needs".
"""

from __future__ import annotations

from collections.abc import Iterable

from launch.run_file import ChildRow
from launch.supervision import START_ORDER, Member

_NEEDS: dict[str, tuple[str, ...]] = {
    "gateway": ("ledger",),
    "ho3": ("ledger",),
    "ho2": ("ledger",),
    "ho1": ("gateway",),
    "host": ("ho2", "gateway"),
    "http": ("host",),
}
"""One of these roles must have a ready process; besides, everybody needs the broker."""


def shown(members: Iterable[Member]) -> list[ChildRow]:
    """The rows of the run file, in the same order; a need of a need counts too."""
    everybody = list(members)
    missing: dict[str, str] = {}
    present = {member.role for member in everybody}
    # A role that this cluster has not is no need.
    ready: set[str] = {role for role in START_ORDER if role not in present}
    for role in START_ORDER:  # each role stands behind those that it needs
        missing[role] = _missing(role, ready)
        if not missing[role] and any(member.role == role and member.state == "ready" for member in everybody):
            ready.add(role)
    return [_row(member, missing.get(member.role, "")) for member in everybody]


def _missing(role: str, ready: set[str]) -> str:
    if role == "broker":
        return ""
    if "broker" not in ready:
        return "the broker is not ready"
    needs = _NEEDS.get(role, ())
    if not needs or ready.intersection(needs):
        return ""
    return f"the {needs[0]} is not ready" if len(needs) == 1 else f"neither {' nor '.join(needs)} is ready"


def _row(member: Member, missing: str) -> ChildRow:
    row = member.row()
    if not missing or member.state != "ready":
        return row
    return row.model_copy(update={"state": "degraded", "note": missing})
