"""What models, tools and users wrote is text in every page, whatever it looks like."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.work_order import ToolCall
from hobus.launch.cli.web import app
from hobus.ledger_service.reader import read_entries
from tests.launch.cli.web.pages import Browser, recorded, words_in
from tests.simulation.test_caller_tools import Scripted, call

CORPUS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</pre></textarea></title><iframe src=javascript:alert(1)>",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "javascript:alert(1)//<a href='javascript:alert(1)'>x</a>",
    "<!-- --!> <base href=//evil.example/><meta http-equiv=refresh content='0;url=//evil.example'>",
    "\u202e<b>backwards</b>\u2028\x00\x1b[31m",
)


class _Markup(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.faults: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            said = (value or "").strip().lower()
            if (
                name.startswith("on")
                or name == "style"
                or (name in ("href", "src", "action") and not said.startswith(("/", "?", "#")))
            ):
                self.faults.append(f"{tag} {name}={value}")
            if tag == "script" and (name, value) not in (("src", "/static/console.js"), ("defer", None)):
                self.faults.append(f"script {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all of it was said: by people, in arguments and results of tools, by a model and a provider."""
    root = tmp_path_factory.mktemp("hostile") / "home"
    recorded(root, CORPUS, providers={"offline": Scripted(_hostile)})
    return root


def _hostile(prompt: Prompt) -> list[ToolCall] | str:
    """A call with everything of it in its arguments, and then the same as an answer; the last message meets a fault."""
    whole = "\n".join(CORPUS)
    if any(CORPUS[-1][:8] in message.text for message in prompt.messages[-1:]):
        raise GatewayError("PROVIDER_ERROR", f"the provider said: {CORPUS[0]} {CORPUS[1]}", retryable=False)
    if any(message.role == "tool" for message in prompt.messages[-1:]):
        return whole
    return [
        call(1, "search", query=whole),
        call(2, "read_file", path=CORPUS[1]),
        call(3, "no_such_<b>tool", x=CORPUS[0]),
    ]


@pytest.mark.slow
def test_a_hostile_text_is_a_text_in_every_page(hostile):
    """No tag, no attribute and no address comes from what was said, and what was said is there to be read."""
    browser = Browser(hostile)
    session = browser.get("/sessions.json").json()["sessions"][0]["session_id"]
    turns = [f"/sessions/{session}/turns/{number + 1}" for number in range(len(CORPUS))]
    beside = f"/diff?before={session}-1&after={session}-2"
    filtered = "/sessions?agent=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&words=%3Cimg%20src=x%20onerror=alert(1)%3E"
    found = [
        "/record",
        "/record?words=alert",
        "/record?filter=%22%3Cimg%3E",
        "/gateway?by=agent,session",
        "/config?setting=%3Cb%3E",
    ]
    record = list(read_entries(hostile / "ledger"))
    of_types = [{one.event_type: one.sequence for one in way} for way in (record, reversed(record))]  # last and first
    entries = [f"/record/{number}" for of_type in of_types for number in of_type.values()]
    for path in (
        "/",
        "/approvals",
        "/sessions",
        *found,
        *entries,
        filtered,
        f"/sessions/{session}?limit=50",
        *turns,
        beside,
    ):
        markup = _Markup(browser.get(path).text)
        assert markup.faults == [], path
        assert not markup.tags & {"img", "iframe", "base", "object", "embed", "b"} - {"b"}, path
        assert "\u202e" not in markup.text, path
    page = _Markup(browser.get(f"/sessions/{session}?limit=50").text)
    for said in CORPUS[:6]:
        assert said in page.text
    assert "{{ 7 * 7 }}" in page.text and r"\u202e<b>backwards</b>" in page.text
    failed = browser.get(f"/sessions/{session}/turns/{len(CORPUS)}").text
    assert (
        "What failed" in failed and "PROVIDER_ERROR" in failed and f"the provider said: {CORPUS[0]}" in words_in(failed)
    )
    assert failed.count("the provider said") < failed.count("PROVIDER_ERROR"), (
        "words that were said before are not said again"
    )


def test_a_hostile_address_is_a_text_too(hostile):
    """Paths and queries come back in what is said of them."""
    browser = Browser(hostile)
    for path in (
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/sessions/%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/diff?before=%3Csvg/onload=1%3E&after=x",
    ):
        markup = _Markup(browser.get(path).text)
        assert markup.faults == [] and not markup.tags & {"img"}
        assert (
            browser.get(path.replace("?", ".json?") if "?" in path else f"{path}.json").headers["content-type"]
            == "application/json"
        )


def test_no_template_lets_a_value_out_unescaped():
    """Nothing is marked safe, and every attribute with a value in it is quoted."""
    templates = sorted((Path(app.__file__).parent / "templates").glob("*.html"))
    assert len(templates) > 5
    for path in templates:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup|<script>|<style| style=| on\w+=", text), path
        assert not re.search(r"\s[\w-]+=\{", re.sub(r"\{%.*?%\}", "", text)), path
