"""The console: `python -m bench.console --write` makes the pictures of docs/console.md, `--load` and `--pages` measure.

Pictures need the extra `browser` and a Chromium. `--load`: processor time for one turn, of the cluster's processes alone,
and of these and the console's while twenty browsers follow four pages and fetch each anew whenever they are told to. The
cluster is given as many turns as it can do: what a turn costs more is what is lost of its turns per second. It is counted,
since other users of a machine, and the browsers, move the turns per second more than what is looked for. `--pages`: how
long each screen takes, on a record of `--entries` and a session of `--turns`, which are made by taking turns (a million
entries in ten minutes) where `--home` has none yet.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx2
import psutil

from bench.cluster import Cluster, begun, cluster_in, cpu_s_of, eventually, head_of, temporary
from bench.report import arguments, percentile, rows_table, say
from bench.turn import ROWS, ask, talk
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.reader import find_head

PICTURES = Path(__file__).parents[1] / "docs" / "images"
QUESTIONS = ("what packages are installed?", "which tools are there?", "how many packages are there?")
WINDOW = {"width": 1120, "height": 600}
SETTINGS = {"tools.approval": ["verify_*"], "gateway.providers.offline.latency_ms": 180}
BROWSERS = 20
WINDOW_S, LANES = 16.0, 8
"""Of turns alone and of turns watched, one after the other; turns at once, an eighth of them in one session."""
SETTLE_S = 8.0  # after twenty browsers opened their pages at once, which people do not
START_S = 900.0
PATIENT = {"launcher.ready_timeout_ms": 600_000}  # a start reads every prompt and signal of the record
SESSIONS, TURNS_EACH, ENTRIES_PER_TURN = 32, 10, 13


@contextmanager
def served(cluster: Cluster, *words: str) -> Iterator[tuple[psutil.Process, str]]:
    """The console of this cluster, and the link that signs in; gone afterwards."""
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


def write(pictures: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the extra

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    pictures.mkdir(exist_ok=True)
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
                page.screenshot(path=pictures / f"console-{name}.png")
            browser.close()


async def followed(link: str, pages: Sequence[tuple[str, str]], until: asyncio.Event) -> int:
    """How often the browsers fetched a page, until the turns are over."""
    bounds, fetched = httpx2.Limits(max_connections=100), 0
    async with httpx2.AsyncClient(base_url=link.partition("/sign-in")[0], timeout=60, limits=bounds) as client:
        await client.get(link)

        async def browse(page: str, of: str) -> None:
            nonlocal fetched
            async with client.stream("GET", f"/live?of={of}") as told:
                async for line in told.aiter_lines():
                    if line == "event: changed":
                        (await client.get(page)).raise_for_status()
                        fetched += 1

        tasks = [asyncio.create_task(browse(*pages[number % len(pages)])) for number in range(BROWSERS)]
        await until.wait()
        for task in tasks:
            task.cancel()
        failed = [one for one in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(one, Exception)]
        assert not failed, failed
    return fetched


async def turns(cluster: Cluster, session: str, *more: psutil.Process) -> tuple[float, float]:
    """Milliseconds of processor time for a turn, of the cluster's processes and of `more`; and turns per second."""
    async with connect_bus(cluster.place, "door") as door:

        async def lane(number: int) -> int:
            count = 0
            while time.perf_counter() < until:
                await ask(door, None if number else session)
                count += 1
            return count

        counted = [*cluster.processes.values(), *more]
        before, until = cpu_s_of(counted), time.perf_counter() + WINDOW_S
        count = sum(await asyncio.gather(*map(lane, range(LANES))))
        return 1000 * (cpu_s_of(counted) - before) / count, count / WINDOW_S


async def load(cluster: Cluster, console: psutil.Process, link: str, session: str, windows: int) -> dict[str, float]:
    """Medians of windows alone and watched, in turns that are reversed each time: what grows with the record is in both alike."""
    pages = (("/", "beats"), ("/sessions", "*"), (f"/sessions/{session}", session), ("/record", "*"))
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    of_console, fetched, took_s = list[float](), 0, 0.0
    await turns(cluster, session)
    for number in range(windows):
        for is_watched in (False, True) if number % 2 == 0 else (True, False):
            if not is_watched:
                took[False].append(await turns(cluster, session))
                continue
            until, begun_at = asyncio.Event(), time.perf_counter()
            browsers = asyncio.create_task(followed(link, pages, until))
            await asyncio.sleep(SETTLE_S)
            before = cpu_s_of([console])
            took[True].append(await turns(cluster, session, console))
            of_console.append(1000 * (cpu_s_of([console]) - before) / took[True][-1][1] / WINDOW_S)
            until.set()
            fetched += await browsers
            took_s += time.perf_counter() - begun_at
    more = [100 * (watched / alone - 1) for (alone, _), (watched, _) in zip(took[False], took[True], strict=True)]
    (alone_ms, alone_rate), (watched_ms, watched_rate) = (map(median, zip(*took[one], strict=True)) for one in took)
    return {
        "alone_ms": alone_ms, "watched_ms": watched_ms, "more_percent": median(more), "at_least_percent": min(more),
        "at_most_percent": max(more), "of_it_console_ms": median(of_console), "turns_per_second_alone": alone_rate,
        "turns_per_second_watched": watched_rate, "pages_per_second": fetched / took_s,
    }  # fmt: skip


def loaded(windows: int) -> None:
    """What `load` finds on a cluster of its own."""
    with a_cluster() as cluster:
        cluster.up()
        session = cluster.ask(QUESTIONS[0])["session_id"]
        with served(cluster) as (console, link):
            found = asyncio.run(load(cluster, console, link, session, windows))
    say({name: round(value, 2) for name, value in found.items()})


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


def timed(process: psutil.Process, link: str, session: str, turns: int, rounds: int) -> Iterator[dict[str, object]]:
    """Milliseconds of each screen, none answered by what was read for another request; and of the console's processor."""
    with httpx2.Client(base_url=link.partition("/sign-in")[0], timeout=120) as client:
        client.get(link)
        for name, path in screens(session, turns).items():
            took, cpu_before = list[float](), sum(process.cpu_times()[:2])
            for number in range(rounds):
                begun_at = time.perf_counter()
                client.get(f"{path}{'&' if '?' in path else '?'}round={number}").raise_for_status()
                took.append(1000 * (time.perf_counter() - begun_at))
            cpu_ms = 1000 * (sum(process.cpu_times()[:2]) - cpu_before) / rounds
            p50, p95 = (round(percentile(took, percent)) for percent in (50, 95))
            yield {"screen": name, "p50 ms": p50, "p95 ms": p95, "console's processor, ms": round(cpu_ms)}


async def taken(cluster: Cluster, *, entries: int = 0, turns: int = 1) -> str:
    """Short sessions, many at once, until the record has so many entries; then one of so many turns, by its id."""
    async with connect_bus(cluster.place, "door") as door, connect_bus(cluster.place, "operator") as operator:
        while await head_of(operator) < entries:
            await asyncio.gather(*(talk(door, None, TURNS_EACH) for _ in range(SESSIONS)))
        return (await talk(door, None, turns))[0]


def paged(home: Path | None, entries: int, turns: int, rounds: int) -> None:
    """`timed` of the screens on a record that is kept in `home`, with the id of its long session beside it."""
    with a_cluster(home) as cluster:
        cluster.timeout_s = START_S
        root = cluster.home.root
        named = root.with_name(f"{root.name}.session")
        if not named.exists():
            cluster.up()
            asyncio.run(taken(cluster, entries=entries - turns * ENTRIES_PER_TURN))
            assert cluster("down").code == 0
            cluster.up(settings=PATIENT | ROWS[0][1])
            named.write_text(asyncio.run(taken(cluster, turns=turns)))
            assert cluster("down").code == 0
        cluster.up(settings=PATIENT)
        with served(cluster) as (console, link):
            print(f"{find_head(root / 'ledger') + 1:,} entries, a session of {turns:,} turns")
            print(rows_table(list(timed(console, link, named.read_text(), turns, rounds))))


if __name__ == "__main__":
    parser = arguments(
        __doc__, load=(False, "measure what twenty browsers cost the cluster"), entries=1_000_000,
        pages=(False, "measure how long each screen takes"), home=("", "keep the record of --pages here"),
        turns=(5_000, "of the long session"), rounds=(20, "of each screen; windows, 6 take four minutes"),
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="write the pictures into docs/images")
    given = parser.parse_args()
    if given.load:
        loaded(given.rounds)
    elif given.pages:
        paged(Path(given.home) if given.home else None, given.entries, given.turns, given.rounds)
    elif given.write:
        write(PICTURES)
    else:
        parser.print_help()
