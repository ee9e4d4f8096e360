"""What is said in a record is found by its words: by whom, how far, and what becomes of the index on the way."""

import sqlite3
from contextlib import suppress
from itertools import count
from random import Random
from shutil import copytree
from unittest.mock import patch

import pytest

from hobus.bus import limits as bus_limits
from hobus.bus.disk import RealDisk
from hobus.bus.errors import BusError, LedgerError
from hobus.bus.limits import HITS_MAX
from hobus.bus.messages.ids import RunId, derive_session_id
from hobus.bus.messages.ledger import Hits, Provenance, Search
from hobus.bus.messages.session import TurnResult
from hobus.bus.record.journal import pack_event, pack_result
from hobus.bus.record.session_facts import RunCompleted, SessionEvent
from hobus.bus.sim.disk import SimDisk
from hobus.config.sections.record import SearchConfig
from hobus.ledger_service import full_text, limits
from hobus.ledger_service.finding import choose_rarest
from hobus.ledger_service.search_index import FILE, IndexedText, SearchIndex, Tokens, make_token
from tests.ledger_service.rig import (
    SESSION,
    SmallBus,
    append,
    call,
    ledger_config,
    medium,
    running,
    start,
    take_over,
    write,
)  # fmt: skip

ID = SESSION.removeprefix("session/")
OTHER_ID = derive_session_id("somebody", "else")
AT_US = 1_700_000_000_000_000


def _journal(session_id=ID, agent="ADMIN"):
    """A function that makes the next entry of a session's journal."""
    stream, numbers = f"session/{session_id}", count(1)
    first = take_over(1, "", stream)
    last = first.submission_id

    def entry(event_type, *bodies, **fields):
        nonlocal last
        name = f"{event_type}:{session_id}/{next(numbers)}"
        made = append(
            name, last, 1, stream, event_type=event_type, bodies=[b"\x90", *bodies],
            provenance=Provenance(agent_id=agent, session_id=session_id), **fields,
        )  # fmt: skip
        last = name
        return made

    return first, entry


def _line(number, text, agent="ADMIN"):
    about = Provenance(agent_id=agent)
    return write(
        f"HO3_OVERLAY:{number}", "overlays", event_type="HO3_OVERLAY", bodies=[b"\x90", text], provenance=about
    )


async def _ask(ledger, words, *, sender="operator/1@7", **fields) -> Hits:
    return await ledger.service.on_search(Search(words=words, **{"limit": 10, **fields}), call(sender))


def _texts(hits):
    return [(hit.kind, hit.excerpt) for hit in hits.hits]


async def test_what_was_said_is_found_with_where_it_stands_and_other_texts_are_not():
    first, entry = _journal()
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(
            first,
            entry("RunRequested", b"my bicycle is GREEN"),
            entry("HostCommandReceived", b"the other bicycle"),
            entry("WO_DISPATCHED", b"bicycle in an order"),
            entry("OrderEnded", b"bicycle found in the cellar"),
            write(
                "d", SESSION, event_type="TurnDegraded", once="t", bodies=[b"\x90", b"where is it", b"bicycle unknown"]
            ),
            _line(1, b"likes the bicycle"),
            write("PROMPT_SENT:1", "prompts", event_type="PROMPT_SENT", bodies=[b"\x90", b"bicycle prompt"]),
            write("a", "ho1m", bodies=[b"bicycle payload"]),
        )
        found = await _ask(ledger, "Bicycle!", limit=10)
        assert sorted(_texts(found)) == [
            ("line", "likes the bicycle"), ("message", "my bicycle is GREEN"), ("reply", "bicycle unknown"),
            ("result", "bicycle found in the cellar"), ("steer", "the other bicycle"),
        ]  # fmt: skip
        assert (found.words, found.more, found.head, found.reached) == (["bicycle"], False, 8, 8)
        assert Hits.from_bytes(found.to_bytes()) == found
        (hit,) = (await _ask(ledger, "green")).hits
        assert (hit.sequence, hit.ref, hit.session_id, hit.agent_id) == (1, f"RunRequested:{ID}/1/1", ID, "ADMIN")
        assert (hit.excerpt_at, hit.text_chars, hit.spans, hit.at_us) == (0, 19, [[14, 19]], AT_US)
        assert 0 < hit.score < 1
        assert (await _ask(ledger, "cellar of nobody", score_min=0.9)).hits == []


async def test_a_reply_that_only_the_models_record_holds_is_found_under_its_ref():
    """RunCompleted quotes it in its answer; with words of its own these count."""
    first, entry = _journal()
    run = RunId(session_id=ID, run_seq=1)

    def completed(ref, *words):
        result = TurnResult(response="a kingfisher", outcome="success", session_id=ID, run_id=run, input_id="i")
        made = entry("RunCompleted")
        at = "2026-11-21T22:00:00.000000Z"
        event = RunCompleted(input_id="i", result_ref=f"{made.submission_id}/1", reply_ref=ref, at=at)
        said = SessionEvent(ID, 0, 0, event, run_id=run)
        payload = pack_event(said, made.submission_id, made.at_us)
        return made._replace(bodies=[payload, pack_result(result), *words])

    async with running(SimDisk(medium())) as ledger:
        own = completed("PROMPT_RECEIVED:WO-1#1/1/1")
        await ledger.write(first, own, completed("", b"a heron, by hand"))
        (quoted,) = (await _ask(ledger, "kingfisher")).hits
        assert (quoted.kind, quoted.ref, quoted.excerpt) == ("reply", "PROMPT_RECEIVED:WO-1#1/1/1", "a kingfisher")
        (own_words,) = (await _ask(ledger, "heron")).hits
        assert own_words.ref.startswith("RunCompleted:") and own_words.ref.endswith("/2")


async def test_filters_narrow_by_session_agent_stream_type_sequence_and_time():
    first, entry = _journal()
    theirs, other = _journal(OTHER_ID, agent="GUIDE")
    bus = SmallBus()
    async with running(SimDisk(medium()), bus=bus) as ledger:
        await ledger.write(first, entry("RunRequested", b"a lamp"), entry("HostCommandReceived", b"lamp, please"))
        bus.clock.at += 60
        await ledger.write(theirs, other("RunRequested", b"their lamp"), _line(1, b"has a lamp"))

        async def sequences(**fields):
            return sorted(hit.sequence for hit in (await _ask(ledger, "lamp", **fields)).hits)

        assert await sequences() == [1, 2, 4, 5]
        assert await sequences(session_id=ID) == [1, 2] and await sequences(session_id=OTHER_ID) == [4]
        assert await sequences(agent_id="GUIDE") == [4] and await sequences(agent_id="NOBODY") == []
        assert await sequences(streams=["session"]) == [1, 2, 4] and await sequences(streams=["overlays"]) == [5]
        assert await sequences(event_types=["RunRequested"]) == [1, 4]
        assert await sequences(event_types=["RunRequested", "HO3_OVERLAY"], agent_id="ADMIN") == [1, 5]
        assert await sequences(after=1) == [2, 4, 5] and await sequences(before=4) == [1, 2]
        assert await sequences(after=1, before=2) == []
        assert await sequences(since_us=AT_US + 60_000_000) == [4, 5] and await sequences(since_us=AT_US) == [
            1,
            2,
            4,
            5,
        ]
        assert await sequences(since_us=AT_US + 60_000_001) == []


async def test_what_answers_better_comes_first_and_the_answer_is_bounded():
    first, entry = _journal()
    texts = [b"red red red", b"red and blue", b"blue ship with a red sail", *[b"blue"] * 4]
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, *(entry("RunRequested", text) for text in texts))
        found = await _ask(ledger, "red sail")
        assert [hit.sequence for hit in found.hits] == [3, 1, 2]
        scores = [hit.score for hit in found.hits]
        assert scores == sorted(scores, reverse=True) and all(0 < score < 1 for score in scores)
        assert [hit.sequence for hit in (await _ask(ledger, "blue", limit=2)).hits] == [7, 6]
        cut = await _ask(ledger, "blue", limit=2)
        assert (len(cut.hits), cut.more) == (2, True)
        assert len((await _ask(ledger, "blue", limit=1_000)).hits) == 6


async def test_of_a_question_the_rare_words_are_looked_for_and_the_common_ones_count(monkeypatch: pytest.MonkeyPatch):
    """`limits.POSTINGS_MAX` bounds what is looked at; one word, however common, is always looked for."""
    first, entry = _journal()
    texts = [b"the red lamp", b"the lamp", *[b"the tide"] * 6]
    monkeypatch.setattr(limits, "POSTINGS_MAX", 3)
    config = ledger_config()
    async with running(SimDisk(medium()), config) as ledger:
        await ledger.write(first, *(entry("RunRequested", text) for text in texts))
        assert [hit.sequence for hit in (await _ask(ledger, "the red lamp")).hits] == [1, 2]
        assert [hit.sequence for hit in (await _ask(ledger, "the")).hits] == [8, 7, 6]  # of the newest so many
        assert (await _ask(ledger, "the red lamp")).hits[0].spans == [[0, 3], [4, 7], [8, 12]]


async def test_what_is_said_elsewhere_changes_nothing_in_a_session():
    """Which texts answer, in which order, with which scores; nor is any of it looked at."""
    first, entry = _journal()
    theirs, other = _journal(OTHER_ID)
    texts = [b"the red lamp", b"the red tide", b"the old tide", b"the big lamp"]
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, *(entry("RunRequested", text) for text in texts))

        async def found():
            hits = (await _ask(ledger, "the red lamp", session_id=ID, streams=["session"])).hits
            return [(hit.sequence, hit.score) for hit in hits]

        before = await found()
        assert [sequence for sequence, _ in before] == [1, 4, 2, 3]
        await ledger.write(theirs, *(other("RunRequested", b"lamp lamp as") for _ in range(300)))
        with patch.object(SearchIndex, "rows", autospec=True, side_effect=SearchIndex.rows) as looked_at:
            assert await found() == before
        assert looked_at.call_count == 3
        assert {call.args[1].session for call in looked_at.call_args_list} == {(make_token("s", f"session/{ID}"),)}


@pytest.mark.parametrize(
    "word", ["heron", "Häron", "ГЕРОН", "苍鹭", "h\u0065\u0301ron", "12345", "\N{ROMAN NUMERAL SEVEN}"]
)
async def test_a_word_of_any_script_is_found_in_its_session(word: str):
    """There and nowhere else, whatever the text of another one imitates: see `own` in `search_index.py`."""
    first, entry = _journal()
    theirs, other = _journal(OTHER_ID)
    token, terms = make_token("s", f"session/{ID}"), Tokens()
    imitated = " ".join([f"{token} {token}{term}" for term in terms.every(word)])
    terms.close()
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", f"a {word}, seen".encode()))
        await ledger.write(theirs, other("RunRequested", imitated.encode()))
        asked = {"session_id": ID, "streams": ["session"]}
        assert [hit.session_id for hit in (await _ask(ledger, word.upper(), **asked)).hits] == [ID]
        assert (await _ask(ledger, word, session_id=OTHER_ID)).hits == []


async def test_of_a_word_in_many_texts_the_newest_are_compared_and_all_counted(monkeypatch: pytest.MonkeyPatch):
    """More than are taken at once: what has a rarer word as well comes first, however old."""
    first, entry = _journal()
    monkeypatch.setattr(limits, "POSTINGS_MAX", 5000)
    monkeypatch.setattr(limits, "INDEX_WAIT_MS", 60000)
    config = ledger_config()
    async with running(SimDisk(medium()), config) as ledger:
        texts = [b"lamp of the attic", *[b"lamp of the cellar"] * 600]
        await ledger.write(first, *(entry("RunRequested", text) for text in texts))
        assert [hit.sequence for hit in (await _ask(ledger, "lamp attic", limit=2)).hits] == [1, 601]
        assert [hit.sequence for hit in (await _ask(ledger, "lamp", limit=2)).hits] == [601, 600]


def test_words_are_looked_for_from_the_rarest_on():
    counts = {"the": 9, "lamp": 2, "attic": 1, "boat": 2}
    assert _choose(counts, 3) == ["attic", "boat"] and _choose(counts, 5) == ["attic", "boat", "lamp"]
    assert _choose(counts, 14) == ["attic", "boat", "lamp", "the"] and _choose(counts, 0) == ["attic"]
    assert _choose({}, 5) == [] and _choose({"the": 9}, 1) == ["the"]
    assert choose_rarest(counts, 7, of_one=2) == ["attic", "boat", "lamp", "the"]


@pytest.mark.parametrize("session_id", ["", ID])
async def test_of_a_common_word_few_texts_are_looked_at_and_it_weighs_as_little(
    session_id: str, monkeypatch: pytest.MonkeyPatch
):
    """A long session asks the same words each turn: its search takes as long as a short one's, and finds the same."""
    first, entry = _journal()
    monkeypatch.setattr(limits, "POSTINGS_MAX", 5000)
    monkeypatch.setattr(limits, "INDEX_WAIT_MS", 60000)
    asked = {"session_id": session_id, "streams": ["session"], "limit": 2}
    async with running(SimDisk(medium())) as ledger:
        texts = [b"attic", *[b"the lamp"] * 200, b"the attic lamp", *[b"the lamp"] * 400]
        await ledger.write(first, *(entry("RunRequested", text) for text in texts))
        with patch.object(SearchIndex, "rows", autospec=True, side_effect=SearchIndex.rows) as looked_at:
            hits = (await _ask(ledger, "the attic lamp", **asked)).hits
        assert {call.kwargs["limit"] for call in looked_at.call_args_list} == {64}
        assert {hit.sequence for hit in hits} == {1, 202} and hits[1].score > 0.25
        assert (await _ask(ledger, "the lamp", **asked)).hits[0].score < 0.01


def _choose(counts: dict[str, int], postings_max: int) -> list[str]:
    return choose_rarest(counts, postings_max, of_one=postings_max + 1)


async def test_an_excerpt_shows_the_words_that_were_found_and_where():
    first, entry = _journal()
    text = "ä" * 60 + " the needle is here " + "z" * 60 + " needle"
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", text.encode()))
        (hit,) = (await _ask(ledger, "NEEDLE")).hits
        assert len(hit.excerpt) == 40 and text[hit.excerpt_at :][:40] == hit.excerpt
        assert [hit.excerpt[start:end] for start, end in hit.spans] == ["needle"]
        assert hit.text_chars == len(text)


async def test_an_excerpt_is_where_the_rare_words_stand_together(monkeypatch: pytest.MonkeyPatch):
    first, entry = _journal()
    filler = "this is what the diary of the day says of the rain and of the tea; " * 8
    text = f"{filler}The alarm code of the Zephyr is 90210. {filler}"
    days = [f"the diary of day {day}: rain, tea, and nothing else".encode() for day in range(30)]
    monkeypatch.setattr(limits, "SEARCHED_TEXT_MAX_BYTES", 10000)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        await ledger.write(first, entry("RunRequested", text.encode()), *(entry("RunRequested", day) for day in days))
        hits = (await _ask(ledger, "What is the alarm code of the Zephyr?", score_min=0.2)).hits
        assert "alarm code of the Zephyr" in hits[0].excerpt and hits[0].excerpt_at > len(filler) - 40
        assert {hits[0].excerpt[start:end] for start, end in hits[0].spans} >= {"alarm", "code", "Zephyr"}


@pytest.mark.parametrize(
    "question",
    [
        "Could you remind me what the door code was that I gave you when we talked about the warehouse?",
        "how do I get into the warehouse?",
        "I am standing outside in the cold right now and I forgot the door code again, which number was it?",
        "Rotterdam?",
    ],
)
async def test_words_that_were_never_said_do_not_hide_what_was(monkeypatch: pytest.MonkeyPatch, question):
    """However a person asks; but what has the common words alone is no answer."""
    first, entry = _journal()
    monkeypatch.setattr(bus_limits, "SEARCH_WORDS_MAX", 32)
    monkeypatch.setattr(limits, "EXCERPT_CHARS", 240)
    config = ledger_config()
    days = [f"this is what I did on day {day} of the month: a walk in the rain, and that was it" for day in range(60)]
    said = ["list the tools", "The door code of the warehouse in Rotterdam is 4711.", *days]
    async with running(SimDisk(medium()), config) as ledger:
        await ledger.write(first, *(entry("RunRequested", one.encode()) for one in said))
        found = await _ask(ledger, question, session_id=ID, streams=["session"], score_min=0.2, limit=3)
        assert "4711" in found.hits[0].excerpt
        for nothing in ("What is the capital of France?", "and what of it, my friend?"):
            assert (await _ask(ledger, nothing, session_id=ID, streams=["session"], score_min=0.2)).hits == []


async def test_what_repeats_a_text_among_others_does_not_hide_it(monkeypatch: pytest.MonkeyPatch):
    """A short one that says it comes before long and newer ones that quote it: of them there may be many."""
    first, entry = _journal()
    monkeypatch.setattr(bus_limits, "SEARCH_WORDS_MAX", 32)
    monkeypatch.setattr(limits, "EXCERPT_CHARS", 240)
    monkeypatch.setattr(limits, "SEARCHED_TEXT_MAX_BYTES", 10000)
    config = ledger_config()
    quoting = (
        "what I was given says: - you: the key of the boathouse - you: " + "this is how it was in the end - you: " * 9
    )
    said = [f"this is what it was on day {day} in the end" for day in range(60)]
    async with running(SimDisk(medium()), config) as ledger:
        texts = [*said[:30], "The key of the boathouse is under the flowerpot.", *said[30:], *[quoting] * 30]
        await ledger.write(first, *(entry("RunRequested", text.encode()) for text in texts))
        found = await _ask(ledger, "where is the key of the boathouse?", session_id=ID, streams=["session"], limit=3)
        assert "flowerpot" in found.hits[0].excerpt


def test_lengths_are_those_of_the_engine():
    index, lengths = SearchIndex.open(None), {3: 1, 4: 127, 5: 128, 9: 20_000}
    texts = [IndexedText(row, 0, "word " * count, ("t1",)) for row, count in lengths.items()]
    index.add(texts, sequence=9, chain=b"")
    assert index.lengths([row << 8 for row in (*lengths, 77)]) == {row << 8: count for row, count in lengths.items()}
    index.close()


async def test_of_more_words_than_are_looked_for_the_longest_count():
    first, entry = _journal()
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", b"the vacation begins"))
        words = " ".join(f"a{number}" for number in range(40))
        assert len((await _ask(ledger, f"{words} vacation")).hits) == 1


@pytest.mark.parametrize("words", ["{} heron", "heron {}", "{0} heron {1}"])
async def test_of_a_long_question_beginning_and_end_are_looked_at(words):
    first, entry = _journal()
    pasted = "it was so and so " * 40
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", b"the heron sleeps"))
        found = (await _ask(ledger, words.format(pasted, pasted))).hits
        assert len(found) == (words.count("{") < 2)


async def test_more_is_said_where_further_texts_were_not_read():
    """A limit of all that the ledger gives at once, and more texts than those."""
    first, entry = _journal()
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, *(entry("RunRequested", b"heron") for _ in range(HITS_MAX + 2)))
        found = await _ask(ledger, "heron", limit=100)
        assert found.more and len(found.hits) == HITS_MAX


async def test_of_a_long_text_the_beginning_is_searched():
    """`limits.SEARCHED_TEXT_MAX_BYTES`, cut at a whole character; what is behind it is not found."""
    first, entry = _journal()
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", ("begin " + "ü" * 600 + " ending").encode()))
        assert len((await _ask(ledger, "begin")).hits) == 1 and not (await _ask(ledger, "ending")).hits


async def test_a_query_is_words_and_nothing_in_it_is_syntax():
    asked = [
        '"', "lamp AND", "NEAR(lamp lamp)", "text:lamp", "{about} : lamp", "^lamp", "lamp*", "-lamp", "(((lamp", "lamp'; DROP TABLE texts",
        "\0lamp", "lamp\x02\x03", "lamp\ud800", "\x1b[31mlamp", "lamp" + " x" * 500_000, "LAMP " * 40, "\uff4camp lamp",
    ]  # fmt: skip
    first, entry = _journal()
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", b"a lamp"))
        for words in asked:
            found = await _ask(ledger, words)
            shown = (words[:40], found)
            assert len(found.words) <= 8, shown
            assert not found.words or "lamp" not in found.words or len(found.hits) == 1, shown
        for nothing in ("", "   ", "***", "\0"):
            assert (await _ask(ledger, nothing)).hits == [], nothing


async def test_a_text_of_any_bytes_goes_in_and_comes_out():
    first, entry = _journal()
    raw = b"\x00\x02lamp\x03\xff tail"
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, entry("RunRequested", raw))
        (hit,) = (await _ask(ledger, "tail lamp")).hits
        assert hit.excerpt == raw.decode("utf-8", "replace")
        assert [hit.excerpt[start:end] for start, end in hit.spans] == ["lamp", "tail"]


async def test_who_may_search_what():
    """HO2 and HO1 one session's journal, HO2 one agent's; operators everything; nobody else anything; denials recorded."""
    first, entry = _journal()
    bus = SmallBus()
    async with running(SimDisk(medium()), bus=bus) as ledger:
        await ledger.write(first, entry("RunRequested", b"a lamp"), _line(1, b"lamp"))
        assert len((await _ask(ledger, "lamp")).hits) == 2
        for narrow in ({"session_id": ID}, {"agent_id": "ADMIN"}):
            assert [hit.kind for hit in (await _ask(ledger, "lamp", sender="ho2/1@7", **narrow)).hits] == ["message"]
        assert len((await _ask(ledger, "lamp", sender="ho1/1@7", session_id=ID)).hits) == 1
        refused = [
            ("ho2/1@7", {}),
            ("ho1/1@7", {}),
            ("ho2/1@7", {"session_id": ID, "streams": ["overlays"]}),
            *((f"{role}/1@7", {"session_id": ID}) for role in ("ho3", "gateway", "host", "http", "door", "broker")),
        ]
        for sender, fields in refused:
            with pytest.raises(BusError) as denied:
                await _ask(ledger, "lamp", sender=sender, **fields)
            assert denied.value.code == "denied"
        await bus.release()
        noted = [entry for entry in await ledger.all() if entry.event_type == "DENIED"]
        assert noted and all("lamp" not in str(entry) for entry in noted)


async def test_what_is_not_indexed_yet_is_brought_in_by_the_question_or_said(monkeypatch):
    """A question is answered up to the head; where time does not do, `reached` says how far."""
    first, entry = _journal()
    monkeypatch.setattr(full_text, "_STEP_TEXTS", 2)
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(first, *(entry("RunRequested", b"a lamp") for _ in range(7)))
        found = await _ask(ledger, "lamp")
        assert (len(found.hits), found.reached, found.head) == (7, 7, 7)
    monkeypatch.setattr(limits, "INDEX_WAIT_MS", 0)
    config = ledger_config()
    async with running(SimDisk(medium()), config) as ledger:
        first, entry = _journal()
        await ledger.write(first, *(entry("RunRequested", b"a lamp") for _ in range(7)))
        found = await _ask(ledger, "lamp")
        assert (len(found.hits), found.reached, found.head) == (2, 2, 7)
        assert len((await _ask(ledger, "lamp", before=2)).hits) == 1


async def test_the_index_is_brought_up_behind_the_acknowledgement(monkeypatch: pytest.MonkeyPatch, memory_path):
    """By itself, after half an index interval, with nobody asking; and a start goes on where the last one ended."""
    bus = SmallBus()
    first, entry = _journal()
    ledger = await start(RealDisk(memory_path), bus=bus)
    await ledger.write(first, entry("RunRequested", b"a lamp"))
    assert not (memory_path / FILE).exists()  # nothing of it before the acks
    for _ in range(4):
        await bus.release()
    assert _reached(memory_path) == 1
    await ledger.service.drain()
    monkeypatch.setattr(limits, "INDEX_WAIT_MS", 0)
    async with running(RealDisk(memory_path), ledger_config()) as again:
        assert len((await _ask(again, "lamp")).hits) == 1


def _reached(path):
    db = sqlite3.connect(path / FILE)
    try:
        return db.execute("SELECT sequence FROM reached").fetchone()[0]
    finally:
        db.close()


@pytest.mark.parametrize(
    "ruin", ["gone", "garbage", "directory", "emptied", "of another version", "other record", "cut"]
)
async def test_a_ruined_index_is_made_anew_and_nothing_else_notices(memory_path, ruin):
    first, entry = _journal()
    async with running(RealDisk(memory_path)) as ledger:
        await ledger.write(
            first, entry("RunRequested", b"a lamp"), *(entry("RunRequested", b"x " * 400) for _ in range(9))
        )
        assert len((await _ask(ledger, "lamp")).hits) == 1
    file = memory_path / FILE
    match ruin:
        case "gone":
            file.unlink()
        case "garbage":
            file.write_bytes(b"no database" * 1000)
        case "directory":
            file.unlink()
            file.mkdir()
        case "emptied":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(file.read_bytes()[:8192])
        case "of another version":
            db = sqlite3.connect(file)
            db.execute("PRAGMA user_version = 1")
            db.close()
        case _:
            db = sqlite3.connect(file)
            db.execute("UPDATE reached SET chain = x'00'")
            db.commit()
            db.close()
    async with running(RealDisk(memory_path)) as ledger:
        assert len((await _ask(ledger, "lamp")).hits) == 1
        await ledger.write(entry("RunRequested", b"another lamp"))
        assert len((await _ask(ledger, "lamp")).hits) == 2


async def test_what_was_forgotten_is_found_no_more():
    """As an erasure will: the words leave the index; a text that is gone from the record alone is no hit either."""
    first, entry = _journal()
    async with running(SimDisk(medium())) as ledger:
        said = entry("RunRequested", b"a lamp")
        await ledger.write(first, said, entry("RunRequested", b"the lamp"))
        assert len((await _ask(ledger, "lamp")).hits) == 2
        search = ledger.service._full_text
        search.forget((await ledger.lookup(said.submission_id, bodies=True))[0], [1])
        assert [hit.sequence for hit in (await _ask(ledger, "lamp")).hits] == [2]


@pytest.mark.parametrize("error", [LedgerError("damaged", "byte 7 does not read"), OSError(5, "byte 7 does not read")])
async def test_a_damaged_entry_stops_the_search_and_not_the_ledger(memory_path, monkeypatch, error):
    first, entry = _journal()
    async with running(RealDisk(memory_path)) as ledger:
        await ledger.write(first, entry("RunRequested", b"a lamp"))

        def damaged(*_arguments):
            raise error

        monkeypatch.setattr(ledger.service._full_text._files, "bodies", damaged)
        with pytest.raises(LedgerError, match="byte 7") as refused:
            await _ask(ledger, "lamp")
        assert refused.value.code == "unavailable"
        await ledger.write(entry("RunRequested", b"more"))
        assert await ledger.service.ready() == ""


async def test_switched_off_nothing_is_indexed_and_what_was_is_gone(memory_path):
    first, entry = _journal()
    async with running(RealDisk(memory_path)) as ledger:
        await ledger.write(first, entry("RunRequested", b"a lamp"))
        await _ask(ledger, "lamp")
    assert (memory_path / FILE).exists()
    async with running(RealDisk(memory_path), ledger_config(search=SearchConfig(enabled=False))) as ledger:
        assert not (memory_path / FILE).exists()
        with pytest.raises(BusError, match=r"ledger\.search\.enabled") as refused:
            await _ask(ledger, "lamp")
        assert (refused.value.code, refused.value.retryable) == ("rejected", False)
        await ledger.write(entry("RunRequested", b"more"))
    assert not (memory_path / FILE).exists()


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 18), marks=pytest.mark.slow)], ids=len)
async def test_a_damaged_page_costs_a_question_at_most(memory_path, seeds):
    first, entry = _journal()
    async with running(RealDisk(memory_path / "whole")) as ledger:
        await ledger.write(
            first, *(entry("RunRequested", f"lamp {number} {'word ' * 50}".encode()) for number in range(60))
        )
        await _ask(ledger, "lamp")
    kingfisher = entry("RunRequested", b"the kingfisher")
    for seed in seeds:
        path, draw = memory_path / f"{seed}", Random(seed)
        copytree(memory_path / "whole", path)
        data = bytearray((path / FILE).read_bytes())
        for _ in range(draw.randint(1, 200)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (path / FILE).write_bytes(data)
        async with running(RealDisk(path)) as ledger:
            for words in ("lamp", "lamp 7", "word"):
                with suppress(LedgerError):
                    await _ask(ledger, words)
            await ledger.write(kingfisher)
            with suppress(LedgerError):
                await _ask(ledger, "kingfisher")
            assert await ledger.service.ready() == "" and ledger.service.counters()["head"] == 61, seed


def test_plain_ascii_has_the_words_that_the_engine_finds_in_it():
    """A letter beyond ASCII behind a text sends the same text through the engine's tokenizer: it finds no other word."""
    tokens, drawn = Tokens(), Random(5)
    for _ in range(300):
        text, question = (
            "".join(drawn.choices("aAbBz09 _-.'\"\x00\x02\x7f\n", k=drawn.randrange(40))) for _ in range(2)
        )
        terms = tokens.terms(question, limit=3) or ["a"]
        assert tokens.terms(f"{question} é", limit=99) == sorted([*tokens.terms(question, limit=99), "e"])
        found, same = tokens.words(text, terms), tokens.words(f"{text} é", terms)
        assert found == same
    assert tokens.terms("aa bb ccc a", limit=2) == ["aa", "ccc"]
    tokens.close()
