"""Old texts of a session, found again by their words, and files: what a supervisor asks others for."""

import pytest

from bench.ledger_drills.rig import append, ledger_config, medium, running, search_config, take_over
from bench.search import NEEDLE, OTHER, SESSION, Asking, conversation, found_needle
from hobus.actors.ho2_supervisor.turn.sources import found_in_history
from hobus.bus.messages.ledger import Provenance
from hobus.bus.sim.disk import SimDisk

CONFIG = ledger_config(
    segment_bytes=8_388_608, search=search_config(hits_max=20, words_max=32, excerpt_chars=240, wait_ms=60_000)
)


async def _with_needle(ledger, turns):
    for session_id, needle_at in ((SESSION, turns // 4), (OTHER, None)):
        for entries in conversation(session_id, turns, needle_at=needle_at):
            await ledger.write(*entries)


@pytest.mark.parametrize("turns", [10, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_a_later_turn_finds_what_was_said_long_ago(turns):
    """Among texts that share some of its words, and beside another session; the ref leads to the whole of it."""
    async with running(SimDisk(medium()), CONFIG) as ledger:
        await _with_needle(ledger, turns)
        found = await found_needle(ledger.service)
        assert (found[0].text, found[0].kind, found[0].is_whole) == (NEEDLE, "message", True)
        assert found[0].ref == f"RunRequested:{SESSION}/{turns // 4}/1"
        assert all(one.score < found[0].score for one in found[1:])


def _said(stream, session_id, *texts):
    first = take_over(1, "", stream)
    about, prev = Provenance(agent_id="ADMIN", session_id=session_id), first.submission_id
    entries = [first]
    for number, text in enumerate(texts):
        name = f"RunRequested:{session_id}/{number}"
        entries.append(
            append(name, prev, 1, stream, event_type="RunRequested", provenance=about, bodies=[b"\x90", text])
        )
        prev = name
    return entries


async def test_what_the_prompt_shows_anyway_and_what_came_later_are_no_find():
    """The message being answered has all its own words; another session's texts are nobody's here."""
    texts = [b"the lamp is in the attic", b"buy a lamp", b"where is the lamp?"]
    async with running(SimDisk(medium()), CONFIG) as ledger:
        await ledger.write(*_said(f"session/{SESSION}", SESSION, *texts))
        await ledger.write(*_said(f"session/{OTHER}", OTHER, b"the lamp is mine"))
        own = f"RunRequested:{SESSION}/2/1"
        asked = {"ledger": Asking(ledger.service, "ho2/1@7"), "limit": 2, "score_min": 0.0}
        searched = await found_in_history("where is the lamp?", SESSION, shown={own}, **asked)
        assert [one.text for one in searched.found] == [text.decode() for text in texts[:2]]
        assert searched.warning == ""
        earlier = await found_in_history("lamp", SESSION, before=2, **asked)
        assert [one.text for one in earlier.found] == ["the lamp is in the attic"]
        assert (await found_in_history("kingfisher", SESSION, **asked)).found == []


async def test_what_was_not_searched_is_said():
    """The index is behind, and the question has no time to wait for it."""
    config = ledger_config(search=search_config(wait_ms=0))
    async with running(SimDisk(medium()), config) as ledger:
        await ledger.write(*_said(f"session/{SESSION}", SESSION, *[b"a lamp"] * 300))
        searched = await found_in_history(
            "lamp", SESSION, ledger=Asking(ledger.service, "ho2/1@7"), limit=1, score_min=0.0
        )
        assert "entries of the record were not searched" in searched.warning
