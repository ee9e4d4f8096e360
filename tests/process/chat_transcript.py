"""The conversation on the page docs/chat.md, held anew: `python -m tests.process.chat_transcript --write` writes it there."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from bench.cluster import Cluster, cluster_in
from hobus.launch.console.errors import DEFAULT_HOME
from tests.architecture.source import ROOT
from tests.process.pseudo_terminal import typing

PAGE = ROOT / "docs" / "chat.md"
BLOCK = re.compile(r"(<!-- transcript -->\n```console\n)(.*?)(```\n)", re.DOTALL)
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def conversation(cluster: Cluster) -> str:
    own = {"HOBUS_HOME": ""}  # as whoever stands beside the home of his cluster and names none
    with typing("chat", columns=100, rows=40, env=own, cwd=cluster.home.root.parent) as chat:
        chat.at_prompt()
        chat.type("is the ledger intact?")
        chat.until(" tokens · ", 1)
        chat.at_prompt()
        chat.type("what did I ask before?")
        chat.until(" tokens · ", 2)
        chat.at_prompt()
        chat.type("/cost")
        chat.until("tokens are left")
        chat.at_prompt()
        chat.type("/session")
        chat.until("hobus chat --session")
        chat.at_prompt()
        chat.type("hello")
        chat.until("Hello again")
        chat.press("c")
        chat.until("/wait fetches it")
        chat.at_prompt()
        chat.type("/wait")
        chat.until(" tokens · ", 3)
        chat.at_prompt()
        chat.type("/bye")
        chat.until("no such command")
        chat.leave()
        lines = ["$ hobus chat", *chat.seen]
    return _IDS.sub(lambda found: f"{found.group()[:8]}-…", "\n".join(lines)) + "\n"


def on_page() -> str:
    found = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, f"{PAGE} has no transcript"
    return found.group(2)


def held(directory: Path) -> str:
    cluster = cluster_in(directory / DEFAULT_HOME)
    cluster.up("--detach", settings={"gateway.providers.offline.latency_ms": 600})
    try:
        return conversation(cluster)
    finally:
        cluster.end()


def write() -> None:
    with tempfile.TemporaryDirectory() as directory:
        said = held(Path(directory))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda found: found.group(1) + said + found.group(3), page), encoding="utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    write()
