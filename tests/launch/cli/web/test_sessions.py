"""The list of sessions: the command's rows, narrowed, in pages."""

from __future__ import annotations

import json

import pytest

from hobus.launch.cli import main as cli
from hobus.launch.cli.web import limits
from hobus.launch.cli.web import sessions as module
from hobus.launch.cli.web.sessions import Walk
from tests.launch.cli.web.pages import words_in


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


def test_a_page_goes_on_behind_the_session_that_the_one_before_ended_with():
    """Each is looked at once, and a page looks at no more than it may."""
    walk = Walk("b", 9)
    assert [one for one in "abcd" if walk.takes(one)] == ["c", "d"]
    many = [str(number) for number in range(limits.LOOKED_AT_MAX + 5)]
    walk = Walk("", limits.LOOKED_AT_MAX)
    taken = [one for one in many if walk.takes(one)]
    assert len(taken) == limits.LOOKED_AT_MAX and walk.stopped_at == taken[-1]
    walk = Walk(walk.stopped_at, limits.LOOKED_AT_MAX)
    assert [one for one in many if walk.takes(one)] == many[-5:]


def test_where_a_session_stands_is_read_again_only_when_it_went_on(browser, monkeypatch):
    """And of those whose last run is over nothing but their last entry, where only others are asked for."""
    read = []
    standing_in = module.standing_in

    async def counted(journals, session_id):
        read.append(session_id)
        return await standing_in(journals, session_id)

    monkeypatch.setattr(module, "standing_in", counted)
    monkeypatch.setattr(module, "_KEPT", {})
    assert browser.get("/approvals.json").json()["approvals"] == [] and not read
    assert browser.get("/sessions.json?state=waiting").json()["sessions"] == [] and not read
    shown = browser.get("/sessions.json?limit=7").json()["sessions"]
    assert len(shown) == len(read) > 0
    assert browser.get("/sessions.json?limit=8").json()["sessions"] == shown and len(read) == len(shown)
