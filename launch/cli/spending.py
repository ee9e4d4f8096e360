"""What the record says of spending: prompts folded into groups. What is unknown is counted apart. Pure.

A call counts when it has its end, with the settlement that stands there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived, PromptRejected, PromptSent
from hobus.launch.filters.quantities import duration_of

STREAM = "prompts"
KEYS = ("agent", "model", "day", "session")
"""What a report may be grouped by."""

Group = tuple[str, ...]
_Payload = PromptSent | PromptReceived | PromptFailed | PromptRejected
_PAYLOADS: dict[str, type[_Payload]] = {
    "PROMPT_SENT": PromptSent,
    "PROMPT_RECEIVED": PromptReceived,
    "PROMPT_FAILED": PromptFailed,
    "PROMPT_REJECTED": PromptRejected,
}


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
    """Group -> sums, sorted by group. `since_us`: ends (and open calls) recorded before that do not count.

    Raises ValueError that names the entry whose payload cannot be read.
    """
    groups: dict[Group, Spent] = {}
    sent: dict[str, tuple[Group, int]] = {}
    for entry in entries:
        kind, _, name = entry.submission_id.partition(":")
        if kind not in _PAYLOADS:
            continue
        payload = _payload(kind, entry)
        if kind == "PROMPT_SENT":
            sent[name] = (_group_of(entry, payload, by), entry.ledger_at_us)
            continue
        if kind != "PROMPT_REJECTED":
            sent.pop(name, None)
        if entry.ledger_at_us >= since_us:
            groups.setdefault(_group_of(entry, payload, by), Spent()).add(_spent_by(kind, payload))
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
    """The moment in microseconds: a duration ago (`90s`, `1h30m`), or an ISO date or time (UTC). Raises ValueError."""
    try:
        return round((now - duration_of(text)) * 1_000_000)
    except ValueError:
        moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def _payload(kind: str, entry: Entry) -> _Payload | None:
    try:
        return payload_in(_PAYLOADS[kind], entry)
    except ValueError as fault:
        raise ValueError(f"#{entry.sequence} {entry.submission_id} of {entry.origin}: {fault}") from None


def _spent_by(kind: str, payload: _Payload | None) -> Spent:
    if kind == "PROMPT_REJECTED":
        return Spent(rejected=1)
    match payload:
        case PromptReceived():
            return Spent(
                calls=1,
                input_tokens=payload.input_tokens,
                output_tokens=payload.output_tokens,
                tokens=payload.tokens,
                cost_usd=payload.cost_usd or 0.0,
                unknown_prices=int(payload.cost_usd is None),
            )
        case PromptFailed(was_sent=False):
            return Spent()
        case PromptFailed(tokens=tokens, cost_usd=cost, is_unknown=is_unknown):
            return Spent(
                calls=1,
                failed=1,
                tokens=tokens,
                cost_usd=cost or 0.0,
                unknown_prices=int(cost is None),
                unknown_outcomes=int(is_unknown),
                unknown_tokens=tokens if is_unknown else 0,
            )
        case _:  # erased: that it was is all that is left of it
            return Spent(calls=1, failed=int(kind == "PROMPT_FAILED"), unknown_prices=1, unknown_outcomes=1)


def _group_of(entry: Entry, payload: _Payload | None, by: Sequence[str]) -> Group:
    return tuple(_key(name, entry, payload) for name in by)


def _key(name: str, entry: Entry, payload: _Payload | None) -> str:
    match name:
        case "agent":
            return entry.provenance.agent_id or "-"
        case "model":
            if payload is None or isinstance(payload, PromptRejected) or not payload.provider_id:
                return "-"
            return f"{payload.provider_id}/{payload.model_id}"
        case "day":
            return datetime.fromtimestamp(entry.ledger_at_us / 1_000_000, UTC).strftime("%Y-%m-%d")
        case _:
            return entry.provenance.session_id or "-"
