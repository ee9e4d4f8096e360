"""The screens of one turn, why it was answered so, and of two turns beside each other."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool

from hobus.launch.cli import turn_view
from hobus.launch.cli.commands.why import compare_turns, diff_lines, make_document
from hobus.launch.cli.provenance_view import change_in_words
from hobus.launch.cli.turn_reading import read_account, run_in
from hobus.launch.cli.turn_view import in_words
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.sessions.account import TurnAccount
from hobus.launch.sessions.journal import find_begun


async def show_turn(look: PageRequest) -> PageAnswer:
    """`hobus why`: what happened when, what the models were shown and where that came from, and what it cost."""
    found = await _find(look, look.path["session_id"], look.path["turn"])
    bars, whole_ms = turn_view.waterfall(found.timed, found.ended_us)
    shown: dict[str, Any] = {
        "why": found, "turn": found.turn, "bars": bars, "whole_ms": whole_ms, "in_words": in_words, "view": turn_view,
        "told": [one.text for one in turn_view.opening(found)], "failures": turn_view.failure_rows(found),
        "last_of": {one.step.order: one.step for one in found.prompts},
    }  # fmt: skip
    session_id = found.session_id
    return PageAnswer("turn.html", found.name, found.document(), shown, session_id, has_texts=True)


async def show_difference(look: PageRequest) -> PageAnswer:
    """`hobus diff`: settings, files and stretches of the prompts of two turns, where they are not the same."""
    before, after = look.text("before"), look.text("after")
    shown: dict[str, Any] = {"before": before, "after": after, "difference": None}
    if not before or not after:
        return PageAnswer("diff.html", "Two turns", {}, shown)
    one, other = [await _find(look, *(run_in(given) or (given, None))) for given in (before, after)]
    found = compare_turns(look.source.home, one, other)
    shown |= {
        "difference": found, "one": one, "other": other, "in_words": in_words, "view": turn_view,
        "assets": [(asset.path, *change_in_words(asset)) for asset in found.assets],
        "stretches": [(each.name, diff_lines(each)) for each in found.stretches],
    }  # fmt: skip
    return PageAnswer("diff.html", "Two turns", make_document(found), shown, has_texts=True)


async def _find(look: PageRequest, session: str, number: str | None) -> TurnAccount:
    """Return the turn. Raises CommandError where there is no such turn."""
    session_id = await look.source.read_files(lambda files: find_begun(files, session, called="TURN"))
    return await run_in_threadpool(read_account, look.source.home, session_id, number)
