"""Environments of the peers: each in a cache directory of its own, made once, never part of the product's environment.

`HOBUS_BENCH_CACHE` says where; otherwise `$XDG_CACHE_HOME/hobus-bench` (`~/.cache/hobus-bench`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path


class PeerAway(Exception):
    """The peer cannot be measured here, and why."""


def cache() -> Path:
    named = os.environ.get("HOBUS_BENCH_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "hobus-bench"


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
        raise PeerAway(
            f"pip could not install {' '.join(requirements)} ({why}): is a package registry reachable? "
            "`--no-peer` measures without it"
        )
    mark.write_text(wanted)
    return python


def python_or_exit(name: str, requirements: Sequence[str]) -> Path:
    """The peer's interpreter; ends the script with what is missing."""
    try:
        return python_of(name, requirements)
    except PeerAway as away:
        raise SystemExit(str(away)) from None
