"""The console: `python -m bench.console --write` makes the pictures of docs/console.md, `--load` says what it costs.

Pictures need the extra `browser` and a Chromium. The cost is processor time of the cluster's processes for one turn,
alone and while twenty browsers follow four pages and fetch each anew whenever they are told to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx2

from bench.cluster import Cluster, begun, cluster_in, eventually

PICTURES = Path(__file__).parents[1] / "docs" / "images"
QUESTIONS = ("what packages are installed?", "which tools are there?", "how many packages are there?")
WINDOW = {"width": 1120, "height": 600}
SETTINGS = {"tools.approval": ["verify_*"], "gateway.providers.offline.latency_ms": 180}


def played(cluster: Cluster) -> str:
    """The session in which turns were asked, one of which waits for a person."""
    cluster.up(settings=SETTINGS)
    session = cluster.ask(QUESTIONS[0])["session_id"]
    for question in QUESTIONS[1:]:
        cluster.ask(question, "--session", session)
    cluster.start_ask("is the ledger intact?")
    eventually(lambda: any(one["held_calls"] for one in cluster("session list", "--json").json["sessions"]))
    return session


def write(pictures: Path) -> list[Path]:
    """The files that were written."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the extra

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    pictures.mkdir(exist_ok=True)
    made: list[Path] = []
    with tempfile.TemporaryDirectory() as directory:
        cluster = cluster_in(Path(directory) / ".hobus")
        served = None
        try:
            session = played(cluster)
            served = begun("console", "--home", str(cluster.home.root), "--person", "ada", stdin=subprocess.DEVNULL)
            link = re.search(r"http\S+", served.stdout.readline().decode())[0]
            shots = (
                ("cluster", "light", "/"), ("turn", "light", f"/sessions/{session}/turns/1"), ("approvals", "dark", "/approvals"),
            )  # fmt: skip
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport=WINDOW)
                page.goto(link)
                for name, theme, path in shots:
                    page.emulate_media(color_scheme=theme)
                    page.goto(link.partition("/sign-in")[0] + path)
                    page.evaluate("document.querySelector('.home').textContent = '.hobus'")
                    made.append(pictures / f"console-{name}.png")
                    page.screenshot(path=made[-1])
                browser.close()
        finally:
            if served is not None:
                served.terminate()
                served.communicate()
            cluster.end()
    return made


BROWSERS, TURNS = 20, 60


async def followed(link: str, pages: Sequence[tuple[str, str]], until: asyncio.Event) -> int:
    """How often the browsers fetched a page, until the turns are over."""
    base = link.partition("/sign-in")[0]
    async with httpx2.AsyncClient(base_url=base, timeout=60, limits=httpx2.Limits(max_connections=100)) as client:
        await client.get(link)
        fetched = 0

        async def browse(page: str, of: str) -> None:
            nonlocal fetched
            async with client.stream("GET", f"/live?of={of}") as told:
                async for line in told.aiter_lines():
                    if line == "event: changed":
                        assert (await client.get(page)).status_code == 200
                        fetched += 1

        tasks = [asyncio.create_task(browse(*pages[number % len(pages)])) for number in range(BROWSERS)]
        await until.wait()
        for task in tasks:
            task.cancel()
        failed = [one for one in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(one, Exception)]
        assert not failed, failed
    return fetched


async def turns(cluster: Cluster) -> float:
    """Milliseconds of processor time that all processes of the cluster took for a turn."""
    before = sum(cluster.cpu_s().values())
    for _ in range(TURNS):
        await cluster.turn(QUESTIONS[0], timeout_s=60)
    return 1000 * (sum(cluster.cpu_s().values()) - before) / TURNS


async def load(cluster: Cluster, link: str, session: str) -> dict[str, float]:
    """In turns, so that what grows with the record is in both."""
    pages = (("/", "beats"), ("/sessions", "*"), (f"/sessions/{session}", session), ("/record", "*"))
    alone, watched, fetched = list[float](), list[float](), 0
    for _ in range(3):
        alone.append(await turns(cluster))
        until = asyncio.Event()
        browsers = asyncio.create_task(followed(link, pages, until))
        await asyncio.sleep(1)
        watched.append(await turns(cluster))
        until.set()
        fetched += await browsers
    one, other = min(alone), min(watched)
    return {"alone_ms": one, "watched_ms": other, "more_percent": 100 * (other / one - 1), "pages_fetched": fetched}


def measured() -> dict[str, float]:
    """What `load` finds on a cluster of its own."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = cluster_in(Path(directory) / ".hobus")
        served = None
        try:
            cluster.up()
            session = cluster.ask(QUESTIONS[0])["session_id"]
            served = begun("console", "--home", str(cluster.home.root), stdin=subprocess.DEVNULL)
            link = re.search(r"http\S+", served.stdout.readline().decode())[0]
            return asyncio.run(load(cluster, link, session))
        finally:
            if served is not None:
                served.terminate()
                served.communicate()
            cluster.end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pictures into docs/images")
    parser.add_argument("--load", action="store_true", help="measure what twenty browsers cost the cluster")
    given = parser.parse_args()
    if given.load:
        print(json.dumps({name: round(value, 2) for name, value in measured().items()}, indent=1))
    elif given.write:
        for path in write(PICTURES):
            print(f"{path.relative_to(PICTURES.parents[1])}  {path.stat().st_size:,} bytes")
    else:
        parser.print_help()
