"""A console of a home at rest whose record a simulated cluster wrote, called in process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import jinja2

from bench.builders import shipped_snapshot
from hobus.launch.cli.web.app import Console
from hobus.launch.cli.web.people import People
from hobus.launch.cli.web.screens import ACTIONS, PAGES, STREAMS
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import is_about
from hobus.launch.lab.simulated import write_out
from tests.simulated import SimulatedCluster

BASE = "http://127.0.0.1:8000"


class Compiled(jinja2.BytecodeCache):
    """What the templates of one console compile to, for all those of a test process: half of what a page costs."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        bucket.code = self._kept.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._kept[bucket.key, bucket.checksum] = bucket.code


COMPILED = Compiled()


def recorded(root: Path, messages: Sequence[str], **cluster: Any) -> None:
    with SimulatedCluster(cluster.pop("snapshot", None) or shipped_snapshot(), **cluster) as made:
        session = None
        for number, text in enumerate(messages):
            session = made.ask(text, input_id=f"in-{number}", session_id=session).session_id
        made.entries()  # what nobody waits for is written, too
        (root / "ledger").mkdir(parents=True)
        write_out(made.world.media["ledger"], root / "ledger")


class Browser:
    def __init__(self, root: Path, role: str | None = "operator", *, at_rest: bool = True, url: str = "") -> None:
        self.source = HomeSource(make_home(root), at_rest=at_rest)
        self.people = People(self.source.clock)
        self.console = Console(self.source, self.people, "c", PAGES, ACTIONS, STREAMS, url)
        self.cookies: dict[str, str] = {}
        if role:
            answer = self.get(f"/sign-in?word={self.people.invite('ada', role)}")
            self.cookies = {"c": answer.headers["set-cookie"].partition(";")[0].partition("=")[2]}

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        async def asked() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.console)
            is_about(self.source.home.root)
            cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            headers = ({"cookie": cookie} if cookie else {}) | more.pop("headers", {})
            async with httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
                return await client.request(method, path, **more)

        self.source.forget()  # its reads belong to a loop that is over
        return asyncio.run(asked())

    def get(self, path: str, **more: Any) -> httpx2.Response:
        return self.request("GET", path, **more)

    def twin(self, path: str) -> dict[str, Any]:
        """The document of a JSON twin, without the last entry that every one names."""
        document = self.get(path).json()
        assert isinstance(document.pop("head"), int)
        return document

    def post(self, path: str, *, csrf: bool = True, **form: str) -> httpx2.Response:
        person = self.people.of(self.cookies.get("c", ""))
        token = {"csrf": person.csrf} if csrf and person is not None else {}
        return self.request("POST", path, data={**token, **form})


def foot_of(page: str) -> str:
    """The command in the foot, as a shell gets it."""
    return unescape(page.partition('<footer id="foot"')[2].partition("<code>")[2].partition("</code>")[0])


def words_in(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
