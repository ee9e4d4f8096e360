"""A session, its turns and two of them beside each other: the reads of `session show`, `why` and `diff`."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import count
from types import SimpleNamespace

import pytest

from hobus.bus.errors import GatewayError
from hobus.bus.messages.session import ProcessTurn
from hobus.launch.cli import main as cli
from hobus.launch.cli.web import session as screen
from hobus.launch.cli.web import talks
from hobus.launch.console.errors import CommandError
from tests.actors.ho2_supervisor.rig import snapshot
from tests.launch.cli.web.pages import Browser, recorded, words_in
from tests.simulation.test_memory import Watched

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(rested):
    return Browser(rested).get("/sessions.json").json()["sessions"][0]["session_id"]


def told(capsys, rested, *words):
    capsys.readouterr()
    assert cli.run([*words, "--json", "--home", str(rested)]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_session_has_the_facts_of_the_command_and_a_card_for_each_turn(browser, session, rested, capsys):
    """The newest first, each with its question, its answer, and what it took."""
    assert browser.twin(f"/sessions/{session}.json") == told(capsys, rested, "session", "show", session)
    page = browser.get(f"/sessions/SES-{session[:8]}").text
    words = words_in(page)
    asked = ["list them again", "how many are there?", "what packages are installed?"]
    assert sorted(asked, key=words.index) == asked
    assert re.search(r"\d ms · \d model calls · \d tool calls? · [\d,]+ \+ \d+ tokens · \$0", words)
    assert '<form method="post" action="/ask"' not in page, "a home at rest takes no message"


def test_of_many_turns_the_newest_are_shown_and_the_way_to_the_rest(browser, session):
    page = words_in(browser.get(f"/sessions/{session}?limit=1").text)
    assert "list them again" in page and "how many are there?" not in page and "Earlier turns" in page
    assert "how many are there?" in words_in(browser.get(f"/sessions/{session}?limit=2").text)


def test_a_turn_has_everything_that_why_tells(browser, session, rested, capsys):
    """The document of `hobus why`, which is that of `session show --turn`; every part of it on the page."""
    twin = browser.twin(f"/sessions/{session}/turns/1.json")
    why = told(capsys, rested, "why", f"SES-{session[:8]}-1")
    account = told(capsys, rested, "session", "show", session, "--turn", "1")
    assert twin == why == account
    page = browser.get(f"/sessions/{session}/turns/1").text
    words = words_in(page)
    assert page.count("<rect class=") == len(why["steps"]) > 4
    for prompt in why["prompts"]:
        assert f"#{prompt['step']['sequences'][0]}" in words and all(one["name"] in words for one in prompt["shown"])
    assert all(one["signal_id"] in words for one in why["signals"])
    assert all(one["what"] in words for one in account["moments"][:3])


def test_two_turns_stand_beside_each_other(browser, session, rested, capsys):
    names = [f"{session}-{number}" for number in (1, 2)]
    twin = browser.twin(f"/diff.json?before={names[0]}&after={names[1]}")
    assert twin == told(capsys, rested, "diff", *names)
    assert "how many are there?" in words_in(browser.get(f"/diff?before={names[0]}&after={names[1]}").text)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/sessions/SES-00000000", 404),
        ("/sessions/zz?limit=3", 404),
        ("/sessions/{}/turns/9", 404),
        ("/diff?before=x&after=y", 400),
    ],
)
def test_what_is_not_there_is_said_with_what_is(browser, session, path, status):
    """The command's own sentence: 404 for what a path names, 400 for what was asked."""
    answer = browser.get(path.format(session))
    assert answer.status_code == status and "Traceback" not in answer.text


def test_the_figures_of_a_turn_are_the_same_on_its_card_on_its_page_and_in_both_twins(tmp_path):
    """Of turns that failed in each way: a tool, a call of none that there is, a provider, and the host's own attempt."""
    config = snapshot(("gateway.breaker.failures", 2), ("gateway.outage_wait_ms", 0))
    asked = ['use list_packages {"nonsense": 1}', "hello", "fail", "fail again"]

    def answered(prompt):
        if "fail" in prompt.messages[-1].text:
            raise GatewayError("PROVIDER_ERROR", "the wire is cut", retryable=True)

    recorded(tmp_path, asked, snapshot=config, providers={"offline": Watched(config, answered)})
    browser = Browser(tmp_path)
    session = browser.get("/sessions.json").json()["sessions"][0]["session_id"]
    cards = browser.get(f"/sessions/{session}.json").json()["turns"]
    page = words_in(browser.get(f"/sessions/{session}").text)
    names = ("took_ms", "late_ms", "failures", "denied", "totals")
    for card in cards:
        turn = browser.get(f"/sessions/{session}/turns/{card['run']}.json").json()
        assert {name: card[name] for name in names} == {name: turn[name] for name in names}, card
        assert turn["failures"] == len(turn["what_failed"])
        shown = browser.get(f"/sessions/{session}/turns/{card['run']}").text
        assert all(f"#{one['sequences'][-1]}" in shown for one in turn["what_failed"])
        assert f"Where {card['took_ms']:,} ms went" in words_in(shown)
        assert not card["failures"] or f"{card['failures']} failure" in page
    assert [bool(one["failures"]) for one in cards] == [True, False, True, True]
    assert {one["kind"] for one in turn["what_failed"]} >= {"run", "supervisor"}
    assert [one["session_id"] for one in browser.get("/sessions.json?outcome=failed").json()["sessions"]] == [session]
    hits = browser.get("/record.json?words=the wire is cut").json()["hits"]
    assert {(one["kind"], one["event_type"]) for one in hits} >= {("failure", "RunFailed")}


def test_a_tool_that_failed_is_named_where_its_turn_is_listed_and_told(tmp_path):
    """The turn was answered; the list says which tool failed, is narrowed to such turns, and the turn names it."""
    recorded(tmp_path, ['use list_packages {"nonsense": 1}'])
    browser = Browser(tmp_path)
    assert "success list_packages failed" in words_in(browser.get("/sessions").text)
    [row] = browser.get("/sessions.json?outcome=tool-failed").json()["sessions"]
    steps = browser.get(f"/sessions/{row['session_id']}/turns/1.json").json()["steps"]
    failures = [one["about"] for one in steps if one["verdict"] == "failed"]
    assert row["tools_failed"] == ["list_packages"] == failures
    twin = browser.get(f"/sessions/{row['session_id']}/turns/1.json").json()
    [told] = [
        one
        for prompt in twin["prompts"]
        for one in prompt["shown"]
        if one["text"].startswith("error tool_invalid_args")
    ]
    [failed] = browser.get("/record.json?filter=type=WO_FAILED").json()["entries"]
    assert told["source"] == "WO_FAILED, WO_DISPATCHED" and told["sequences"][0] == failed["sequence"]
    hits = browser.get("/record.json?words=additional properties").json()["hits"]
    assert ("failure", row["session_id"]) in [(one["kind"], one["session_id"]) for one in hits]
    page = browser.get(f"/sessions/{row['session_id']}/turns/1").text
    told = words_in(page.partition("What failed")[2].partition("</table>")[0])
    assert 'tool call list_packages 1.2.2.001 { "nonsense": 1 }' in told.replace("&#34;", '"'), told
    assert '<rect class="tool"' in page


def test_a_fault_of_a_message_that_nobody_answered_is_shown_until_the_next_message(browser, session, monkeypatch):
    """Of one that has an answer in the record, a fault too, the record alone is shown."""
    known, numbers = talks.Talks(), count()
    monkeypatch.setattr(screen, "TALKS", known)
    place = SimpleNamespace(snapshot=SimpleNamespace(config=SimpleNamespace(host=SimpleNamespace(turn_timeout_ms=1))))

    async def send(text, became):
        async def answer_of(*_asked, **_options):
            if isinstance(became, Exception):
                raise became
            return became

        monkeypatch.setattr(talks, "answer_of", answer_of)
        turn = ProcessTurn(session_id=session, input_id=f"in-{next(numbers)}", text=text)
        known.begin(place, turn, lambda: None)
        await known.of_session(session).task

    def shown(text, became):
        asyncio.run(send(text, became))
        return words_in(browser.get(f"/sessions/{session}").text)

    recorded_fault = SimpleNamespace(outcome="error", response="the model is away", run_id="r")
    lost_fault = SimpleNamespace(outcome="error", response="no room here", run_id=None)
    answered = SimpleNamespace(outcome="success", response="yes", run_id="r")
    for fault in (CommandError("nobody is there"), lost_fault):
        page = shown("pay the bill", fault)
        assert "Not answered" in page and "pay the bill" in page and (str(fault) in page or "no room here" in page)
        for after in (answered, recorded_fault):
            page = shown("and now?", after)
            assert not any(one in page for one in ("Not answered", "pay the bill", str(fault), "no room", "and now?"))
            shown("pay the bill", fault)
