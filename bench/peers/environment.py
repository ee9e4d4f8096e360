"""Environments of the peers: each in a cache directory of its own, made once, never part of the product's environment.

`HOBUS_BENCH_CACHE` says where; otherwise `$XDG_CACHE_HOME/hobus-bench` (`~/.cache/hobus-bench`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self


class PeerAway(Exception):
    """The peer cannot be measured here, and why."""


def cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HOBUS_BENCH_CACHE") or base / "hobus-bench")


def python_of(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of an environment with exactly these requirements. Raises PeerAway when it cannot be made."""
    place = cache() / name
    python, mark = place / "bin" / "python", place / "requirements.txt"
    wanted = "\n".join(requirements) + "\n"
    if python.exists() and mark.exists() and mark.read_text() == wanted:
        return python
    print(f"making the environment of {name} in {place} (once)", file=sys.stderr)
    try:
        venv.create(place, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerAway(f"no environment for {name} in {place}: {error}") from error
    if done.returncode:
        why = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR")), "pip failed")
        hint = "is a package registry reachable? `--no-peer` measures without it"
        raise PeerAway(f"pip could not install {' '.join(requirements)} ({why}): {hint}")
    mark.write_text(wanted)
    return python


def python_or_exit(name: str, requirements: Sequence[str]) -> Path:
    """The peer's interpreter; ends the script with what is missing."""
    try:
        return python_of(name, requirements)
    except PeerAway as away:
        raise SystemExit(str(away)) from None


class LinePeer:
    """A peer's script of this folder in its own interpreter, which answers each line of JSON by one."""

    def __init__(self, python: Path, script: str, given: Mapping[str, Any]) -> None:
        words = [str(python), "-E", str(Path(__file__).with_name(script)), json.dumps(given)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, asked: Any) -> Any:
        self.tell(asked)
        return self.heard()

    def tell(self, asked: Any) -> None:
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def heard(self) -> Any:
        if not (line := self.process.stdout.readline()):
            raise SystemExit("the peer ended; its own words stand above")
        return json.loads(line)
