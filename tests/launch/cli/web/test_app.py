"""Who may look at the console, and what every answer of it has."""

from __future__ import annotations

import re

import pytest

from hobus.launch.cli.web.screens import ACTIONS, PAGES
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.console.errors import UnreachableFault
from tests.launch.cli.web.pages import Browser, words_in

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
    page = browser.get(path)
    assert page.status_code == 200, words_in(page.text)
    words = words_in(page.text)
    assert "From the record up to #" in words and " hobus " in words
    twin = page.text.partition('">JSON</a>')[0].rpartition('href="')[2]
    answer = browser.get(twin)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json(), dict)


@pytest.mark.parametrize("path", [*OF_A_CLUSTER, "/bus/capture.tap"])
def test_what_only_a_cluster_knows_is_said_to_need_one(rested, path):
    """At rest, and where none runs: 503, in words, and never a defect."""
    for at_rest in (True, False):
        answer = Browser(rested, at_rest=at_rest).get(f"{path}?turn=SES-12345678-1")
        assert answer.status_code == 503 and "defect" not in answer.text
        assert "cluster" in words_in(answer.text)


TEXTS = ("/sessions/{}", "/sessions/{}/turns/1", "/diff?before={}-1&after={}-2", "/record?words=packages", "/record/{}")


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
    command = re.search("<code>hobus (.*?)</code>", shown.text)[1]
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
    assert browser.get("/nothing").status_code == 404
    assert browser.get("/sessions/SES-00000000.json").status_code == 404
