"""Sources of a context that others answer: texts of the record by their words, files of the cluster's machine.

A text that is found is shown by its ref, as a stretch of what was recorded: it is stored no second time, and gone from
prompts once it is erased.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hobus.actors.ho2_supervisor.attention.account import LimitReached
from hobus.actors.ho2_supervisor.attention.context import AttentionRequest, Fragment, plain
from hobus.actors.ho2_supervisor.attention.pipeline import FragmentSource, Room
from hobus.actors.ho2_supervisor.turn import sources
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.actors.ho2_supervisor.turn.text_parts import TextPart
from hobus.bus.messages.ledger import Hit, Search
from hobus.config.attention_template import FileRead, HorizontalSearch

_MESSAGE = "{{ user_input }}"
_SEARCHED_TIER = "hot"
"""What people and models said is of this tier; no other one has texts that a supervisor may search."""


def lookups(run: Run, request: AttentionRequest, shown: frozenset[str]) -> dict[str, FragmentSource]:
    """`shown`: refs of texts that the prompt has anyway: they are no find."""

    async def file_read(config: FileRead, room: Room) -> AsyncGenerator[Fragment, None]:
        for path in config.paths:
            room.account.query()
            heading = f"{path}:\n"
            chars_left = room.account.chars_left - len(heading) - 1
            if chars_left <= 0:
                raise LimitReached("tokens")
            found = await sources.file_text(
                run.resources.bus, path, agent_id=request.agent.agent_id, config_digest=run.requested.config_digest,
                max_bytes=min(config.max_size_bytes, chars_left), timeout_s=room.account.seconds_left,
            )  # fmt: skip
            if found.warning:
                room.warn(found.warning)
            if found.text:
                yield plain("file", path, heading + found.text)

    async def horizontal_search(config: HorizontalSearch, room: Room) -> AsyncGenerator[Fragment, None]:
        tiers = config.tiers or room.tiers
        if tiers and _SEARCHED_TIER not in tiers:
            room.warn(f"texts of tier {', '.join(tiers)} are not searched")
            return
        room.account.query()
        hits = await run.resources.client.search(
            Search(
                words=config.query.replace(_MESSAGE, request.user_input),
                session_id=request.session_id if config.scope == "session" else "",
                agent_id=request.agent.agent_id,
                streams=["session"],
                score_min=config.relevance_threshold,
                limit=config.max_results + len(shown),
            )
        )
        if hits.reached < hits.head:
            room.warn(f"the newest {hits.head - hits.reached} entries of the record were not searched")
        for hit in [hit for hit in hits.hits if hit.ref not in shown][: config.max_results]:
            yield found_text(hit)

    return {"file_read": file_read, "horizontal_search": horizontal_search}


def found_text(hit: Hit) -> Fragment:
    """What was said, in quotation marks, with who said it; the words themselves by their ref."""
    end = hit.excerpt_at + len(hit.excerpt)
    is_whole = len(hit.excerpt) == hit.text_chars
    text = TextPart(hit.ref, hit.excerpt, "" if is_whole else f"{hit.excerpt_at}:{end}")
    before = "…" if hit.excerpt_at else ""
    after = "…" if end < hit.text_chars else ""
    parts = (TextPart(None, f"said before ({hit.kind}): “{before}"), text, TextPart(None, f"{after}”\n"))
    return Fragment("search", hit.ref, parts, relevance_score=hit.score, at_us=hit.at_us)
