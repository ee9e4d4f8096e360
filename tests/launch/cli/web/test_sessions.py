"""The list of sessions: the command's rows, narrowed, in pages."""

from __future__ import annotations

import json

import pytest

from bench.builders import shipped_snapshot
from bench.simulated import SimulatedCluster
from hobus.launch.cli import main as cli
from hobus.launch.cli.web import limits, sessions
from hobus.launch.lab.simulated import write_out
from tests.launch.cli.web.pages import Browser, recorded, words_in


def test_the_list_has_the_rows_of_the_command(browser, rested, capsys):
    """Every field of every session, from the same read."""
    assert cli.run(["session", "list", "--all", "--json", "--home", str(rested)]) == 0
    told = json.loads(capsys.readouterr().out)
    twin = browser.get("/sessions.json").json()
    assert twin["sessions"] == told["sessions"] and twin["more"] is told["more"] is False
    assert twin["sessions"][0]["last_outcome"] == "success"
    assert f"SES-{told['sessions'][0]['session_id'][:8]}" in browser.get("/sessions").text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=open", True), ("state=closed", False), ("state=failed", False), ("agent=ADMIN", True), ("agent=X", False),
        ("principal=local", True), ("principal=key/", False), ("words=packages", True), ("words=zeppelin", False),
        ("state=nonsense", True), ("limit=99999999999999999999", True),
    ],
)  # fmt: skip
def test_it_is_narrowed_by_what_is_looked_for(browser, query, found):
    """State, agent, principal, and words that were said."""
    assert bool(browser.get(f"/sessions.json?{query}").json()["sessions"]) is found
    assert found or "no session fits" in words_in(browser.get(f"/sessions?{query}").text)


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
    crowded, monkeypatch, query, found
):
    """Each is shown once, and a page looks at no more than it may."""
    root, known = crowded
    monkeypatch.setattr(limits, "LOOKED_AT_MAX", 3)
    looked_at, find_row = [], sessions._find_row

    async def counted(journals, record, end):
        looked_at.append(end.session_id)
        return await find_row(journals, record, end)

    monkeypatch.setattr(sessions, "_find_row", counted)
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
    where = words_in(asked.get(f"/sessions?{query}").text)
    assert [where.index(f"SES-{one[:8]}") for one in seen[:2]] == sorted(
        where.index(f"SES-{one[:8]}") for one in seen[:2]
    )


def test_a_session_is_found_by_what_became_of_any_of_its_turns(tmp_path):
    """A good turn behind it hides no failure; the list names the turn in which it was."""
    recorded(tmp_path, ['use list_packages {"nonsense": 1}', "what packages are installed?"])
    browser = Browser(tmp_path)
    [session] = browser.get("/sessions.json?state=tool failed").json()["sessions"]
    assert (session["last_outcome"], session["tools_failed"]) == ("success", [])
    assert browser.get("/sessions.json?state=tool failed").json()["found_in_run"] == {session["session_id"]: 1}
    name = f"SES-{session['session_id'][:8]}"
    assert f"tool failed in {name}-1" in words_in(browser.get("/sessions?state=tool failed").text)
    assert browser.get("/sessions.json?state=tool failed&words=zeppelin").json()["sessions"] == []
    assert browser.get("/sessions.json?state=failed").json()["sessions"] == []
