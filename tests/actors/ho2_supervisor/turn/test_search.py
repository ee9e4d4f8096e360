"""Old texts of a session, found again by their words, as a supervisor asks for them."""

from random import Random

import pytest

from hobus.actors.ho2_supervisor.turn.lookups import choose_hits
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.ledger import Provenance, Search
from hobus.bus.sim.disk import SimDisk
from hobus.ledger_service import limits
from tests.ledger_service.rig import append, call, ledger_config, medium, running, take_over

CONFIG = ledger_config(segment_bytes=8_388_608)


SESSION, OTHER = derive_session_id("search", "one"), derive_session_id("search", "two")
NEEDLE = "By the way: the spare key of the boathouse lies under the third flowerpot."
QUESTION = "Where did I say that the key of the boathouse is?"
DISTRACTORS = ("The key question is what the house costs.", "Where is the boat that I asked for?")


def question_of(words, **bounds):
    """Of the texts of that session alone."""
    return Search(words=words, session_id=SESSION, streams=["session"], **bounds)


def asking(ledger):
    """Ask as a supervisor does."""
    return lambda question: ledger.service.on_search(question, call("ho2/1@7"))


def _talk(turns, needle_at):
    """Texts of words that people use often and seldom; every seventh has some of the question's besides."""
    draw = Random(1)
    words = [f"{start}{end}" for start in "abcdefghij" for end in ("dor", "fen", "hul", "lem", "mos", "per")]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for turn in range(turns):
        said = " ".join(draw.choices(words, weights, k=draw.randint(5, 40)))
        yield (NEEDLE if turn == needle_at else f"{said} {DISTRACTORS[turn % 2]}" if turn % 7 == 5 else said).encode()


@pytest.mark.parametrize("turns", [10, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_a_later_turn_finds_what_was_said_long_ago(monkeypatch, turns):
    """Among texts that share some of its words, and beside another session; the ref leads to the whole of it."""
    monkeypatch.setattr(limits, "INDEX_WAIT_MS", 60_000)  # however slow this machine is, all of them are indexed
    async with running(SimDisk(medium()), CONFIG) as ledger:
        for session_id, needle_at in ((SESSION, turns // 4), (OTHER, None)):
            for entry in _said(f"session/{session_id}", session_id, *_talk(turns, needle_at)):
                await ledger.write(entry)
        found = (await asking(ledger)(question_of(QUESTION, limit=3, score_min=0.2))).hits
        assert (found[0].excerpt, found[0].kind, found[0].text_chars) == (NEEDLE, "message", len(NEEDLE))
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
        search = asking(ledger)
        searched = await search(question_of("where is the lamp?", limit=3))
        found = choose_hits(searched.hits, {own}, "where is the lamp?")
        assert [one.excerpt for one in found] == [text.decode() for text in texts[:2]]
        assert searched.reached == searched.head
        earlier = await search(question_of("lamp", before=2, limit=2))
        assert [one.excerpt for one in earlier.hits] == ["the lamp is in the attic"]
        assert (await search(question_of("kingfisher", limit=2))).hits == []


async def test_earlier_questions_do_not_crowd_out_the_answer():
    """They have the words of this one, and come behind what was said; who does not ask for that gets the best first."""
    asked = [f"what was the door code {often}?".encode() for often in ("", "again", "please", "now", "of it")]
    days = [f"what a day {day} it was, with the rain".encode() for day in range(20)]
    async with running(SimDisk(medium()), CONFIG) as ledger:
        said = [b"The door code of the warehouse is 4711.", *days, *asked]
        await ledger.write(*_said(f"session/{SESSION}", SESSION, *said))
        search = asking(ledger)
        question = question_of("what was the door code?", limit=3, score_min=0.2)
        found = (await search(question.model_copy(update={"statements_first": True}))).hits
        assert found[0].excerpt.endswith("4711.") and [one.excerpt[-1] for one in found] == [".", "?", "?"]
        assert [one.excerpt[-1] for one in (await search(question)).hits] == ["?", "?", "?"]


async def test_what_was_not_searched_is_said(monkeypatch: pytest.MonkeyPatch):
    """The index is behind, and the question has no time to wait for it."""
    monkeypatch.setattr(limits, "INDEX_WAIT_MS", 0)
    config = ledger_config()
    async with running(SimDisk(medium()), config) as ledger:
        await ledger.write(*_said(f"session/{SESSION}", SESSION, *[b"a lamp"] * 300))
        searched = await asking(ledger)(question_of("lamp", limit=1))
        assert searched.reached < searched.head
