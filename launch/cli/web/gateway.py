"""The screen of the gateway: what models were called, how long they took, what failed and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived
from hobus.launch.cli.commands.cost import KEYS, document_of, keys_of, since_of, spent_in, total
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.ledger_service.reader import EntryFilter

_WIDTH, _HEIGHT = 1000.0, 120.0
"""Of a picture, in its own units."""


class PlottedCall(NamedTuple):
    """One call of a model that is over."""

    sequence: int
    session_id: str
    run: int
    order: str
    at_us: int
    model: str
    agent: str
    latency_ms: int | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    failure: str


class Point(NamedTuple):
    """A call in the picture: its place, the height of its bar of tokens, and whether it failed."""

    call: PlottedCall
    x: float
    y: float | None
    tokens: float


def call_in(entry: Entry) -> PlottedCall | None:
    """The call that this entry ends; None: it ends none, or was erased."""
    about = entry.provenance
    facts = (entry.sequence, about.session_id, about.run_seq, about.work_order_id, entry.ledger_at_us)
    if entry.event_type == "PROMPT_RECEIVED" and (said := payload_in(PromptReceived, entry)) is not None:
        model, spent = f"{said.provider_id}/{said.model_id}", (said.input_tokens, said.output_tokens, said.cost_usd)
        return PlottedCall(*facts, model, about.agent_id, said.latency_ms, *spent, "")
    if entry.event_type == "PROMPT_FAILED" and (failed := payload_in(PromptFailed, entry)) is not None:
        model = f"{failed.provider_id}/{failed.model_id}"
        return PlottedCall(
            *facts, model, about.agent_id, None, failed.tokens, 0, failed.cost_usd, entry.reason or "failed"
        )
    return None


def plotted(calls: Sequence[PlottedCall]) -> tuple[list[Point], int, int]:
    """Their points in the order of time, the greatest latency and the most tokens. Pure."""
    slowest = max((one.latency_ms or 0 for one in calls), default=0)
    most = max((one.input_tokens + one.output_tokens for one in calls), default=0)
    step = _WIDTH / max(1, len(calls))
    high = _HEIGHT - 8
    points = [
        Point(
            one, round((number + 0.5) * step, 1),
            None if one.latency_ms is None else round(_HEIGHT - one.latency_ms * high / max(1, slowest) - 4, 1),
            round((one.input_tokens + one.output_tokens) * _HEIGHT / max(1, most), 1),
        )
        for number, one in enumerate(calls)
    ]  # fmt: skip
    return points, slowest, most


async def gateway(look: PageRequest) -> PageAnswer:
    """`hobus cost`, and the last calls of `hobus ledger show --stream prompts`."""
    by = look.query.get("by") or "agent,model"
    since = look.query.get("since", "").strip()
    keys = keys_of(by)
    groups = await run_in_threadpool(spent_in, look.source.home, keys, session=None, since_us=since_of(since or None))
    entries, _ = await look.source.newest(
        EntryFilter(stream="prompts"), before=None, accepts=lambda one: one.event_type != "PROMPT_SENT",
        limit=limits.CALLS, with_bodies=True,
    )  # fmt: skip
    calls = [call for one in reversed(entries) if (call := call_in(one)) is not None]
    points, slowest, most = plotted(calls)
    failures = Counter((one.failure, one.model) for one in calls if one.failure)
    document = document_of(keys, groups) | {"calls": [one._asdict() for one in calls]}
    latencies = sorted(one.latency_ms for one in calls if one.latency_ms is not None)
    shown: dict[str, Any] = {
        "keys": keys, "by": by, "since": since, "groups": groups, "total": total(groups.values()), "points": points,
        "slowest": slowest, "most": most, "failures": failures.most_common(), "calls": calls[::-1][: limits.PAGE],
        "step": _WIDTH / max(1, len(points)), "names": KEYS,
        "median": latencies[len(latencies) // 2] if latencies else None,
        "tail": latencies[min(len(latencies) - 1, len(latencies) * 95 // 100)] if latencies else None,
    }  # fmt: skip
    return PageAnswer("gateway.html", "Gateway", document, f"cost --by {by}", shown, live="*")
