"""Sources that a supervisor has of its own: facts of the record, registries of its snapshot, functions of the program.

What needs a disk or an index comes from services, and what is the turn's own (history, memory, liveness) from the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import count
from typing import Any

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.attention.context import AttentionRequest, Fragment, make_fragment
from hobus.actors.ho2_supervisor.attention.pipeline import AskingSource, Room
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.limits import PAGE_ENTRIES_MAX
from hobus.bus.messages.ids import format_iso_us, parse_iso_us
from hobus.bus.messages.ledger import Entry, Query
from hobus.config.assets import Tier
from hobus.config.attention_template import Custom, LedgerQuery, RegistryQuery
from hobus.config.registries import Manifests, list_rows


def make_own_sources(request: AttentionRequest, manifests: Manifests, client: LedgerClient) -> dict[str, AskingSource]:
    """Return the sources of this request."""

    async def query_ledger(config: LedgerQuery, room: Room) -> AsyncGenerator[Fragment, None]:
        question = Query(where=_make_conditions(config, request), limit=PAGE_ENTRIES_MAX, newest_first=True)
        found: list[Entry] = []
        for number in count(1):
            room.account.query()
            page = await client.page(question)
            found += page.entries
            if not page.more or _is_enough(found, config, room, request.at):
                break
            if number >= limits.PAGES_MAX or not room.account.queries_left:
                bound = "max_queries" if number < limits.PAGES_MAX else f"{limits.PAGES_MAX} pages"
                room.warn(f"the record was looked through back to entry {found[-1].sequence} alone ({bound})")
                break
            question = question.model_copy(update={"before": found[-1].sequence})
        for entry in choose_entries(found, config, room, request.at):
            yield make_fragment("ledger", entry.submission_id, render_entry(entry), at_us=entry.at_us)

    async def query_registries(config: RegistryQuery, room: Room) -> AsyncGenerator[Fragment, None]:
        room.account.query()
        for row in list_rows(config.registry, manifests, config.filters):
            yield make_fragment("registry", row.row_id, row.text)

    async def tell_moment(config: Custom, _room: Room) -> AsyncGenerator[Fragment, None]:
        """Tell when the message was sent, as its turn has it: the one handler there is; no clock is read."""
        said = f"The message was sent at {request.at} (UTC)."
        yield make_fragment("custom", config.handler, said, at_us=parse_iso_us(request.at))

    return {"ledger_query": query_ledger, "registry_query": query_registries, "custom": tell_moment}


def _is_enough(found: Sequence[Entry], config: LedgerQuery, room: Room, at: str) -> bool:
    """Return whether nothing older can be among what the stage gives."""
    if config.recency_s is not None and found[-1].ledger_at_us < parse_iso_us(at) - config.recency_s * 1_000_000:
        return True
    picked = choose_entries(found, config, room, at)
    is_by_tier = room.is_tier_by_tier and config.tier is None and bool(room.tiers)
    return len(picked) == config.max_entries and not (is_by_tier and picked[-1].provenance.tier != room.tiers[0])


def choose_entries(entries: Sequence[Entry], config: LedgerQuery, room: Room, at: str) -> list[Entry]:
    """Choose, from entries newest first, those before the turn, recent enough, and of the stage's tiers."""
    until_us = parse_iso_us(at)
    since_us = 0 if config.recency_s is None else until_us - config.recency_s * 1_000_000
    tiers: tuple[Tier, ...] = room.tiers if config.tier is None else (config.tier,)
    found = [
        entry
        for entry in entries
        if since_us <= entry.at_us < until_us and (not tiers or entry.provenance.tier in tiers)
    ]
    if room.is_tier_by_tier and tiers:
        found.sort(key=lambda entry: tiers.index(entry.provenance.tier))  # pyright: ignore[reportArgumentType]
    return found[: config.max_entries]


def render_entry(entry: Entry) -> str:
    """Return one entry as a prompt shows it: ids and codes, as the record's envelope has them."""
    about = entry.provenance
    facts = {
        "decision": entry.decision,
        "reason": entry.reason,
        "agent": about.agent_id,
        "session": about.session_id,
        "run": about.run_seq or "",
        "order": about.work_order_id,
    }
    told = " ".join(f"{name}={value}" for name, value in facts.items() if value)
    return f"{format_iso_us(entry.at_us)} {entry.event_type} {told} ({entry.submission_id})"


def _make_conditions(config: LedgerQuery, request: AttentionRequest) -> dict[str, Any]:
    scopes: Mapping[str, dict[str, Any]] = {
        "session": {"session_id": request.session_id},
        "agent": {"agent_id": request.agent.agent_id},
        "cluster": {},
    }
    kind = {} if config.event_type is None else {"event_type": config.event_type}
    return {**config.filters, **kind, **scopes[config.scope]}
