"""What every screen shows while a service that it asks is away."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from bench.builders import shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.bus.messages import control, gateway, ledger, memory
from hobus.bus.record.entry import Ack
from hobus.launch.cli.web import app, configured, frames, source
from hobus.launch.cli.web.screens import PAGES
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.cluster import client
from hobus.launch.cluster.home import keep_snapshot, make_home
from hobus.launch.cluster.run_file import ChildRow, RunFile
from hobus.launch.console.errors import UnreachableFault
from tests.launch.cli.web.pages import Browser, words_in

pytestmark = pytest.mark.slow

ANSWERS = {
    control.ReadPeers: control.Peers(epoch="b1", peers=[]),
    control.ReadQueues: control.Queues(queues=[]),
    control.ReadTools: control.Tools(epoch="b1", tools=[], sources=[]),
    gateway.ReadBudget: gateway.Budget(mode="enforce", scopes=[]),
    gateway.ReadBreakers: gateway.Breakers(breakers=[]),
    memory.ReadOverlays: memory.Overlays(overlays=[], as_of="2026-01-01T00:00:00Z"),
    memory.ReadSignals: memory.Signals(signals=[], as_of="2026-01-01T00:00:00Z"),
    memory.ReadReview: memory.Review(pending=[], quarantined=[], as_of="2026-01-01T00:00:00Z"),
    ledger.Write: ledger.Written(acks=[Ack("committed", 9, "id")]),
    ledger.Search: ledger.Hits(hits=[], words=["packages"], more=False, reached=1, head=1),
}
NEEDS = {
    "/bus/diagram": {"broker"}, "/tools": {"broker"}, "/memory": {"broker", "ho3", "ledger"},
}  # fmt: skip
"""Without which a screen shows nothing; those with texts: without a record of the look, too."""


class _Bus:
    """Every service but one answers."""

    def __init__(self, away: str) -> None:
        self.clock = SystemClock()
        self.away = {"broker", "gateway", "ho3"} if away == "broker" else {away}
        self.asked: list[str] = []

    async def request(self, service, question, **_bounds):
        self.asked += [service]
        if service in self.away or type(question) not in ANSWERS:
            raise BusError("expired", f"{service} does not answer")
        return ANSWERS[type(question)]


@pytest.fixture
def beside(rested, tmp_path, monkeypatch):
    """A console beside a cluster of which one service is away."""

    def made(away: str, *states: str) -> tuple[Browser, _Bus]:
        shutil.copytree(rested, tmp_path / "home")
        home, bus = make_home(tmp_path / "home"), _Bus(away)
        home.run.mkdir()
        keep_snapshot(home, shipped_snapshot().to_bytes())
        run = RunFile(
            phase="running", launcher_pid=0, launcher_mark="", started_at=1.0, sockets="", config_digest="sha256:0",
            config_origin="shipped", drain_bound_s=1.0,
            children=[
                ChildRow(
                    actor=f"{away}/{number}", role=away, instance="", state=state, pid=0, mark="", started_at=0.0, restarts=0
                )
                for number, state in enumerate(states, 1)
            ],
        )  # fmt: skip
        for module in (source, configured, client):
            monkeypatch.setattr(module, "find_running", lambda _home: run)

        async def read_kept(*_):
            if away == "broker":
                raise UnreachableFault("the broker did not answer in time")
            return [], frames.SeenLives(), []

        monkeypatch.setattr(source, "connect_bus", lambda *_: nullcontext(bus))
        monkeypatch.setattr(configured, "find_changes", lambda *_: None)
        monkeypatch.setattr(frames, "_read_kept", read_kept)
        return Browser(home.root, at_rest=False), bus

    return made


def _screens(browser: Browser) -> list[str]:
    """Return an address of every screen."""
    session = browser.get("/sessions.json").json()["sessions"][0]["session_id"]
    names = {"{session_id}": session, "{turn}": "1", "{sequence}": "5"}
    asked = {"/diff": f"?before={session}-1&after={session}-2", "/bus/diagram": f"?turn=SES-{session[:8]}-1"}
    found = ["/record?words=packages"]
    for page in PAGES:
        path = page.path
        for name, value in names.items():
            path = path.replace(name, value)
        found += [path + asked.get(path, "")]
    return found


@pytest.mark.parametrize(
    ("away", "states"),
    [
        ("", ()), ("broker", ()), ("gateway", ()), ("ledger", ("ready",)), ("ho3", ("ready",)),
        *((away, ("stopped", "backoff")) for away in ("broker", "gateway", "ledger", "ho3")),
    ],
)  # fmt: skip
def test_every_screen_opens_or_says_that_it_cannot_whichever_service_is_away(beside, away, states):
    """Its page and its twin alike; never a defect, and what the record or another service says is shown.

    Where the launcher says that none of its processes runs, it is not asked: nobody waits, and what starts it is said.
    """
    browser, bus = beside(away, *states)
    is_stopped = "stopped" in states
    for path in _screens(browser):
        page = browser.get(path)
        name, _, query = path.partition("?")
        twin = browser.get(f"{name if name != '/' else '/index'}.json?{query}")
        is_text = query.startswith(("words", "before")) or name.startswith(("/sessions/", "/record/5"))
        needs = NEEDS.get(name, set()) | ({"ledger", "broker" if is_stopped else ""} if is_text else set())
        is_missing = away != "" and away in needs
        assert page.status_code == twin.status_code == (503 if is_missing else 200), (path, words_in(page.text))
        assert not is_missing or 'data-live="/live?of=beats' in page.text, path
        if is_missing and is_stopped and name != "/bus/diagram":
            assert f"hobus restart {away}/1 --home" in words_in(page.text), path
    assert not is_stopped or away not in bus.asked
    words = words_in(browser.get("/").text)
    assert ("The broker does not answer" in words) is ("the broker does not answer" in words) is (away == "broker")
    assert ("the gateway does not answer" in words) is (away in ("broker", "gateway"))


def test_a_loop_of_a_template_does_not_choose_by_anything_but_what_it_loops_over():
    """`for x in found.rows if found` asks for `found.rows` first, also where nothing was found."""
    loaded = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(app.__file__).parent / "templates"), autoescape=True
    )
    for name in loaded.list_templates():
        text, _, _ = loaded.loader.get_source(loaded, name)
        for loop in loaded.parse(text).find_all(nodes.For):
            if loop.test is not None:
                bound = {one.name for one in [loop.target, *loop.target.find_all(nodes.Name)] if hasattr(one, "name")}
                read = [loop.test, *loop.test.find_all(nodes.Name)]
                assert bound & {one.name for one in read if isinstance(one, nodes.Name)}, (name, loop.lineno)


def test_a_page_that_met_a_defect_is_fetched_anew_like_one_whose_service_is_away(browser, monkeypatch):
    """Also where the record's last entry was not read: every change since is told."""

    async def broken(_source):
        raise ValueError

    monkeypatch.setattr(HomeSource, "head", broken)
    page = browser.get("/sessions")
    assert page.status_code == 500 and "This page met a defect: ValueError" in words_in(page.text)
    browser = Browser(browser.source.home.root, at_rest=False)
    assert 'data-live="/live?of=beats&amp;after="' in browser.get("/sessions").text
