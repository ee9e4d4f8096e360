"""A PostgreSQL server of a test's own, on a socket in its directory; skipped where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Server:
    """`where`: of its database. It refuses to run as root, so then its files are nobody's."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._as: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(directory, "nobody")
            self._as = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self.where = f"postgresql:///postgres?host={directory}&user=hobus"
        self._run("initdb", "--no-sync", "--auth=trust", "--username=hobus", "-D", str(self._data))
        self._options = f"-c listen_addresses= -c fsync=off -c unix_socket_directories={directory}"

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._data), "-l", str(self._data / "log"), "-o", self._options, "start")

    def stop(self) -> None:
        """At once, as if its machine went."""
        self._run("pg_ctl", "-w", "-D", str(self._data), "-m", "immediate", "stop")

    def _run(self, *words: str) -> None:
        subprocess.run([*self._as, *words], check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=120)


@contextmanager
def postgres() -> Iterator[Server]:
    """One that runs; gone afterwards."""
    pytest.importorskip("psycopg")
    if any(shutil.which(name) is None for name in ("initdb", "pg_ctl", "setpriv")):
        pytest.skip("no PostgreSQL server on this machine")
    with tempfile.TemporaryDirectory(prefix="hobus-pg-", ignore_cleanup_errors=True) as directory:
        server = Server(Path(directory))
        server.start()
        try:
            yield server
        finally:
            server.stop()
