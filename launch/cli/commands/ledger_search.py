"""`hobus ledger search`: what was said, by its words; asked of the running ledger, else of the record's files."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.ledger import Hit, Hits, Search
from hobus.bus.record.catalog import SEARCHED_STREAMS, SEARCHED_TYPES
from hobus.config.files import find
from hobus.launch.cli.commands.options import DURATION, Output, Sent, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.console.output import format_cell, format_count, format_minute, format_zone, note
from hobus.launch.console.view import Columns, print_rows
from hobus.launch.sessions.journal import FromLedger, Journals, open_journals


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@click.option("--session", metavar="ID", help="Only texts of this session (its id or first characters).")
@click.option("--agent", metavar="ID", default="", help="Only texts of this agent.")
@click.option("--type", "event_types", metavar="TYPE", multiple=True, help="Only of this event type; may be repeated.")
@click.option("--stream", "streams", metavar="NAME", multiple=True, help="Only of this stream; session: all journals.")
@click.option("--since", "since_s", type=DURATION, help="Only texts of the last DURATION, e.g. 2d.")
@click.option("--limit", type=Sent(min=1), default=10, show_default=True, help="Maximum number.")
@with_json
def search(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    words: tuple[str, ...],
    session: str | None,
    agent: str,
    event_types: tuple[str, ...],
    streams: tuple[str, ...],
    since_s: float | None,
    limit: int,
) -> Output:
    """Search texts by words: messages, answers, results of tools, learned lines.

    It finds texts with any of the WORDS, the best first. WORDS have no syntax; case and accents do not count (ø, ł and
    ß are letters of their own).
    """
    if not agent.isprintable() or not agent.isascii():
        raise UsageFault(f"--agent {format_cell(agent)}: there is no such agent", hint=format_next_here("agent list"))
    _check("--type", event_types, SEARCHED_TYPES)
    _check("--stream", streams, SEARCHED_STREAMS)
    since_us = 0 if since_s is None else max(0, round((SystemClock().now() - since_s) * 1_000_000))
    question = Search(
        words=" ".join(words).encode("utf-8", "replace").decode(),
        agent_id=agent,
        streams=list(streams),
        event_types=list(event_types),
        since_us=since_us,
        limit=limit,
    )
    found = asyncio.run(_find(home, question, session))
    if found.reached < found.head:
        behind = format_count(found.head - found.reached, "entry", "entries")
        note(f"the newest {behind} of the record were not searched yet; ask again in a moment")
    if agent and not found.hits and f"agents/{agent}.json" not in find(find_layers(home))[0]:
        raise UsageFault(
            f"nothing found, and there is no agent {format_cell(agent)}", hint=format_next_here("agent list")
        )
    document: dict[str, Any] = found.model_dump(mode="json")
    return Output(document, lambda: _show(found, question))


async def _find(home: Home, question: Search, session: str | None) -> Hits:
    async with open_journals(home) as journals:
        if session is not None:
            question = question.model_copy(update={"session_id": await journals.named(session)})
        return await find_in(home, journals, question)


async def find_in(home: Home, journals: Journals, question: Search) -> Hits:
    """Return what the running ledger finds, else what is found in the record's files."""
    if not isinstance(journals, FromLedger):
        # Of a cluster that does not run.
        from hobus.ledger_service.search_reader import search_directory  # noqa: PLC0415

        return search_directory(home.ledger, question)
    return await journals.bus.request("ledger", question, expect=Hits, timeout_s=journals.timeout_s)


def _check(option: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for one in given:
        if one not in known:
            raise UsageFault(f"{option} {one[:80]}: nothing of that is searched; there are {', '.join(known)}")


def _show(found: Hits, question: Search) -> None:
    if not found.hits:
        looked = ", ".join(found.words) if found.words else "there is no word in it"
        note(f"nothing found ({looked})")
        return
    columns: Columns = {
        "SEQ": "sequence", f"TIME {format_zone(SystemClock().now())}": lambda hit: format_minute(hit.at_us / 1_000_000),
        "SESSION": lambda hit: hit.session_id and shorten_session(hit.session_id), "SAID AS": "kind",
        "SCORE": lambda hit: f"{hit.score:.2f}", "TEXT": _format_excerpt,
    }  # fmt: skip
    print_rows(found.hits, columns, spare=("SAID AS",))
    if found.more and len(found.hits) == question.limit:
        note(f"there is more: --limit {question.limit * 2}")
    elif found.more:
        note(
            f"these {len(found.hits)} are as many as the ledger gives at once; there may be "
            "more: ask with rarer words, or narrow it with --session, --type or --since"
        )


def _format_excerpt(hit: Hit) -> str:
    text = " ".join(hit.excerpt.split())
    before = "…" if hit.excerpt_at else ""
    after = "…" if hit.excerpt_at + len(hit.excerpt) < hit.text_chars else ""
    return format_cell(f"{before}{text}{after}")
