"""What the record says of spending: prompts folded into groups. What is unknown is counted apart. Pure.

A call counts when it has its end, with the settlement that stands there. Source: spec page "Gateway", Budgets: Reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bus.messages.base import unpack
from bus.messages.ledger import Entry

STREAM = "prompts"
KEYS = ("agent", "model", "day", "session")
"""What a report may be grouped by."""

Group = tuple[str, ...]


@dataclass(slots=True)
class Spent:
    """Sums of one group."""

    calls: int = 0  # sent to a provider, with an end
    failed: int = 0  # of them, without an answer
    rejected: int = 0  # refused by the gateway, never sent
    input_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0  # as settled: also what failed calls used, and what unknown ones had reserved
    cost_usd: float = 0.0  # of the calls whose price is known
    unknown_prices: int = 0
    unknown_outcomes: int = 0
    unknown_tokens: int = 0  # of unknown outcomes, at their reservation
    open_calls: int = 0  # sent, without an end yet

    def add(self, other: Spent) -> None:
        """Both together."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def cost_is_known(self) -> bool:
        """Whether `cost_usd` is all of it."""
        return not self.unknown_prices


def report(entries: Iterable[Entry], by: Sequence[str], *, since_us: int = 0) -> dict[Group, Spent]:
    """Group -> sums, sorted by group. `since_us`: ends (and open calls) recorded before that do not count."""
    groups: dict[Group, Spent] = {}
    sent: dict[str, tuple[Group, int]] = {}
    for entry in entries:
        kind, _, name = entry.submission_id.partition(":")
        if kind == "PROMPT_SENT":
            sent[name] = (_group_of(entry, _payload(entry), by), entry.ledger_at_us)
            continue
        if kind in ("PROMPT_RECEIVED", "PROMPT_FAILED"):
            sent.pop(name, None)
        one = _spent_by(entry, kind)
        if one is not None and entry.ledger_at_us >= since_us:
            groups.setdefault(_group_of(entry, _payload(entry), by), Spent()).add(one)
    for group, at_us in sent.values():
        if at_us >= since_us:
            groups.setdefault(group, Spent()).add(Spent(open_calls=1))
    return dict(sorted(groups.items()))


def total(groups: Iterable[Spent]) -> Spent:
    """All of them together."""
    whole = Spent()
    for group in groups:
        whole.add(group)
    return whole


def since_us_of(text: str, now: float) -> int:
    """The moment in microseconds: `90s`, `10m`, `12h`, `7d` ago, or an ISO date or time (UTC). Raises ValueError."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    if text[-1:] in units and text[:-1].isdigit():
        return round((now - int(text[:-1]) * units[text[-1]]) * 1_000_000)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def _spent_by(entry: Entry, kind: str) -> Spent | None:
    if kind == "PROMPT_REJECTED":
        return Spent(rejected=1)
    if kind not in ("PROMPT_RECEIVED", "PROMPT_FAILED"):
        return None
    payload = _payload(entry)
    settled = payload.get("settlement")
    failed = int(kind == "PROMPT_FAILED")
    if settled is None:  # erased: that it was is all that is left of it
        return Spent(calls=1, failed=failed, unknown_prices=1, unknown_outcomes=1)
    if not settled["was_sent"]:
        return Spent()
    cost, is_unknown = settled["cost_usd"], settled["is_unknown"]
    return Spent(
        calls=1,
        failed=failed,
        input_tokens=payload.get("input_tokens", 0),
        output_tokens=payload.get("output_tokens", 0),
        tokens=settled["tokens"],
        cost_usd=cost or 0.0,
        unknown_prices=int(cost is None),
        unknown_outcomes=int(is_unknown),
        unknown_tokens=settled["tokens"] if is_unknown else 0,
    )


def _group_of(entry: Entry, payload: dict[str, Any], by: Sequence[str]) -> Group:
    return tuple(_key(name, entry, payload) for name in by)


def _key(name: str, entry: Entry, payload: dict[str, Any]) -> str:
    match name:
        case "agent":
            return entry.provenance.agent_id or payload.get("agent_id") or "-"
        case "model":
            return f"{payload['provider_id']}/{payload['model_id']}" if payload.get("provider_id") else "-"
        case "day":
            return datetime.fromtimestamp(entry.ledger_at_us / 1_000_000, UTC).strftime("%Y-%m-%d")
        case _:
            return entry.provenance.session_id or "-"


def _payload(entry: Entry) -> dict[str, Any]:
    body = entry.bodies[0] if entry.bodies else None
    if body is None:
        return {}
    value = unpack(body)
    return value if isinstance(value, dict) else {}
