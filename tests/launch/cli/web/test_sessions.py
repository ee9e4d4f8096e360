"""The list of sessions: the command's rows, narrowed, in pages."""

from __future__ import annotations

import json

import pytest

from bench.builders import shipped_snapshot
from bench.simulated import SimulatedCluster
from hobus.launch.cli import main as cli
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.sessions import Walk
from hobus.launch.lab.simulated import write_out
from hobus.launch.sessions import journal_files
from tests.launch.cli.web.pages import Browser, words_in


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


def test_a_page_looks_at_no_more_than_it_may_and_says_where_it_stopped():
    walk = Walk(is_active=False)
    many = [str(number) for number in range(limits.LOOKED_AT_MAX + 5)]
    taken = [one for one in many if walk.takes(one)]
    assert len(taken) == limits.LOOKED_AT_MAX and walk.stopped_at == taken[-1]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A home with seven sessions, and their ids, the newest first."""
    root = tmp_path_factory.mktemp("crowded") / "home"
    with SimulatedCluster(shipped_snapshot()) as made:
        for number in range(7):
            made.ask(f"the {number}. word is zeppelin" if number % 2 else "no such word", input_id=f"in-{number}")
        made.entries()
        (root / "ledger").mkdir(parents=True)
        write_out(made.world.media["ledger"], root / "ledger")
    return root, [one["session_id"] for one in Browser(root).get("/sessions.json?limit=9").json()["sessions"]]


@pytest.mark.parametrize(("query", "every"), [("limit=2", 1), ("limit=2&state=open", 1), ("limit=2&words=zeppelin", 2)])
def test_a_page_goes_on_behind_the_session_that_the_one_before_ended_with(crowded, monkeypatch, query, every):
    """Each is shown once; what stands before it is not read, nor what stands behind a page that looks at no more."""
    root, known = crowded
    assert len(known) == 7
    monkeypatch.setattr(limits, "LOOKED_AT_MAX", 3)
    asked, starts, read_starts = Browser(root), [], journal_files.read_entries

    def counted(path, wanted=None, **options):
        for one in read_starts(path, wanted, **options):
            starts.extend([one.sequence] if wanted.event_type == "SESSION_START" and not wanted.session else [])
            yield one

    monkeypatch.setattr(journal_files, "read_entries", counted)
    found, after = [], ""
    for _ in range(9):
        starts.clear()
        page = asked.get(f"/sessions.json?{query}&after={after}").json()
        found += [one["session_id"] for one in page["sessions"]]
        after = page["next"]
        assert len(starts) <= limits.LOOKED_AT_MAX + 1
        if not after:
            break
    assert found == known[1::2] if every == 2 else found == known
