"""The list of sessions: the command's rows, narrowed, in pages."""

from __future__ import annotations

import asyncio
import json
import re
import shlex

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.session import Deny
from hobus.launch.cli import main as cli
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.lab.simulated import write_out
from hobus.launch.sessions import listing
from hobus.launch.sessions.journal_files import FromDirectory
from tests.launch.cli.web.pages import Browser, foot_of, recorded, words_in
from tests.sessions import held_calls, stands_still
from tests.simulated import SimulatedCluster
from tests.simulation.test_sessions import configured, played

pytestmark = pytest.mark.slow


def told(capsys, page):
    """What the command in the foot of a page prints for programs."""
    capsys.readouterr()
    words = shlex.split(foot_of(page.text))
    assert cli.run([*words[1:], *([] if "--json" in words else ["--json"])]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True), ("state=open", True), ("state=closed", False), ("outcome=failed", False), ("agent=ADMIN", True),
        ("agent=X", False), ("principal=local", True), ("principal=key/", False), ("words=packages", True),
        ("words=zeppelin", False), ("state=open&words=packages&agent=admin", True),
    ],
)  # fmt: skip
def test_it_is_narrowed_by_what_is_looked_for_and_its_foot_has_the_command_that_lists_the_same(
    browser, capsys, query, found
):
    """Every field of every session: state, outcome, agent, principal, and words that were said."""
    twin, page = browser.twin(f"/sessions.json?{query}"), browser.get(f"/sessions?{query}")
    assert bool(twin["sessions"]) is found and twin == told(capsys, page)
    assert found or "no session fits" in words_in(page.text)
    assert all(f"SES-{one['session_id'][:8]}" in page.text for one in twin["sessions"])


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/sessions{}?state=bogus", "state bogus: expected one of open, closed, running, waiting, approval"),
        ("/sessions{}?outcome=open", "outcome open: expected one of degraded, failed, tool-failed, cancelled"),
        ("/sessions{}?limit=51", "limit 51: expected 1 to 50"), ("/approvals{}?limit=0", "limit 0: expected 1 to 50"),
        ("/sessions/SES-{session}{}?limit=many", "limit many: expected a number"),
        ("/record{}?before=-1", "before -1: expected a number"), ("/approvals{}?before=x", "before x: expected a number"),
        ("/sessions{}?before=99999999999999999999", "before 99999999999999999999: expected a number"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_what_can_and_nothing_is_listed(browser, path, says):
    """By the page and by its twin."""
    session = browser.get("/sessions.json").json()["sessions"][0]["session_id"][:8]
    page, twin = (browser.get(path.format(form, session=session)) for form in ("", ".json"))
    assert page.status_code == twin.status_code == 400 and twin.json()["error"]["message"] == says
    assert says in words_in(page.text) and "data-part>\n<div" not in page.text


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A home with seven sessions, and their ids, the newest first; the second one has changed last."""
    root = tmp_path_factory.mktemp("crowded") / "home"
    with SimulatedCluster(shipped_snapshot()) as made:
        known = []
        for number in range(7):
            text = f"the {number}. word is zeppelin" if number % 2 else "no such word"
            known.append(made.ask(text, input_id=f"in-{number}").session_id)
        made.ask("and on it goes", input_id="in-7", session_id=known[1])
        made.entries()
        (root / "ledger").mkdir(parents=True)
        write_out(made.world.media["ledger"], root / "ledger")
    return root, [known[1], *(one for one in known[::-1] if one != known[1])]


@pytest.mark.parametrize(
    ("query", "found"), [("limit=2", "0123456"), ("limit=2&state=open", "0123456"), ("limit=2&words=zeppelin", "024")]
)
def test_the_one_that_changed_last_comes_first_and_a_page_goes_on_where_the_one_before_ended(
    crowded, monkeypatch, capsys, query, found
):
    """Each is shown once, and a page looks at no more than it may."""
    root, known = crowded
    monkeypatch.setattr(limits, "LOOKED_AT_MAX", 3)
    looked_at, find_row = [], listing._find_row

    async def counted(files, end):
        looked_at.append(end.session_id)
        return await find_row(files, end)

    monkeypatch.setattr(FromDirectory, "map_rows", lambda _files: {})  # as of a record with an index
    monkeypatch.setattr(listing, "_find_row", counted)
    asked, seen, before = Browser(root), [], ""
    for _ in range(9):
        looked_at.clear()
        page = asked.get(f"/sessions.json?{query}{before}").json()
        seen += [one["session_id"] for one in page["sessions"]]
        before = f"&before={page['next']}"
        assert len(looked_at) <= limits.LOOKED_AT_MAX
        if page["next"] is None:
            break
    assert seen == [known[int(number)] for number in found]
    command = ["session", "list", *(f"--{one}" for one in query.split("&")), "--home", str(root), "--json"]
    listed, before = [], []
    for _ in seen:
        capsys.readouterr()
        assert cli.run([*command, *before]) == 0
        page = json.loads(capsys.readouterr().out)
        listed, before = [*listed, *(one["session_id"] for one in page["sessions"])], ["--before", str(page["next"])]
        if not page["more"]:
            break
    assert listed == seen, "the command lists them in the same order, in the same pages"
    where = words_in(asked.get(f"/sessions?{query}").text)
    assert [where.index(f"SES-{one[:8]}") for one in seen[:2]] == sorted(
        where.index(f"SES-{one[:8]}") for one in seen[:2]
    )


def test_a_session_is_found_by_what_became_of_any_of_its_turns(tmp_path):
    """A good turn behind it hides no failure; the list names the turn in which it was."""
    recorded(tmp_path, ['use list_packages {"nonsense": 1}', "what packages are installed?"])
    browser = Browser(tmp_path)
    [session] = browser.get("/sessions.json?outcome=tool-failed").json()["sessions"]
    assert (session["last_outcome"], session["tools_failed"]) == ("success", [])
    assert browser.get("/sessions.json?outcome=tool-failed").json()["found_in_run"] == {session["session_id"]: 1}
    name = f"SES-{session['session_id'][:8]}"
    assert f"tool-failed in {name}-1" in words_in(browser.get("/sessions?outcome=tool-failed").text)
    assert browser.get("/sessions.json?outcome=tool-failed&words=zeppelin").json()["sessions"] == []
    assert browser.get("/sessions.json?outcome=failed").json()["sessions"] == []


@pytest.fixture(scope="module")
def decided(tmp_path_factory):
    """Two homes of one session: while a call of it waits for a person, and after that one has denied it."""
    waits, denied = (tmp_path_factory.mktemp(name) for name in ("waits", "denied"))
    with played(configured(tools={"approval": ["verify_ledger"]})) as (cluster, person):

        def write(root):
            (root / "ledger").mkdir()
            write_out(cluster.world.media["ledger"], root / "ledger")

        async def story():
            await person.begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(person.say("is the ledger intact?"))
                view = await person.until(lambda view: stands_still(view) and bool(held_calls(view)))
                cluster.entries()
                write(waits)
                await person.command(Deny(call_id=held_calls(view)["verify_ledger"], reason="not now"))

        cluster.world.run(story())
        cluster.entries()
        write(denied)
    return waits, denied


def test_the_inbox_has_the_calls_of_the_command_in_its_foot(decided, capsys):
    """Each with its arguments; where none waits, the command lists none either."""
    for root, count in zip(decided, (1, 0), strict=True):
        browser = Browser(root)
        twin, listed = browser.twin("/approvals.json"), told(capsys, browser.get("/approvals"))
        held = [{"session_id": row["session_id"], **one} for row in listed["sessions"] for one in row["held_calls"]]
        assert [{name: one[name] for name in held[0]} for one in twin["approvals"]] == held if held else count == 0
        assert len(listed["sessions"]) == len(twin["approvals"]) == count


def test_each_button_and_field_of_a_page_has_a_name_of_its_own(decided, monkeypatch):
    """Who hears the page knows which call a button decides, and what a word is for."""
    monkeypatch.setattr(HomeSource, "runs", True)
    browser = Browser(decided[0], at_rest=False)
    [call] = browser.get("/approvals.json").json()["approvals"]
    which, session = f"verify_ledger, call {call['call_id']}", call["session_id"]
    for path, of in (("/approvals", f" of SES-{session[:8]}-1"), (f"/sessions/{session}", "")):
        main = browser.get(path).text.partition("<main")[2]
        named = re.findall(r'<(?:button|input|textarea)(?! type="hidden")[^>]*aria-label="([^"]*)"', main)
        assert {f"Approve {which}{of}", f"Deny {which}{of}"} <= set(named)
        assert len({*named}) == len(named), named


def test_a_call_that_a_person_denied_is_named_where_its_turn_is_listed(decided, capsys):
    """On the page and by the command, and it is no failure."""
    for root, is_named in zip(decided, (False, True), strict=True):
        browser = Browser(root)
        [row] = browser.get("/sessions.json").json()["sessions"]
        assert (row["tools_denied"], row["tools_failed"]) == (["verify_ledger"] if is_named else [], [])
        assert ("verify_ledger denied" in words_in(browser.get("/sessions").text)) is is_named
        capsys.readouterr()
        assert cli.run(["session", "list", "--home", str(root)]) == 0
        assert ("verify_ledger denied" in capsys.readouterr().out) is is_named
