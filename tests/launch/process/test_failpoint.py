"""The point of a crash drill: read from the environment, aimed at an actor or a role, struck once."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from hobus.launch.console.errors import CommandError
from hobus.launch.process import failpoint
from hobus.launch.process.failpoint import DrilledLane, DrilledLink, DrillPoint, drill_of, parse_drill


@pytest.mark.parametrize(
    "text", ["ho2", "ho2:TERM:before-send:x:1", "ho2:KILL:sometime:x:1", "ho2:KILL:after-send:x:0"]
)
def test_what_is_no_point_is_refused_with_the_form(text):
    """The sentence shows what it should look like."""
    with pytest.raises(CommandError, match=r"<actor>:<KILL\|STOP>"):
        parse_drill(text)


def test_a_frame_counts_by_its_type_and_by_the_word_that_its_body_must_hold():
    any_write = DrillPoint("gateway", signal.SIGKILL, "before-send", "ledger.write", 1)
    sent = DrillPoint("gateway", signal.SIGKILL, "before-send", "ledger.write~PROMPT_SENT", 1)
    frames = [
        ("before-send", "ledger.write", b"..PROMPT_SENT:x.."),
        ("before-send", "ledger.write", b"..PROMPT_RECEIVED:x.."),
        ("after-send", "ledger.write", b"..PROMPT_SENT:x.."),
        ("before-send", "ledger.read", b"..PROMPT_SENT:x.."),
    ]
    assert [any_write.is_at(*frame) for frame in frames] == [True, True, False, False]
    assert [sent.is_at(*frame) for frame in frames] == [True, False, False, False]


def test_of_several_processes_the_first_one_is_hit_and_nobody_else(tmp_path, monkeypatch):
    struck = []
    monkeypatch.setattr(failpoint.os, "kill", lambda pid, number: struck.append((pid, number)))
    monkeypatch.setattr(failpoint, "unpack_header", lambda header: SimpleNamespace(type=header.decode()))
    environ = {failpoint.VARIABLE: "ho2:STOP:before-send:wo.execute:2"}
    sent = []
    link = SimpleNamespace(send=lambda header, _body: sent.append(header))
    drills = [drill_of(actor, tmp_path, environ) for actor in ("ho2/1", "ho2/2", "ho1/1")]
    assert drills.pop() is None
    for drill in drills:
        for _ in range(3):
            DrilledLink(link, drill).send(b"wo.execute", b"")
    assert len(struck) == 1 and struck[0][1] == signal.SIGSTOP and len(sent) == 6
    assert parse_drill(environ[failpoint.VARIABLE]).mark_in(tmp_path).read_text() == str(struck[0][0])


def test_frames_of_a_lane_pass_the_drill_both_ways(tmp_path, monkeypatch):
    """A service is hit where it receives by its own socket, and where it answers there, as on any link."""
    struck, passed = [], []
    monkeypatch.setattr(failpoint.os, "kill", lambda _pid, number: struck.append(number))
    monkeypatch.setattr(failpoint, "unpack_header", lambda header: SimpleNamespace(type=header.decode()))
    transport = SimpleNamespace(send=lambda *frames: passed.append(frames) or True)
    for number, moment in enumerate(("on-receive", "before-send", "after-send"), start=1):
        run = tmp_path / moment
        run.mkdir()
        server = SimpleNamespace(bind=lambda _transport: None, receive=lambda *frames: passed.append(frames))
        lane = DrilledLane(server, drill_of("gateway/1", run, {failpoint.VARIABLE: f"gateway:KILL:{moment}:x:1"}))
        lane.bind(transport)
        lane.receive(b"c", [b""])
        lane.receive(b"c", [b"x", b"1"])
        assert lane.send(b"c", b"x", b"2")
        assert (len(struck), len(passed)) == (number, 3 * number)
