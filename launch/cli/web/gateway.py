"""The screen of the gateway: what models were called, how long they took, what failed and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived
from hobus.launch.cli.commands import cost
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.cluster.record import demand_record
from hobus.ledger_service.reader import EntryFilter, read_entries

_WIDTH, _HEIGHT = 1000.0, 120.0
"""Of a picture, in its own units."""


class PlottedCall(NamedTuple):
    """One call of a model that is over."""

    sequence: int
    call: str
    """Its key, which its attempts share."""
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
    instead_of: str = ""
    """The model that failed in the call before, where this one is its fallback."""


class Point(NamedTuple):
    """A call in the picture: its place, the height of its bar of tokens, and whether it failed."""

    call: PlottedCall
    x: float
    y: float | None
    tokens: float


def call_in(entry: Entry) -> PlottedCall | None:
    """Return the call that this entry ends; None: it ends none, or was erased."""
    about = entry.provenance
    key = entry.submission_id.partition(":")[2].rpartition("/")[0]
    facts = (entry.sequence, key, about.session_id, about.run_seq, about.work_order_id, entry.ledger_at_us)
    if entry.event_type == "PROMPT_RECEIVED" and (said := read_payload(PromptReceived, entry)) is not None:
        model, spent = f"{said.provider_id}/{said.model_id}", (said.input_tokens, said.output_tokens, said.cost_usd)
        return PlottedCall(*facts, model, about.agent_id, said.latency_ms, *spent, "")
    if entry.event_type == "PROMPT_FAILED" and (failed := read_payload(PromptFailed, entry)) is not None:
        model = f"{failed.provider_id}/{failed.model_id}"
        spent = (failed.tokens, 0, failed.cost_usd)
        return PlottedCall(*facts, model, about.agent_id, None, *spent, entry.reason or "failed")
    return None


def with_fallbacks(calls: Iterable[PlottedCall]) -> list[PlottedCall]:
    """Name in each call the model that was asked before another one in it, oldest first. Pure."""
    asked: dict[str, str] = {}
    return [
        one._replace(instead_of=first if (first := asked.setdefault(one.call, one.model)) != one.model else "")
        for one in calls
    ]


def plot_calls(calls: Sequence[PlottedCall]) -> tuple[list[Point], int, int]:
    """Return points in the order of time, the greatest latency and the most tokens. Pure."""
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


async def show_gateway(look: PageRequest) -> PageAnswer:
    """`hobus cost` of the newest calls, since a moment that it names, and the last of them one by one."""
    by = look.query.get("by") or "agent,model"
    since = look.text("since")
    keys = cost.parse_keys(by)
    since_us, home = cost.parse_since(since or None), look.source.home

    def read_newest() -> tuple[list[Entry], dict[cost.Group, cost.Spent], bool]:
        wanted = EntryFilter(stream=cost.STREAM)
        found = list(read_entries(home.ledger, wanted, limit=limits.SUMMED, newest_first=True, with_bodies=True))
        is_cut = len(found) == limits.SUMMED and found[-1].ledger_at_us >= since_us
        return found, cost.sum_by(home, found[::-1], keys, since_us=since_us), is_cut

    demand_record(home)
    entries, groups, is_cut = await run_in_threadpool(read_newest)
    begun_us = entries[-1].ledger_at_us if is_cut else since_us
    last = islice((call for one in entries if (call := call_in(one)) is not None), limits.CALLS)
    calls = with_fallbacks(list(last)[::-1])
    points, slowest, most = plot_calls(calls)
    failures = Counter((one.failure, one.model) for one in calls if one.failure)
    latencies = sorted(one.latency_ms for one in calls if one.latency_ms is not None)
    median, tail = (latencies[len(latencies) * part // 100] if latencies else None for part in (50, 95))
    document = cost.make_document(keys, groups) | {
        "since_us": begun_us, "median_ms": median, "p95_ms": tail, "calls": [one._asdict() for one in calls],
        "failures": [{"code": code, "model": model, "calls": count} for (code, model), count in failures.items()],
    }  # fmt: skip
    shown: dict[str, Any] = {
        "keys": keys, "by": by, "since": since, "groups": groups, "points": points,
        "total": cost.sum_total(groups.values()), "slowest": slowest, "most": most,
        "failures": failures.most_common(), "calls": calls[::-1][: limits.PAGE],
        "step": _WIDTH / max(1, len(points)), "names": cost.KEYS, "median": median, "tail": tail,
        "begun_us": begun_us, "is_cut": is_cut,
    }  # fmt: skip
    return PageAnswer("gateway.html", "Gateway", document, shown, live="*")
