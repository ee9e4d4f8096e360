"""Charges outside beside what the record says of their orders: exactly one for a completed one, never two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.outside import Outside
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import ToolStarted

CHARGES = ("charge_keyed", "charge_unkeyed")


@dataclass(slots=True)
class Charges:
    """What one tool of outside effects was asked, and did."""

    calls: int = 0  # orders whose tool was begun
    completed: int = 0
    in_doubt: int = 0  # ended as unknown_outcome, which model and client are told
    otherwise: int = 0  # ended as failed for another reason, or with no end as their turn was answered without it
    effects: int = 0  # outside
    runs: int = 0  # outside


def charges_of(entries: Iterable[Entry], outside: Outside) -> tuple[dict[str, Charges], list[str]]:
    """By tool what became of its calls; and each order that was charged twice, or not as the record says."""
    found: dict[str, Charges] = {}
    wrong: list[str] = []
    about = [one for one in entries if one.event_type in ("TOOL_STARTED", "WO_COMPLETED", "WO_FAILED")]
    tool_of = {
        entry.provenance.work_order_id: started.tool_id
        for entry in about
        if entry.event_type == "TOOL_STARTED" and (started := read_payload(ToolStarted, entry)) is not None
    }
    ends = {entry.provenance.work_order_id: entry for entry in about if entry.event_type != "TOOL_STARTED"}
    for tool_id in CHARGES:
        effects = outside.effects(tool_id)
        found[tool_id] = Charges(effects=len(effects), runs=len(outside.runs(tool_id)))
        orders = [wo_id for wo_id, name in tool_of.items() if name == tool_id]
        wrong += _counted(found[tool_id], tool_id, orders, ends, effects)
        wrong += [f"{wo_id} by {tool_id}: no such order" for wo_id in set(effects) if wo_id not in tool_of]
    return found, sorted(wrong)


def _counted(
    found: Charges, tool_id: str, orders: Sequence[str], ends: dict[str, Entry], effects: Sequence[str]
) -> list[str]:
    done = Counter(effects)
    wrong: list[str] = []
    for wo_id in orders:
        end = ends.get(wo_id)
        is_completed = end is not None and end.event_type == "WO_COMPLETED"
        is_in_doubt = end is not None and end.reason == "unknown_outcome"
        found.calls += 1
        found.completed += is_completed
        found.in_doubt += is_in_doubt
        found.otherwise += not is_completed and not is_in_doubt
        if done[wo_id] > 1 or (is_completed and done[wo_id] != 1) or (is_in_doubt and tool_id == "charge_keyed"):
            wrong.append(f"{wo_id} by {tool_id}: {done[wo_id]} effects")
    return wrong
