"""Sources of a context that others answer: texts of the record by their words, files of the cluster's machine.

A text that is found is shown by its ref, as a stretch of what was recorded: it is stored no second time, and gone from
prompts once it is erased.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from collections.abc import Set as AbstractSet

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.attention.account import LimitReached
from hobus.actors.ho2_supervisor.attention.context import AttentionRequest, Fragment, make_fragment
from hobus.actors.ho2_supervisor.attention.pipeline import AskingSource, Room
from hobus.actors.ho2_supervisor.attention.word_rank import rank_texts
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus import limits as bus_limits
from hobus.bus.messages.files import AT_HOME, FileText, ReadFile
from hobus.bus.messages.ledger import Hit, Search
from hobus.bus.record.journal import find_start_id, read_principal
from hobus.bus.record.text_parts import TextPart
from hobus.config.attention_template import USER_INPUT, FileRead, HorizontalSearch
from hobus.config.registries import FIELDS, list_rows

_CUT = "\n[The file goes on; only its beginning is shown.]"
"""For the model, which would take it for the whole file."""
_BLANK_LINES = re.compile(r"\n[ \t]*\n")
_SEARCHED_TIER = "hot"
"""What people and models said is of this tier; no other one has texts that a supervisor may search."""


def make_lookups(run: Run, request: AttentionRequest, shown: AbstractSet[str]) -> dict[str, AskingSource]:
    """Return the sources that others answer; `shown`: refs of texts that the prompt has already, which are no find."""

    async def search_record(config: HorizontalSearch, room: Room) -> AsyncGenerator[Fragment, None]:
        found: list[Fragment] = []
        if "ledger" in config.sources:
            found += await _search_said(run, request, shown, config, room)
        others = _list_rows(run) if "registries" in config.sources else []
        if "files" in config.sources:
            others += await _read_passages(run, request, config, room)
        words = config.query.replace(USER_INPUT, request.user_input)
        for score, place in rank_texts([one.content for one in others], words, words_max=bus_limits.SEARCH_WORDS_MAX):
            if score >= config.relevance_threshold:
                found.append(others[place]._replace(relevance_score=score))
        found.sort(key=lambda fragment: -(fragment.relevance_score or 0.0))
        for fragment in found[: config.max_results]:
            yield fragment

    return {"file_read": _make_file_source(run, request), "horizontal_search": search_record}


async def _search_said(
    run: Run, request: AttentionRequest, shown: AbstractSet[str], config: HorizontalSearch, room: Room
) -> list[Fragment]:
    """Search texts of the record; ask nothing while the prompt has all of them."""
    tiers = config.tiers or room.tiers
    if tiers and _SEARCHED_TIER not in tiers:
        room.warn(f"texts of tier {', '.join(tiers)} are not searched")
        return []
    if config.scope == "session" and _is_all_shown(run, shown):
        return []
    room.account.query()
    hits = await run.resources.client.search(_make_question(run, request, config))
    if hits.reached < min(hits.head, run.stood_before):
        room.warn(f"the record was searched up to entry {hits.reached} alone")
    found = choose_hits(hits.hits, shown, request.user_input)
    if not _is_of_anybody(request, config):
        return [render_found(hit) for hit in found]
    sessions = sorted({hit.session_id for hit in found} - {request.session_id})
    starts = await run.resources.client.lookup([find_start_id(one) for one in sessions], with_bodies=True)
    whose = dict(zip(sessions, map(read_principal, starts), strict=True))
    own = {"", run.session.record.state.principal}
    return [render_found(hit, by="" if (by := whose.get(hit.session_id, "")) in own else by) for hit in found]


def _is_of_anybody(request: AttentionRequest, config: HorizontalSearch) -> bool:
    return config.scope == "agent" and request.agent.shares_texts


def _list_rows(run: Run) -> list[Fragment]:
    rows = [row for registry in FIELDS for row in list_rows(registry, run.resources.snapshot.manifests, {})]
    return [make_fragment("registry", row.row_id, row.text) for row in rows]


async def _read_passages(run: Run, request: AttentionRequest, config: HorizontalSearch, room: Room) -> list[Fragment]:
    """Return what stands between blank lines in the named files, each passage with its file in front."""
    found: list[Fragment] = []
    for path in config.paths:
        room.account.query()
        text = await _read_file(run, request, path, room, max_bytes=limits.REQUIRED_FILE_MAX_BYTES)
        passages = [one for one in _BLANK_LINES.split(text) if one.strip()]
        found += [
            make_fragment("file", f"{path}#{number}", f"{path}: {one.strip()}")
            for number, one in enumerate(passages, 1)
        ]
    return found


def _make_question(run: Run, request: AttentionRequest, config: HorizontalSearch) -> Search:
    """Build the search of what came before this run; nobody waits until the run's own texts are indexed."""
    return Search(
        words=config.query.replace(USER_INPUT, request.user_input),
        session_id=request.session_id if config.scope == "session" else "",
        agent_id=request.agent.agent_id,
        principal="" if _is_of_anybody(request, config) else run.session.record.state.principal,
        streams=["session"],
        before=run.stood_before + 1,
        score_min=config.relevance_threshold,
        limit=config.max_results,
        statements_first=True,
    )


def _is_all_shown(run: Run, shown: AbstractSet[str]) -> bool:
    turns = run.history.turns
    return run.history.count == len(turns) and all({turn.input_ref, turn.reply_ref} <= shown for turn in turns)


def _make_file_source(run: Run, request: AttentionRequest) -> AskingSource:
    async def read_files(config: FileRead, room: Room) -> AsyncGenerator[Fragment, None]:
        for path in config.paths:
            room.account.query()
            heading = f"{path}:\n"
            chars_left = room.account.chars_left - len(heading) - len(_CUT) - 1
            if chars_left <= 0:
                raise LimitReached("tokens")
            text = await _read_file(run, request, path, room, max_bytes=min(config.max_size_bytes, chars_left))
            if text:
                yield make_fragment("file", path, heading + text)

    return read_files


async def _read_file(run: Run, request: AttentionRequest, path: str, room: Room, *, max_bytes: int) -> str:
    """Read the file, as far as this agent may, by a worker on the cluster's own machine; empty with a warning.

    A cut text says so at its end. Raises RuntimeFault where no worker answers.
    """
    question = ReadFile(
        agent_id=request.agent.agent_id, config_digest=run.requested.config_digest, path=path, max_bytes=max_bytes
    )
    found = await run.resources.bus.request(
        "ho1", question, expect=FileText, timeout_s=room.account.seconds_left, key=AT_HOME
    )
    if found.is_cut:
        room.leave_out(found.warning)
    elif found.warning:
        room.warn(found.warning)
    return found.text + (_CUT if found.is_cut else "")


def choose_hits(hits: Sequence[Hit], shown: AbstractSet[str], message: str) -> list[Hit]:
    """Choose, of the best hits, those that say something new: each text once, not the message, nor why a step failed.

    Where the best answer is in the prompt anyway, no lesser one is looked for in its place.
    """
    known = {_normalise(message)}
    found: list[Hit] = []
    for hit in hits:
        if hit.kind != "failure" and hit.ref not in shown and (words := _normalise(hit.excerpt)) not in known:
            known.add(words)
            found.append(hit)
    return found


def _normalise(text: str) -> str:
    return " ".join(text.split())


def render_found(hit: Hit, *, by: str = "") -> Fragment:
    """Return what was said, in quotation marks, with who said it (`by`: to whom else); the words by their ref."""
    end = hit.excerpt_at + len(hit.excerpt)
    is_whole = len(hit.excerpt) == hit.text_chars
    text = TextPart(hit.ref, hit.excerpt, "" if is_whole else f"{hit.excerpt_at}:{end}")
    before = "…" if hit.excerpt_at else ""
    after = "…" if end < hit.text_chars else ""
    told = f"said before ({hit.kind}{f', in a session of {by}' if by else ''}): “{before}"
    parts = (TextPart(None, told), text, TextPart(None, f"{after}”\n"))
    return Fragment("search", hit.ref, parts, relevance_score=hit.score, at_us=hit.at_us)
