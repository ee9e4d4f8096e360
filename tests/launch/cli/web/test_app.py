"""Who may look at the console, and what every answer of it has."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from hobus.launch.cli.web import configured, source
from hobus.launch.cli.web.screens import ACTIONS, PAGES
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.console.errors import UnreachableFault
from tests.launch.cli.web.pages import Browser, foot_of, words_in

OF_A_CLUSTER = ("/bus", "/bus/diagram", "/memory", "/tools")
PLAIN = [page.path for page in PAGES if "{" not in page.path and page.path not in OF_A_CLUSTER]


@pytest.mark.parametrize(
    "path",
    [*PLAIN, *OF_A_CLUSTER, "/live", "/bus/frames", "/bus/capture.tap", "/talks/x", "/sessions.json", "/no-such-page"],
)
def test_without_signing_in_nothing_is_shown(rested, path):
    """Of no page, no twin and no stream; and how to get in is said."""
    answer = Browser(rested, None).get(path)
    assert answer.status_code == 401 and "hobus console" in answer.text
    assert str(rested) not in answer.text or "installed" not in answer.text


def test_a_link_signs_in_once_by_a_cookie_that_no_script_and_no_other_site_gets(rested):
    """The second time it is worth nothing; the cookie is HttpOnly and SameSite=Strict."""
    browser = Browser(rested, None)
    word = browser.people.invite("ada", "viewer")
    answer = browser.get(f"/sign-in?word={word}")
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 303 and "httponly" in cookie and "samesite=strict" in cookie
    assert browser.get(f"/sign-in?word={word}").status_code == 403
    assert browser.get("/sign-in?word=guessed").status_code == 403
    assert browser.get("/sessions").status_code == 401


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"host": "127.0.0.1.evil.example:8000"}])
def test_by_another_name_it_is_not_called(browser, headers):
    assert browser.get("/sessions", headers=headers).status_code == 421


def test_pages_of_other_origins_may_not_call_it(browser):
    assert browser.get("/sessions", headers={"origin": "http://evil.example"}).status_code == 403
    assert browser.get("/sessions", headers={"origin": "null"}).status_code == 403
    assert browser.get("/sessions", headers={"origin": "http://127.0.0.1:8000"}).status_code == 200


@pytest.mark.parametrize(
    "path", [one.path.replace("{session_id}", "SES-12345678") for one in ACTIONS] + ["/sign-out", "/theme"]
)
def test_a_form_without_the_token_of_its_page_does_nothing(browser, path):
    assert browser.post(path, csrf=False, back="/").status_code == 403
    assert browser.request("POST", path, data={"back": "/", "csrf": "x" * 64}).status_code == 403
    assert browser.get("/sessions").status_code == 200


@pytest.mark.parametrize(
    "path", [one.path.replace("{session_id}", "SES-12345678") for one in ACTIONS if not one.only_looks]
)
def test_a_viewer_and_a_home_at_rest_change_nothing(rested, path):
    assert Browser(rested, "viewer", at_rest=False).post(path, back="/").status_code == 403
    assert Browser(rested, "operator").post(path, back="/").status_code == 403


def test_a_form_leads_back_to_this_console_alone(browser):
    for back in ("//evil.example/", "https://evil.example/", "/\\evil.example"):
        assert browser.post("/theme", theme="dark", back=back).headers["location"] == "/"
    assert (
        browser.post("/theme", theme="dark", back="/sessions?state=open").headers["location"] == "/sessions?state=open"
    )


@pytest.mark.parametrize("in_front", ["", "/hobus"])
def test_behind_a_proxy_its_paths_and_its_name_are_those_that_the_browser_knows(rested, in_front):
    """Whether the proxy leaves its path in front or not: every address, redirect and cookie has it; its forms are taken."""
    proxied = {"host": "ops.example", "origin": "https://ops.example"}
    browser = Browser(rested, None, url="https://ops.example/hobus")
    answer = browser.get(
        f"{in_front}/sign-in?word={browser.people.invite('ada', 'operator')}", headers={"host": "ops.example"}
    )
    cookie = answer.headers["set-cookie"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/hobus/")
    assert "Path=/hobus/;" in cookie and "secure" in cookie.lower()
    browser.cookies = {"c": cookie.partition(";")[0].partition("=")[2]}
    page = browser.get(f"{in_front}/sessions?state=open", headers=proxied)
    addresses = re.findall(r'(?:href|action|src|data-\w+)="(/[^"]*)"', page.text)
    assert page.status_code == 200 and addresses and all(one.startswith("/hobus/") for one in addresses), addresses
    assert 'href="/hobus/sessions.json?state=open"' in page.text and 'href="/hobus/sessions" aria-current' in page.text
    assert browser.get(f"{in_front}/", headers=proxied).status_code == 200
    person = browser.people.of(browser.cookies["c"])
    form = {"csrf": person.csrf, "theme": "dark", "back": "/sessions?state=open"}
    done = browser.request("POST", f"{in_front}/theme", data=form, headers=proxied)
    assert done.headers["location"] == "/hobus/sessions?state=open" and "Path=/hobus/;" in done.headers["set-cookie"]
    assert browser.get("/sessions", headers={**proxied, "origin": "https://evil.example"}).status_code == 403
    assert browser.get("/sessions", headers={"host": "evil.example"}).status_code == 421
    assert browser.get("/sessions", headers={"host": "127.0.0.1:8000"}).status_code == 200


@pytest.mark.parametrize("path", [*PLAIN, "/sign-in", "/static/console.js", "/nothing"])
def test_every_answer_lets_nothing_foreign_in(browser, path):
    """Neither scripts, frames, nor guesses at its type; and no page has an address of another site."""
    answer = browser.get(path)
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "") and "https://" not in answer.text
    assert "<script>" not in answer.text and " style=" not in answer.text and " onclick" not in answer.text


@pytest.mark.parametrize("path", PLAIN)
def test_every_screen_names_its_command_its_twin_and_the_entry_that_it_reaches(browser, path):
    """The command is one for a shell anywhere: it names the home."""
    page = browser.get(path)
    assert page.status_code == 200, words_in(page.text)
    words = words_in(page.text)
    assert "From the record up to #" in words and f" hobus {foot_of(page.text)[6:]} " in words
    assert foot_of(page.text).endswith(f" --home {browser.source.home.root}")
    twin = page.text.partition('">JSON</a>')[0].rpartition('href="')[2]
    answer = browser.get(twin)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    assert f"From the record up to #{answer.json()['head']:,} " in words


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/record?filter=type=RunFailed %26 run=1", "ledger show 'type=RunFailed & run=1'"),
        ("/record?words=it's", "ledger search 'it'\"'\"'s' --limit 50"), ("/config?setting=ho2", "config show ho2 --origin"),
        ("/gateway?by=day&since=7d", "cost --by day --since 7d"), ("/bus?filter=type=a b", "tap 'type=a b'"),
        ("/bus/diagram?turn=SES-1-1", "tap turn=SES-1-1 --since 600s"), ("/record/5", "ledger show 5 --bodies"),
        ("/memory?agent=ADMIN", "memory overlays --all --agent ADMIN"), ("/diff?before=a&after=b", "diff a b"),
        ("/record?filter=type=RunFailed&before=9", "ledger show type=RunFailed 'sequence<9'"),
        ("/sessions?state=closed&principal=key/a b&before=7", "session list --all --state closed --principal 'key/a b' --before 7"),
        ("/approvals?limit=3", "session list --state approval --json --limit 3"),
        ("/sessions?outcome=bogus", "session list --all --outcome bogus"),
        ("/sessions/12345678?limit=3", "session show SES-12345678 --limit 3"), ("/config", "config show --origin"),
        ("/sessions/SES-12345678/turns/2", "why SES-12345678-2"), ("/record/0/x", ""),
        ("/sessions/12345678-0000-0000-0000-000000000000/turns/in-1", "why SES-12345678/in-1"),
    ],
)  # fmt: skip
def test_the_foot_has_the_command_with_what_the_page_was_narrowed_by_also_of_an_error(browser, path, command):
    """With the home; and the entry up to which the record was read. A path that is no screen has no command."""
    page = browser.get(path)
    assert foot_of(page.text) == (command and f"hobus {command} --home {browser.source.home.root}")
    assert ("From the record up to #" in page.text) is bool(command)
    if page.status_code >= 400:
        twin = browser.get(path.replace("?", ".json?") if "?" in path else f"{path}.json").json()
        assert twin["error"]["command"] == foot_of(page.text)
        assert twin["head"] is None or f"From the record up to #{twin['head']:,} " in words_in(page.text)
        assert (twin["head"] is not None) is bool(command)


def test_where_no_command_shows_the_same_the_foot_says_so(browser):
    """A difference between two recorded configurations; its twin and the record's last entry are named all the same."""
    for query, is_told in (("before=sha256:0&after=sha256:1", True), ("before=sha256:0", False)):
        page = browser.get(f"/config?{query}")
        assert ("No command shows this." in words_in(page.text)) is (foot_of(page.text) == "") is is_told
        assert (
            "From the record up to #" in page.text and f'href="/config.json?{query.replace("&", "&amp;")}"' in page.text
        )


def test_the_foot_of_a_capture_reads_the_capture(rested, tmp_path):
    """By its whole path: the shell may stand anywhere."""
    browser = Browser(rested)
    browser.source.capture = tmp_path / "my frames.tap"
    for path in ("/bus?filter=type=x", "/bus/diagram?turn=SES-1-1"):
        assert f" -r '{tmp_path}/my frames.tap' --home " in foot_of(browser.get(path).text)


@pytest.mark.parametrize("path", [*OF_A_CLUSTER, "/"])
def test_a_screen_that_needs_a_cluster_opens_and_says_what_helps(rested, path):
    """Where none runs, and with --read-only; it looks again by itself where one may come."""
    for at_rest in (True, False):
        answer = Browser(rested, at_rest=at_rest).get(f"{path}?turn=SES-12345678-1")
        words = words_in(answer.text)
        assert answer.status_code == 200 and "No cluster runs here" in words and "hobus up --home" in words
        assert ("data-live=" in answer.text) is not at_rest
        twin = Browser(rested, at_rest=at_rest).get(f"{path if path != '/' else '/index'}.json?turn=SES-12345678-1")
        assert twin.json()["running"] is False and twin.json()["hints"]
    assert Browser(rested).get("/bus/capture.tap").status_code == 503
    assert "hobus ledger show stream=overlays --bodies" in words_in(Browser(rested).get("/memory").text)


def test_beside_a_cluster_that_it_does_not_ask_a_console_says_that_one_runs(rested, monkeypatch):
    """With --read-only or --capture; and under which configuration it runs, which lies in a file."""
    run = SimpleNamespace(config_digest="sha256:0123")
    monkeypatch.setattr(source, "find_running", lambda _home: run)
    monkeypatch.setattr(configured, "find_running", lambda _home: run)
    monkeypatch.setattr(configured, "find_changes", lambda _home, _run: None)
    browser = Browser(rested)
    for path in ("/", "/memory", "/tools", "/bus"):
        words = words_in(browser.get(path).text)
        assert "This console asks no cluster" in words and "a cluster runs in" in words and "--read-only" in words
    assert "The cluster runs under sha256:0123" in words_in(browser.get("/config").text)
    for path in PLAIN:
        assert "No cluster runs" not in browser.get(path).text, path


def test_where_nothing_runs_nothing_is_offered_that_would_need_it(rested):
    """Also by a console without --read-only, whose cluster has stopped."""
    session = Browser(rested).get("/sessions.json").json()["sessions"][0]["session_id"]
    for path in ("/sessions", f"/sessions/{session}", "/approvals", "/memory"):
        page = Browser(rested, at_rest=False).get(path).text
        assert "Begin a session" not in page and "/ask" not in page and "/commands" not in page, path


TEXTS = ("/sessions/{}", "/sessions/{}/turns/1", "/diff?before={}-1&after={}-2", "/record?words=packages", "/record/{}")


@pytest.mark.slow
@pytest.mark.parametrize("path", TEXTS)
def test_a_look_at_texts_is_recorded_before_they_are_shown_once_for_each_browser(rested, monkeypatch, path):
    """By whose sign-in and by which command; also of the twin; and where it cannot be recorded nothing is shown."""
    looks = []

    async def recorded(_source, person, command):
        looks.append((person, command))
        if len(looks) == 1:
            raise UnreachableFault("the record cannot be written")

    monkeypatch.setattr(HomeSource, "record_look", recorded)
    browser = Browser(rested)
    session = browser.get("/sessions.json").json()["sessions"][0]["session_id"]
    request = browser.get("/record.json?filter=type=RunRequested").json()["entries"][-1]["sequence"]
    assert looks == []
    where = path.replace("{}", str(request) if path.startswith("/record/") else session)
    refused = browser.get(where)
    assert refused.status_code == 503 and "installed" not in refused.text
    shown = browser.get(where)
    page, _, query = where.partition("?")
    assert "installed" in shown.text and browser.get(f"{page}.json?{query}").status_code == 200
    assert Browser(rested, "viewer").get(where).status_code == 200
    command = foot_of(shown.text).removeprefix("hobus ").partition(" --home ")[0]
    assert looks == [("ada", command)] * 3 and command != ""


def test_what_shows_no_texts_is_no_look(browser, monkeypatch):
    """Lists, figures and settings; entries of the governance stream, in which the looks stand."""

    async def recorded(*_):
        pytest.fail("a look")

    monkeypatch.setattr(HomeSource, "record_look", recorded)
    governance = browser.get("/record.json?filter=stream=governance").json()["entries"]
    for path in [*PLAIN, *(f"/record/{one['sequence']}" for one in governance)]:
        assert browser.get(path).status_code == 200, path


def test_signing_out_ends_it(browser):
    assert browser.post("/sign-out").status_code == 303
    assert browser.get("/sessions").status_code == 401


def test_a_page_that_is_not_there_says_so(browser):
    assert browser.get("/nothing").status_code == browser.get("/talks/nope").status_code == 404
    for turn in ("nope", "", "SES-12345678"):
        assert browser.get(f"/bus/diagram?turn={turn}").status_code == 400, turn
    assert browser.get("/sessions/SES-00000000.json").status_code == 404
