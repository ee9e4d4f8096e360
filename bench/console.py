"""The console: `python -m bench.console --write` makes the pictures of docs/console.md, `--load` and `--pages` measure.

Pictures need the extra `browser` and a Chromium. `--load`: processor time for one turn, of the cluster's processes alone,
and of these and the console's while twenty browsers follow four pages and fetch each anew whenever they are told to, one
of them of a session whose turns these are. The cluster is given as many turns as it can do: what a turn costs more is what
is lost of its turns per second. It is counted, since other users of a machine, and the browsers, move the turns per second
more than what is looked for. `--pages`: how long each screen takes, on a record of `--entries` and a session of `--turns`
(`bench.console_record`), which is made where `--home` has none yet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import mean, median

import httpx2
import psutil

from bench.cluster import Cluster, begun, cluster_in, cpu_s_of, eventually, temporary
from bench.console_record import PATIENT, make
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.reader import find_head

PICTURES = Path(__file__).parents[1] / "docs" / "images"
QUESTIONS = ("what packages are installed?", "which tools are there?", "how many packages are there?")
WINDOW = {"width": 1120, "height": 600}
SETTINGS = {"tools.approval": ["verify_*"], "gateway.providers.offline.latency_ms": 180}


@contextmanager
def served(cluster: Cluster, *words: str) -> Iterator[tuple[psutil.Process, str]]:
    """The console of this cluster, and the link that signs in; it and the cluster are gone afterwards."""
    root = cluster.home.root  # beside it the commands of its pages need not name it
    console = begun("console", "--home", str(root), *words, stdin=subprocess.DEVNULL, cwd=root.parent)
    try:
        yield psutil.Process(console.pid), re.search(r"http\S+", console.stdout.readline().decode())[0]
    finally:
        console.terminate()
        console.communicate()


@contextmanager
def a_cluster(home: Path | None = None) -> Iterator[Cluster]:
    with temporary("console") as directory:
        cluster = cluster_in(home or directory / ".hobus")
        try:
            yield cluster
        finally:
            cluster.end()


def write(pictures: Path) -> list[Path]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the extra

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    pictures.mkdir(exist_ok=True)
    made: list[Path] = []
    with a_cluster() as cluster:
        cluster.up(settings=SETTINGS)
        session = cluster.ask(QUESTIONS[0])["session_id"]
        for question in QUESTIONS[1:]:
            cluster.ask(question, "--session", session)
        cluster.start_ask("is the ledger intact?")  # which waits for a person
        eventually(lambda: any(one["held_calls"] for one in cluster("session list", "--json").json["sessions"]))
        shots = (
            ("cluster", "light", "/"), ("turn", "light", f"/sessions/{session}/turns/1"), ("approvals", "dark", "/approvals"),
        )  # fmt: skip
        with served(cluster, "--person", "ada") as (_, link), sync_playwright() as driver:
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
    return made


BROWSERS = 20
WINDOW_S, LANES = 16.0, 8
"""Of turns alone and of turns watched, one after the other; turns at once, an eighth of them in one session."""
SETTLE_S = 8.0
"""After twenty browsers opened their pages at once, which people do not."""
START_S = 900.0
"""The first start on a record that was copied reads every prompt and signal of it."""


async def followed(base: str, cookies: httpx2.Cookies, pages: Sequence[tuple[str, str]], until: asyncio.Event) -> int:
    """How often the browsers fetched a page, until the turns are over."""
    bounds = httpx2.Limits(max_connections=100)
    async with httpx2.AsyncClient(base_url=base, cookies=cookies, timeout=60, limits=bounds) as client:
        fetched = 0

        async def browse(page: str, of: str) -> None:
            nonlocal fetched
            async with client.stream("GET", f"/live?of={of}") as told:
                assert told.status_code == 200, told
                async for line in told.aiter_lines():
                    if line == "event: changed":
                        answer = await client.get(page)
                        assert answer.status_code == 200, (page, answer.text)
                        fetched += 1

        tasks = [asyncio.create_task(browse(*pages[number % len(pages)])) for number in range(BROWSERS)]
        await until.wait()
        for task in tasks:
            task.cancel()
        failed = [one for one in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(one, Exception)]
        assert not failed, failed
    return fetched


async def turns(cluster: Cluster, session: str, *more: psutil.Process) -> tuple[float, float]:
    """Milliseconds of processor time for a turn, of the cluster's processes and of `more`; and how many turns."""
    async with connect_bus(cluster.place, "door") as door:

        async def lane(number: int) -> int:
            count = 0
            while time.perf_counter() < until:
                count += 1
                turn = ProcessTurn(session_id=None if number else session, input_id=door.new_id(), text=QUESTIONS[0])
                result = await door.request("host", turn, expect=TurnResult, timeout_s=60)
                assert result.outcome == "success", result
            return count

        counted = [*cluster.processes.values(), *more]
        before, until = cpu_s_of(counted), time.perf_counter() + WINDOW_S
        count = sum(await asyncio.gather(*map(lane, range(LANES))))
        return 1000 * (cpu_s_of(counted) - before) / count, count


async def load(cluster: Cluster, console: psutil.Process, link: str, session: str, windows: int) -> dict[str, float]:
    """In windows alone, watched, watched, alone, …, so that what grows with the record is in both alike."""
    pages = (("/", "beats"), ("/sessions", "*"), (f"/sessions/{session}", session), ("/record", "*"))
    base, cookies = link.partition("/sign-in")[0], httpx2.get(link).cookies
    took: dict[bool, list[float]] = {False: [], True: []}
    rates: dict[bool, list[float]] = {False: [], True: []}
    of_console = list[float]()
    await turns(cluster, session)

    async def measure(*, is_watched: bool) -> None:
        before = cpu_s_of([console])
        took_ms, count = await turns(cluster, session, *([console] if is_watched else []))
        took[is_watched].append(took_ms)
        rates[is_watched].append(count / WINDOW_S)
        of_console.extend([1000 * (cpu_s_of([console]) - before) / count] if is_watched else [])
        said = f"{'watched' if is_watched else 'alone'} {took_ms:.2f} ms a turn, {rates[is_watched][-1]:.1f} a second"
        print(said, file=sys.stderr)

    fetched, took_s = 0, 0.0
    for _ in range((windows + 1) // 2):
        await measure(is_watched=False)
        until, begun_at = asyncio.Event(), time.perf_counter()
        browsers = asyncio.create_task(followed(base, cookies, pages, until))
        await asyncio.sleep(SETTLE_S)
        await measure(is_watched=True)
        await measure(is_watched=True)
        until.set()
        fetched += await browsers
        took_s += time.perf_counter() - begun_at
        await measure(is_watched=False)
    return compared(took[False], took[True]) | {
        "of_it_console_ms": mean(of_console), "turns_per_second_alone": median(rates[False]),
        "turns_per_second_watched": median(rates[True]), "pages_per_second": fetched / took_s,
    }  # fmt: skip


def compared(alone: Sequence[float], watched: Sequence[float]) -> dict[str, float]:
    """Means, and between what the difference lies with 95 % (neighbouring windows drawn anew, 10,000 times), in percent."""
    drawn, dice, pairs = list[float](), Random(0), list(zip(alone, watched, strict=True))
    for _ in range(10_000):
        one, other = map(sum, zip(*dice.choices(pairs, k=len(pairs)), strict=True))
        drawn.append(100 * (other / one - 1))
    drawn.sort()
    return {
        "alone_ms": mean(alone), "watched_ms": mean(watched), "more_percent": 100 * (mean(watched) / mean(alone) - 1),
        "more_percent_median": median(100 * (other / one - 1) for one, other in pairs),
        "at_least_percent": drawn[len(drawn) * 25 // 1000], "at_most_percent": drawn[len(drawn) * 975 // 1000],
    }  # fmt: skip


def measured(windows: int) -> dict[str, float]:
    """What `load` finds on a cluster of its own."""
    with a_cluster() as cluster:
        cluster.up()
        session = cluster.ask(QUESTIONS[0])["session_id"]
        with served(cluster) as (console, link):
            return asyncio.run(load(cluster, console, link, session, windows))


def screens(session: str, turns: int) -> dict[str, str]:
    """The first page of each, and pages from the middle of the long session."""
    middle = max(1, turns // 2)
    return {
        "cluster": "/", "approvals": "/approvals", "sessions": "/sessions", "sessions, failed": "/sessions?outcome=failed",
        "session": f"/sessions/{session}", "its last turn": f"/sessions/{session}/turns/{turns}",
        "a turn amid it": f"/sessions/{session}/turns/{middle}",
        "two turns": f"/diff?before={session}-{middle}&after={session}-{turns}", "record": "/record",
        "record, filtered": "/record?filter=type=RunCompleted", "record, searched": "/record?words=packages",
        "an entry": "/record/1000", "bus": "/bus", "gateway": "/gateway", "memory": "/memory", "tools": "/tools",
        "configuration": "/config",
    }  # fmt: skip


def timed(process: psutil.Process, link: str, session: str, turns: int, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each screen, none answered by what was read for another request; and of the console's processor."""
    found: dict[str, dict[str, float]] = {}
    with httpx2.Client(base_url=link.partition("/sign-in")[0], timeout=120) as client:
        client.get(link)
        for name, path in screens(session, turns).items():
            took, cpu_before = list[float](), sum(process.cpu_times()[:2])
            for number in range(rounds):
                begun_at = time.perf_counter()
                answer = client.get(f"{path}{'&' if '?' in path else '?'}round={number}")
                took.append(1000 * (time.perf_counter() - begun_at))
                assert answer.status_code == 200, (path, answer.text)
            cpu_ms = 1000 * (sum(process.cpu_times()[:2]) - cpu_before) / rounds
            took.sort()
            found[name] = {"p50": took[rounds // 2], "p95": took[min(rounds - 1, rounds * 95 // 100)], "cpu_ms": cpu_ms}
    return found


def paged(home: Path | None, entries: int, turns: int, rounds: int) -> tuple[int, dict[str, dict[str, float]]]:
    """Entries of the record, which is kept in `home` with the session's id beside it, and `timed` of its screens."""
    with a_cluster(home) as cluster:
        cluster.timeout_s = START_S
        root = cluster.home.root
        named = root.with_name(f"{root.name}.session")
        if not named.exists():
            named.write_text(make(cluster, entries=entries, turns=turns))
            assert cluster("down").code == 0
        cluster.up(settings=PATIENT)
        with served(cluster) as (console, link):
            return find_head(root / "ledger") + 1, timed(console, link, named.read_text(), turns, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pictures into docs/images")
    parser.add_argument("--load", action="store_true", help="measure what twenty browsers cost the cluster")
    parser.add_argument("--pages", action="store_true", help="measure how long each screen takes")
    parser.add_argument("--home", type=Path, help="keep the record of --pages here")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5_000, help="of the long session")
    parser.add_argument("--rounds", type=int, default=20, help="of each screen; windows, 6 take four minutes")
    given = parser.parse_args()
    if given.load:
        print(json.dumps({name: round(value, 2) for name, value in measured(given.rounds).items()}, indent=1))
    elif given.pages:
        count, found = paged(given.home, given.entries, given.turns, given.rounds)
        print(f"{count:,} entries, a session of {given.turns:,} turns; milliseconds")
        for screen, row in found.items():
            print(f"{screen:20} p50 {row['p50']:7.0f}  p95 {row['p95']:7.0f}  console's processor {row['cpu_ms']:7.0f}")
    elif given.write:
        for path in write(PICTURES):
            print(f"{path.relative_to(PICTURES.parents[1])}  {path.stat().st_size:,} bytes")
    else:
        parser.print_help()
