"""The record, its calls of models, the configuration: the reads of `ledger`, `cost` and `config`."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import pytest

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.broker.tap_wire import TapBatch
from hobus.bus.limits import HITS_MAX
from hobus.launch.cli import main as cli
from hobus.launch.cli.tap.capture import CaptureWriter
from hobus.launch.cli.web import limits, record
from hobus.launch.cli.web.frames import make_drawing
from hobus.launch.cli.web.gateway import PlottedCall, with_fallbacks
from hobus.launch.cli.web.memory import draw_curve, turns_behind
from tests.launch.cli.web.pages import Browser, words_in


def told(capsys, rested, *words):
    capsys.readouterr()
    assert cli.run([*words, "--json", "--home", str(rested)]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_record_has_the_entries_of_the_command_the_newest_first_in_pages(browser, rested, capsys):
    known = told(capsys, rested, "ledger", "show", "--limit", "9999")["entries"]
    seen, before = [], ""
    for _ in range(len(known)):
        page = browser.get(f"/record.json{before}").json()
        seen += page["entries"]
        if not page["more"]:
            break
        assert len(page["entries"]) == limits.PAGE
        before = f"?before={page['next']}"
    assert known == seen[::-1]


def test_it_is_narrowed_by_the_filter_language_and_searched_by_words(browser, rested, capsys):
    found = browser.get("/record.json?filter=type=RunRequested").json()["entries"]
    assert [one["event_type"] for one in found] == ["RunRequested"] * 3
    assert browser.get("/record.json?words=packages").json() == told(
        capsys, rested, "ledger", "search", "packages", "--limit", str(HITS_MAX)
    )
    wrong = browser.get("/record?filter=colour=red")
    assert wrong.status_code == 400 and "not a filter" in words_in(wrong.text)


def test_an_entry_has_its_bodies(browser, rested, capsys):
    """As `hobus ledger show N --bodies`; what is not there is said."""
    known = told(capsys, rested, "ledger", "show", "5", "--bodies")["entries"][0]
    shown = browser.get("/record/5.json").json()["entries"][0]
    assert shown == known
    for path in ("/record/99999", "/record/-1", "/record/x", "/record/" + "9" * 40):
        assert browser.get(path).status_code == 404


def test_calls_are_added_up_as_cost_does(browser, rested, capsys):
    page = browser.get("/gateway.json?by=agent,day").json()
    assert {name: page[name] for name in ("by", "rows", "total")} == told(capsys, rested, "cost", "--by", "agent,day")
    assert len(page["calls"]) == page["total"]["calls"]
    assert browser.get("/gateway?by=moon").status_code == browser.get("/gateway?since=soon").status_code == 400


def test_settings_are_those_of_the_command_and_two_configurations_are_held_against_each_other(browser, rested, capsys):
    known = told(capsys, rested, "config", "show", "ho2")
    shown = browser.get("/config.json?setting=ho2").json()
    assert {name: shown[name] for name in known} == known
    assert browser.get("/config?setting=no.such").status_code == 400
    assert browser.get("/config?before=sha256:0&after=sha256:1").status_code == 400


@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_the_record_is_verified_aside_and_the_page_says_what_was_found(rested, role):
    browser = Browser(rested, role)

    async def verified() -> None:
        from hobus.launch.cli.web.app import Asked  # noqa: PLC0415

        await record.verify(Asked(browser.source, browser.people.of(browser.cookies["c"]), {}, {}))
        await record._VERIFICATION.task

    asyncio.run(verified())
    assert browser.get("/record/verify.json").json()["ok"] is True
    assert "whole" in words_in(browser.get("/record/verify").text)
    assert browser.post("/record/verify", back="/record/verify").status_code == 303


def test_a_diagram_has_a_line_for_each_process_and_an_arrow_for_each_frame():
    """A request to who took it, an answer to who had asked, itself where it is told to nobody else; by their times."""
    made = TapRecord(
        "e", 1, 0.0, "delivered", "", "request", "wo.execute", "m", "", "", "ho2/1@a", "ho1", "ho1/2@b", "", "", 0, 1, 10, "",
        False, "broker", None,  # noqa: FBT003 - its fields
    )  # fmt: skip
    answer = made._replace(at=1.0, kind="reply", type="wo.receipt", sender="ho1/2@b", destination="ho2/1@a", worker="")
    found = make_drawing([answer, answer._replace(destination="ho1/2@b"), made._replace(sequence=3)])
    assert [name for name, _ in found.lanes] == ["ho2/1", "ho1/2"]
    assert [(one.x1 < one.x2, one.x1 > one.x2, one.label) for one in found.arrows] == [
        (True, False, "wo.execute"), (False, True, "wo.receipt (reply)"), (False, False, "wo.receipt (reply)"),
    ]  # fmt: skip
    assert found.arrows[0].y < found.arrows[1].y < found.height and make_drawing([]).arrows == []


def test_a_page_of_a_torn_capture_says_what_the_command_says_of_it(rested, tmp_path, capsys):
    """Also its twin and a diagram, whose empty picture blames no broker; of a whole one nothing is missing."""
    path = tmp_path / "cut.tap"
    writer = CaptureWriter(path, {}, replace=False)
    begun = path.stat().st_size
    writer.batch(TapBatch("e", [], 1, 4, 3, 0, False, None), [])  # noqa: FBT003 - its fields
    writer.close([])
    whole, browser = path.read_bytes(), Browser(rested)
    browser.source.capture = path
    for data, count in ((whole[: begun + 9], 2), (whole, 0)):
        path.write_bytes(data)
        capsys.readouterr()
        assert cli.run(["tap", "-r", str(path)]) == 0
        said = " ".join(capsys.readouterr().err.split())
        for page in ("/bus", "/bus/diagram"):
            words = words_in(browser.get(f"{page}?turn=SES-12345678-1").text)
            missing = browser.twin(f"{page}.json?turn=SES-12345678-1")["missing"]
            assert len(missing) == count and all(one in words and one in said for one in missing), words
            assert not count or f"the capture is torn at byte {begun}:" in missing[0]
            assert page == "/bus" or ("The capture has no frame of it" in words and "ring" not in words)
    assert browser.get("/bus/capture.tap").status_code == 503


def test_a_curve_falls_by_half_in_each_half_life():
    points = [tuple(map(float, one.split(","))) for one in draw_curve(0.5).split()]
    assert points[0] == (0.0, 10.0) and points[-1] == (100.0, pytest.approx(20 - 20 * 0.5 / 16, abs=0.1))
    assert sorted(y for _, y in points) == [y for _, y in points]


def test_a_line_leads_to_the_turns_that_taught_it():
    one, other = str(uuid4()), str(uuid4())
    events = [f"EVT-{one}-2-tool:pay", f"EVT-{one}-2-task:pay", f"EVT-{other}-11-tool:pay", "EVT-imported"]
    assert turns_behind(events) == [(one, "2"), (other, "11")]


def test_a_fallback_says_which_model_it_is_asked_instead_of():
    """Of one call alone: another order is asked of the other model in its own right."""

    def call(key: str, model: str) -> PlottedCall:
        return PlottedCall(1, key, "", 1, "", 0, model, "", 1, 1, 1, 0.0, "")

    calls = [call("a#1", "x/big"), call("b#1", "y/small"), call("a#1", "x/big"), call("a#1", "y/small")]
    assert [one.instead_of for one in with_fallbacks(calls)] == ["", "", "", "x/big"]
