"""The turn on the page docs/steering.md, held anew: `python -m tests.process.steering_transcript --write` writes it there.

One terminal holds the chat, another one acts on its turn; what stands in both is the page.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster_in, eventually
from hobus.launch.console.errors import DEFAULT_HOME
from tests.architecture.source import ROOT
from tests.process.pseudo_terminal import typing

PAGE = ROOT / "docs" / "steering.md"
BLOCK = re.compile(r"(<!-- transcript: (\w+) -->\n```console\n)(.*?)(```\n)", re.DOTALL)
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TYPES = ("HostCommand*", "LifecycleChanged", "TookOver", "RunStarted", "RunCompleted")
QUESTION = "what packages are installed, and is the ledger intact?"
THINKS_MS = 5000
SLOWLY_MS = 25_000
"""On a machine so busy that a command takes longer than that."""
_PATIENT = (("ho2.classify_timeout_ms", 2 * SLOWLY_MS), ("host.turn_timeout_ms", 10 * SLOWLY_MS))


class TooLate(Exception):
    """The model had answered before the words came that were meant for its thinking: this is not the turn meant."""


class Shell:
    """The other terminal: what was typed there, and what came back."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.lines: list[str] = []

    def __call__(self, command: str, *words: str) -> str:
        """One command, which succeeds."""
        answer = self._cluster(command, *words)
        assert answer.code == 0, answer.out + answer.err
        shown = " ".join([command, *(f'"{word}"' if " " in word else word for word in words)])
        home = f" --home {self._cluster.home.root}"
        self.lines += [f"$ hobus {shown}", *(answer.out + answer.err).replace(home, "").splitlines()]
        return answer.out


def turn(cluster: Cluster) -> dict[str, str]:
    """What stands in both terminals after it, ids shortened."""
    shell = Shell(cluster)
    own = {"HOBUS_HOME": ""}  # as whoever stands beside the home of his cluster and names none
    with typing("chat", columns=100, rows=50, env=own, cwd=cluster.home.root.parent) as chat:
        chat.at_prompt()
        chat.type(QUESTION)
        session = eventually(lambda: cluster.entries("RunRequested"))[0].provenance.session_id
        short = f"SES-{session[:8]}"
        # The second model round: it will ask for two tools.
        eventually(lambda: len(cluster.entries("PROMPT_SENT")) > 1)
        try:
            shell("session steer", short, "and which frameworks govern this system?")
            chat.until("somebody steered")
            chat.type("/pause")
            chat.until("the turn is paused")
        finally:
            if not words_came_in_time(cluster):
                raise TooLate
        shell("session list")
        shell("restart --kill", "ho2/1")
        eventually(lambda: len(cluster.entries("TookOver")) > 1)
        chat.until("took the turn over")
        shell("session resume", short)
        chat.until(" tokens · ")
        chat.leave()
        shell("session replay", short)
        shell("ledger show", "--limit", "40", f"session={short} & ({' | '.join(f'type={one}' for one in _TYPES)})")
        shell("ledger verify")
        seen = {"chat": ["$ hobus chat", *chat.seen], "shell": shell.lines}
    return {
        name: _IDS.sub(lambda found: f"{found.group()[:8]}-…", "\n".join(rows)) + "\n" for name, rows in seen.items()
    }


def words_came_in_time(cluster: Cluster) -> bool:
    """Whether the record has the steer and the pause before the second round's answer, which was waited for then."""
    answers, applied = cluster.entries("PROMPT_RECEIVED"), cluster.entries("HostCommandApplied")
    return len(applied) > 1 and (len(answers) < 2 or applied[1].sequence < answers[1].sequence)


def on_page() -> dict[str, str]:
    """Both terminals as the page shows them."""
    found = {match.group(2): match.group(3) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    assert set(found) == {"chat", "shell"}, f"{PAGE} lacks a transcript: it has {sorted(found)}"
    return found


def held_in_time(directory: Path) -> dict[str, str]:
    """As `held`, and once more with a slower model if somebody else's load kept the words from coming in time."""
    try:
        return held(directory / "page", THINKS_MS)
    except TooLate:
        return held(directory / "slowly", SLOWLY_MS, *_PATIENT)


def held(directory: Path, thinks_ms: int, *settings: tuple[str, Any]) -> dict[str, str]:
    """The turn, with a cluster of its own. Raises TooLate."""
    directory.mkdir(exist_ok=True)
    cluster = cluster_in(directory / DEFAULT_HOME)
    cluster.up("--detach", settings={"gateway.providers.offline.latency_ms": thinks_ms, **dict(settings)})
    try:
        return turn(cluster)
    finally:
        cluster.end()


def write() -> None:
    """The page shows what just happened."""
    with tempfile.TemporaryDirectory() as directory:
        seen = held(Path(directory), THINKS_MS)
    page = PAGE.read_text(encoding="utf-8")
    page = BLOCK.sub(lambda found: found.group(1) + seen[found.group(2)] + found.group(4), page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    write()
