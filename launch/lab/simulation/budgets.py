"""Invariants of spending, one step per entry: what was held is settled or given back, and `enforce` means it.

The sums are added up here by themselves, beside the gateway's own (`gateway_service/budget.py`), to compare with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hobus.bus.messages.gateway import ScopeBudget
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.entry import Provenance
from hobus.bus.record.payloads.prompts import (
    BudgetAllocated,
    PromptFailed,
    PromptReceived,
    PromptSent,
    list_scopes,
    name_order_scope,
)
from hobus.launch.lab.simulation.record import call_of, must, read_known_payload

_ORDER = name_order_scope("")


class BudgetMonitor:
    """Check that reserved = settled + released in every scope, and that in mode enforce no scope exceeds its limit.

    The last resort does not wait for the ledger: what it reserves may stand beside another prompt's in the record,
    until one of them has its end there: it was never sent, or took less.
    """

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._used: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._open: dict[str, tuple[int, Sequence[str]]] = {}
        self._excess: dict[tuple[str, str], int] = {}  # (prompt, scope) -> tokens over the limit until then

    def step(self, entry: Entry) -> None:
        """Raise Broken where a budget is overspent or an end settles what nobody held."""
        if entry.event_type == "BUDGET_ALLOCATED":
            allocated = read_known_payload(BudgetAllocated, entry)
            self._limits[allocated.scope] = allocated.limit
        elif entry.event_type == "PROMPT_SENT":
            self._hold(call_of(entry), entry.provenance, read_known_payload(PromptSent, entry))
        elif entry.event_type == "PROMPT_RECEIVED":
            self._settle(call_of(entry), read_known_payload(PromptReceived, entry).tokens)
        elif entry.event_type == "PROMPT_FAILED":
            self._settle(call_of(entry), read_known_payload(PromptFailed, entry).tokens)

    def _hold(self, name: str, about: Provenance, sent: PromptSent) -> None:
        tokens, scopes = sent.reserved_tokens, list_scopes(about, sent)
        if sent.token_budget is not None:
            self._limits[name_order_scope(about.work_order_id)] = sent.token_budget
        self._open[name] = (tokens, scopes)
        for scope in scopes:
            self._reserved[scope] += tokens
            limit = self._limits.get(scope)
            spent = self._used[scope] + self._reserved[scope]
            if sent.budget_mode != "enforce" or limit is None or spent <= limit:
                continue
            said = f"{name} takes {scope} to {spent} tokens in mode enforce; the limit is {limit}"
            beside = [one for one, (_, of) in self._open.items() if scope in of]
            must(any(one.startswith("WO-DEGRADED-") for one in beside), said)
            self._excess[name, scope] = spent - limit

    def _settle(self, name: str, settled: int) -> None:
        must(name in self._open, f"{name} is settled and was not held")
        tokens, scopes = self._open.pop(name)
        must(settled >= 0, f"{name} gives tokens back that it never had")
        for scope in scopes:
            self._reserved[scope] -= tokens
            self._used[scope] += settled
            self._give_back(scope, tokens - settled)

    def _give_back(self, scope: str, tokens: int) -> None:
        """Give back what was not spent: what stands beside it may have had it."""
        for key in [key for key in self._excess if key[1] == scope]:
            self._excess[key] -= tokens
            if self._excess[key] <= 0:
                del self._excess[key]

    def compare(self, rows: Sequence[ScopeBudget]) -> None:
        """Compare, at rest, the gateway's own figures with the record's: nothing held, nothing spent forgotten."""
        over = ", ".join(f"{name} over {scope} by {tokens} tokens" for (name, scope), tokens in self._excess.items())
        must(not over, f"in mode enforce: {over}")
        for row in rows:
            must(row.reserved == 0, f"{row.scope}: {row.reserved} tokens are still reserved, and nothing runs")
            used = self._used[row.scope]
            must(row.used == used, f"{row.scope}: the gateway says {row.used} tokens were used, the record {used}")
        told = {row.scope for row in rows}
        missing = sorted(
            scope
            for scope, used in self._used.items()
            if used and scope not in told and not scope.startswith(_ORDER)  # shown while it has a call in flight
        )
        must(not missing, f"the gateway has forgotten what was spent in {', '.join(missing)}")
