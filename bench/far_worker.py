"""A worker as on another host: a process tree of its own, in a directory of its own, reached by TCP alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from bench.cluster import Cluster, begun, eventually


class FarWorker:
    """`hobus worker` in a session of its own; its output is in files."""

    def __init__(self, directory: Path, words: Sequence[str], *, env: dict[str, str] | None = None) -> None:
        self.home = directory / "home"
        directory.mkdir(exist_ok=True)
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("ab") as out, self._err.open("ab") as err:
            words = ["worker", *words, "--home", str(self.home)]
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            self.process = begun(*words, env=env, cwd=directory, start_new_session=True, **streams)

    @property
    def said(self) -> str:
        return self._out.read_text() + self._err.read_text()

    def works(self) -> FarWorker:
        """When it says so; fails if it ends before."""
        eventually(lambda: "working for" in self.said or self.process.poll() is not None)
        assert "working for" in self.said, self.said
        return self

    def ended(self, within_s: float = 20.0) -> int:
        return self.process.wait(timeout=within_s)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)

    def tree(self) -> list[psutil.Process]:
        me = psutil.Process(self.process.pid)
        return [me, *me.children(recursive=True)]


@contextmanager
def workers(directory: Path) -> Iterator[list[FarWorker]]:
    started: list[FarWorker] = []
    directory.mkdir(exist_ok=True)
    try:
        yield started
    finally:
        for worker in started:
            worker.end()


def token_of(cluster: Cluster, *words: str) -> str:
    answer = cluster("token create", "--json", *words)
    assert answer.code == 0, answer.err
    token: str = answer.json["token"]
    return token
