"""The screens of one turn, why it was answered so, and of two turns beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from hobus.launch.cli.commands.why import changed_lines, compared, document_of
from hobus.launch.cli.provenance_view import MADE_UNDER, change_in_words, rows_of
from hobus.launch.cli.turn_account import run_in
from hobus.launch.cli.turn_why import ExplainedTurn, explained
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.cli.why_view import opening, value_in_words
from hobus.launch.sessions.account import short
from hobus.launch.sessions.journal import begun
from hobus.launch.sessions.tool_texts import ToolText
from hobus.launch.sessions.why import Span
from hobus.launch.sessions.why_failed import FailureSeen

_WIDTH = 1000.0
"""Of the picture, in its own units."""
_THIN = 3.0
"""Of a bar that took no time, so that it is seen."""


class Bar(NamedTuple):
    """A span of the waterfall: where its bar stands, and what is written beside it."""

    span: Span
    kind: str
    x: float
    width: float
    took_ms: int | None


def waterfall(spans: Sequence[Span]) -> tuple[list[Bar], int]:
    """Return bars, and the milliseconds that the whole picture is wide. Pure."""
    if not spans:
        return [], 0
    begin = min(one.begin_us for one in spans)
    end = max(one.end_us or one.begin_us for one in spans)
    whole = max(1, end - begin)
    bars: list[Bar] = []
    for one in spans:
        until = end if one.end_us is None else one.end_us
        width = max(_THIN, (until - one.begin_us) * _WIDTH / whole)
        x = min((one.begin_us - begin) * _WIDTH / whole, _WIDTH - width)
        took_ms = None if one.end_us is None else (one.end_us - one.begin_us) // 1000
        kind = "tool" if one.arguments is not None else one.what if one.what in ("order", "model", "tool") else "wait"
        bars.append(Bar(one, kind, round(x, 1), round(width, 1), took_ms))
    return bars, (end - begin) // 1000


_FAILED = {"WO_FAILED": "order", "RunFailed": "turn", "DEGRADATION": "degraded answer"}
"""What failed by its entry, in words; the others are calls of a model."""


class FailureRow(NamedTuple):
    """What failed in the same way, again and again: the first of it, and where the others stand."""

    what: str
    first: FailureSeen
    attempts: str
    sequences: list[int]
    texts: list[ToolText]
    """What the tool that failed told people."""
    said_by: int
    """The first entry with these words."""


def failure_rows(failures: Sequence[FailureSeen], texts: Sequence[ToolText]) -> list[FailureRow]:
    groups: dict[tuple[str, ...], list[FailureSeen]] = {}
    for one in failures:
        groups.setdefault((one.event, one.order, one.code, one.words), []).append(one)
    rows, said_by = list[FailureRow](), dict[str, int]()
    for same in groups.values():
        numbers = [one.attempt for one in same if one.attempt is not None]
        attempts = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else "".join(map(str, numbers))
        said = [one for one in texts if same[0].event == "WO_FAILED" and short(one.work_order) == same[0].order]
        first = said_by.setdefault(same[0].words, same[0].sequence)
        what = _FAILED.get(same[0].event, "model call")
        rows.append(FailureRow(what, same[0], attempts, [one.sequence for one in same], said, first))
    return rows


async def turn(look: PageRequest) -> PageAnswer:
    """`hobus why`: what happened when, what the models were shown and where that came from, and what it cost."""
    found = await _found(look, look.path["session_id"], look.path["turn"])
    bars, whole_ms = waterfall(found.why.spans)
    shown: dict[str, Any] = {
        "failures": failure_rows(found.why.failures, found.why.tool_texts),
        "last_of": {one.order: one.sequence for one in found.why.prompts},
        "arguments": {one.order: one.arguments for one in found.why.spans if one.arguments is not None},
        "found": found, "turn": found.account.turn, "why": found.why, "bars": bars, "whole_ms": whole_ms,
        "told": [one.strip() for one in opening(found)], "moments": found.account.lines(), "taken": found.account.taken,
        "made_headings": MADE_UNDER, "made": rows_of(found.why.made_of), "in_words": value_in_words,
    }  # fmt: skip
    document, session_id = found.document() | found.account.document(), found.account.session_id
    return PageAnswer("turn.html", found.name, document, f"why {found.name}", shown, session_id, has_texts=True)


async def difference(look: PageRequest) -> PageAnswer:
    """`hobus diff`: settings, files and stretches of the prompts of two turns, where they are not the same."""
    before, after = look.query.get("before", "").strip(), look.query.get("after", "").strip()
    shown: dict[str, Any] = {"before": before, "after": after, "difference": None}
    if not before or not after:
        return PageAnswer("diff.html", "Two turns", {}, "diff", shown)
    one, other = [await _found(look, *(run_in(given) or (given, None))) for given in (before, after)]
    found = compared(one, other)
    shown |= {
        "difference": found, "one": one, "other": other, "in_words": value_in_words,
        "assets": [(asset.path, *change_in_words(asset)) for asset in found.assets],
        "stretches": [(each.name, changed_lines(each)) for each in found.stretches],
    }  # fmt: skip
    command = f"diff {found.before} {found.after}"
    return PageAnswer("diff.html", "Two turns", document_of(found), command, shown, has_texts=True)


async def _found(look: PageRequest, session: str, number: str | None) -> ExplainedTurn:
    """Return the turn. Raises CommandError where there is no such turn."""
    session_id = await look.source.of_files(lambda files: begun(files, session, called="TURN"))
    return await run_in_threadpool(explained, look.source.home, session_id, number)
