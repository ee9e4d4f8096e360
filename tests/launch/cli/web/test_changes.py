"""Browsers are told of what changed, and what they ask then is read anew."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from types import SimpleNamespace

import pytest

from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.changes import Changes
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.cluster.home import make_home


class _Record:
    """A source whose ledger answers as it is told; None: it is away."""

    def __init__(self, *pages):
        self.pages, self.forgotten, self.clock = list(pages), 0, SystemClock()

    async def head(self):
        return 7

    async def connection(self, *_services):
        return SimpleNamespace(client_timeout_s=1.0), self

    async def request(self, _service, _question, **_bounds):
        if not self.pages:
            await asyncio.Event().wait()
        page = self.pages.pop(0)
        if page is None:
            raise BusError("no_route", "the ledger is away")
        entries = [SimpleNamespace(provenance=SimpleNamespace(session_id=one)) for one in page]
        return SimpleNamespace(entries=entries, more=len(page) > 2, head=9)

    def forget(self):
        self.forgotten += 1


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(limits, "TICK_S", 0.0)


async def told(source, session, *, count):
    """The first frames of one browser, without their data."""
    changes, found = Changes(source), []
    async with aclosing(changes.frames(session, after=7)) as frames:
        async with asyncio.timeout(10):
            while len(found) < count:
                found += [(await anext(frames)).partition("\n")[0]]
    await changes.close()
    return found, changes.streams


@pytest.mark.parametrize("page", [["a", "b"], ["x", "y", "z"], None])
async def test_a_browser_is_told_of_its_session_of_a_crowd_and_of_a_ledger_that_is_away(page):
    """Then what was read is forgotten, so that it is not shown again."""
    source = _Record(["b"], page)
    assert await told(source, "a", count=2) == (["event: begun", "event: changed"], 0)
    assert source.forgotten >= 1


async def test_what_changed_while_the_page_was_on_its_way_is_told_at_once():
    """Between its reads and its stream; a page that has all of it is told nothing."""
    changes = Changes(_Record())
    async with aclosing(changes.frames("a", after=6)) as frames:
        assert [(await anext(frames)).partition("\n")[0] for _ in range(2)] == ["event: begun", "event: changed"]
    async with aclosing(changes.frames("a", after=7)) as frames:
        await anext(frames)
        waiting = asyncio.ensure_future(anext(frames))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await changes.close()


async def test_those_of_all_sessions_hear_of_any_and_those_of_the_beats_each_time(monkeypatch):
    monkeypatch.setattr(limits, "TICK_S", 60.0)
    changes = Changes(_Record(["b"]))
    followers = [changes.frames(of, after=7) for of in ("*", "*", "beats", "a")]
    assert {(await anext(one)).partition("\n")[0] for one in followers} == {"event: begun"}
    waiting = [asyncio.ensure_future(anext(one)) for one in followers]
    await asyncio.sleep(0)
    changes._tell({"a"})
    assert {one.partition("\n")[0] for one in await asyncio.gather(*waiting)} == {"event: changed"}
    changes._tell(set())
    assert [one.of for one in changes._followers if one.news.is_set()] == ["beats"]
    changes._tell({"b"})
    assert sorted(one.of for one in changes._followers if one.news.is_set()) == ["*", "*", "beats"]
    for one in followers:
        await one.aclose()
    await changes.close()


@pytest.mark.parametrize(("spent_s", "pause_s"), [(0.0, 1.0), (0.01, 1.0), (0.1, 9.0), (6.0, 30.0)])
def test_pages_take_no_more_than_their_share_of_a_processor(monkeypatch, spent_s, pause_s):
    """By the processor time of this process since a second ago; however long they take, browsers are told at times."""
    monkeypatch.setattr(limits, "TICK_S", 1.0)
    record = SimpleNamespace(clock=SimpleNamespace(monotonic=iter((50.0, 51.0, 52.0, 53.0)).__next__))
    monkeypatch.setattr("hobus.launch.cli.web.changes.process_time", iter((2.0, 2.0 + spent_s, 99.0)).__next__)
    paced = Changes(record)
    assert paced._pause_s() == 1.0
    assert paced._pause_s() == pytest.approx(pause_s)
    paced.hurry()
    assert paced._pause_s() == 1.0


async def test_what_is_asked_twice_at_once_is_read_once_until_something_changed(tmp_path):
    source, reads = HomeSource(make_home(tmp_path), at_rest=True), []

    async def read():
        reads.append(len(reads))
        return reads[-1]

    assert await asyncio.gather(*(source.shared("page", read) for _ in range(20))) == [0] * 20
    assert await source.shared("page", read) == 0 and await source.shared("other", read) == 1
    source.forget()
    assert await source.shared("page", read) == 2
