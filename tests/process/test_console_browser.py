"""The console in a real browser; skipped where Playwright (extra `browser`) or a Chromium is not installed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from bench.cluster import Cluster
from tests.launch.cli.web.test_inert import CORPUS
from tests.process.test_console import Served

playwright = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[browser]'")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.process, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

QUESTION = "what packages are installed?"
ANSWER = "packages are installed:"
SLOW = {"gateway.providers.offline.latency_ms": 700, "tools.approval": ["verify_*"], "ho3.enabled": False}
WATCH = """new MutationObserver(() => {
  const answer = document.querySelector(".answer");
  if (answer && answer.textContent) sessionStorage.setItem("answer", answer.textContent);
}).observe(document, { subtree: true, childList: true, characterData: true });"""
"""An answer that is written stands there for a moment only, until the page is made anew."""
SCREENS = (
    "/",
    "/approvals",
    "/sessions",
    "/record",
    "/record/5",
    "/record/verify",
    "/gateway",
    "/tools",
    "/config",
    "/bus",
    "/diff",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Seen:
    def __init__(self, browser, cluster: Cluster, **context) -> None:
        self.served = Served.__new__(Served)
        self.served.start(cluster)
        self.base = self.served.link.partition("/sign-in")[0]
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.asked: list[str] = []
        self.faults: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.faults.append(dialog.message), dialog.dismiss()))
        self.page.on(
            "console", lambda said: self.faults.append(said.text) if "Content Security Policy" in said.text else None
        )
        self.page.add_init_script(WATCH)
        self.page.goto(self.served.link)

    def goto(self, path: str) -> None:
        self.page.goto(self.base + path)

    def sees(self, text: str) -> None:
        """The text comes into sight without a reload."""
        self.page.get_by_text(text).first.wait_for()

    def end(self) -> None:
        """Nothing failed, nothing ran that was only said, and nothing was asked of anybody else."""
        self.context.close()
        self.served.end()
        assert self.faults == []
        assert [url for url in self.asked if not url.startswith(f"{self.base}/")] == []


@pytest.fixture
def look(chromium, cluster):
    made: list[Seen] = []

    def seen(**context) -> Seen:
        made.append(Seen(chromium, cluster, **context))
        return made[-1]

    yield seen
    for one in made:
        one.end()


def test_a_turn_is_watched_to_its_end_a_call_approved_and_a_run_cancelled(cluster, look):
    """By a message typed, pieces seen, the inbox, and the buttons; nothing is loaded anew by hand."""
    cluster.up(settings=SLOW)
    seen = look()
    page = seen.page
    seen.goto("/sessions")
    page.get_by_text("Begin a session").click()
    page.fill("textarea", QUESTION)
    page.get_by_role("button", name="Send").click()
    seen.sees("running")
    page.locator("article .badge", has_text="success").wait_for()
    assert ANSWER in page.evaluate("sessionStorage.getItem('answer')"), "it was seen while it was written"
    page.fill("#message", "is the ledger intact?")
    page.get_by_role("button", name="Send").click()
    seen.sees("Waits for approval")
    inbox = look()
    inbox.goto("/approvals")
    inbox.page.get_by_role("button", name="Approve").click()
    inbox.sees("Approve: applied")
    inbox.sees("No call waits for a person.")
    seen.sees("The ledger is intact")
    page.fill("#message", "is the ledger intact?")
    page.get_by_role("button", name="Send").click()
    seen.sees("Waits for approval")  # so that it is not over before it is cancelled
    cancel = page.locator("form", has=page.get_by_role("button", name="Cancel"))
    cancel.get_by_placeholder("Why").fill("too slow")
    cancel.get_by_role("button").click()
    page.locator("article .badge", has_text="cancelled").wait_for()
    page.locator("article", has_text="too slow").wait_for()
    page.get_by_role("link", name="2", exact=True).click()
    seen.sees("Calls that needed an approval")
    assert page.locator(".waterfall rect.wait").count() == 1
    cluster.verify()


def test_the_page_goes_on_when_a_supervisor_dies_and_when_the_cluster_stops(cluster, look):
    """SIGKILL of HO2 while a turn is watched: it is answered; stopped and started, the page says so and comes back."""
    cluster.up(settings=SLOW)
    seen = look()
    seen.goto("/sessions")
    seen.page.get_by_text("Begin a session").click()
    seen.page.fill("textarea", QUESTION)
    seen.page.get_by_role("button", name="Send").click()
    seen.sees("running")
    cluster.kill("ho2/1")
    seen.page.locator("article .badge", has_text="success").wait_for()
    watch = look()
    watch.sees("broker/1")
    watch.page.locator("tr", has_text="ho2/1").locator("td.loud", has_text="1").wait_for()
    assert cluster("down").code == 0
    watch.sees("No cluster runs here")
    seen.goto("/sessions")
    seen.page.locator("a.id").first.wait_for()
    cluster.up()
    watch.sees("broker/1")
    cluster.verify()


@pytest.mark.parametrize(("theme", "widths"), [("light", (320, 1280, 1920)), ("dark", (1280,))])
def test_every_screen_fits_its_window_can_be_read_and_runs_nothing_that_was_said(cluster, look, theme, widths):
    """From 320 to 1920 pixels; judged by axe where that is installed; hostile messages in all of them."""
    cluster.up()
    session = None
    for text in CORPUS[:4]:
        session = cluster.ask(text, *(("--session", session) if session else ()))["session_id"]
    seen = look(color_scheme=theme)
    paths = [
        *SCREENS,
        "/memory",
        f"/sessions/{session}",
        f"/sessions/{session}/turns/1",
        f"/bus/diagram?turn=SES-{session[:8]}-1",
    ]
    for width in widths:
        seen.page.set_viewport_size({"width": width, "height": 800})
        wide = []
        for path in paths:
            seen.goto(path)
            over = seen.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            wide += [(path, over)] if over > 0 else []
            if width == 1280:
                assert violations(seen.page) == [], path
        assert wide == [], width
    seen.goto("/sessions")
    seen.page.keyboard.press("Tab")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url("**/sessions#main")  # the first key leads to the content


def violations(page) -> list[str]:
    try:
        from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - of the extra `browser`
    except ImportError:
        return []
    page.wait_for_timeout(100)
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def test_the_doors_first_page_leads_on_who_came_by_this_machines_name(chromium, cluster):
    """A browser elsewhere, which a proxy of this machine lets in, is not sent to its own machine."""
    up = cluster.up("--http", "127.0.0.1:0", settings={"http.hosts": ["proxy.example"]})
    link = re.search(r"console: (http\S+)", up.out)[1]
    console, port = link.partition("sign-in")[0], cluster.home.bound(http=True).rpartition(":")[2]
    rules = "--host-resolver-rules=MAP proxy.example 127.0.0.1"
    other = chromium.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
    try:
        page = other.new_page()
        page.goto(link)
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_url(console)
        page.get_by_text("broker/1").first.wait_for()
        page.goto(f"http://proxy.example:{port}/")
        page.get_by_role("link", name=console).wait_for()
        page.wait_for_timeout(300)
        assert page.url == f"http://proxy.example:{port}/"
    finally:
        other.close()
