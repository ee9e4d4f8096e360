"""The console that a cluster with an HTTP door offers: its address, and links that any command of this user may make.

Both stand in `run/`, which is this user's alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from typing import NamedTuple

from hobus.bus.port import Clock
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.limits import LINK_S


def find_offered(home: Home) -> str:
    """Return `host:port` at which the running cluster offers its console; empty: it offers none."""
    with suppress(OSError):
        return home.offered_console.read_text(encoding="ascii").strip()
    return ""


# --- links ------------------------------------------------------------------------------------------------------------


class ConsoleLink(NamedTuple):
    """Whom a link signs in."""

    name: str
    role: str


def draw_word(clock: Clock) -> str:
    return (clock.new_id() + clock.new_id()).replace("-", "")


def make_link(home: Home, clock: Clock, who: ConsoleLink) -> str:
    """Return the address that signs this person in at the cluster's console, once and soon. Raises OSError.

    What stands in the home signs nobody in: it is the word's hash.
    """
    word = draw_word(clock)
    make_private(home.links)
    for old in home.links.iterdir():
        _read(home, old.name, clock)
    text = f"{clock.now() + LINK_S} {who.role} {who.name}"
    path = home.links / hash_word(word)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return f"http://{find_offered(home)}/sign-in?word={word}"


def redeem(home: Home, word: str, clock: Clock) -> ConsoleLink | None:
    """Return whom this word signs in, for the first who asks; None: nobody."""
    name = hash_word(word)
    found = _read(home, name, clock)
    with suppress(OSError):
        (home.links / name).unlink()  # of two who ask at once one meets that it is gone
        return found
    return None


def hash_word(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "replace")).hexdigest()


_HASH = re.compile(r"[0-9a-f]{64}")


def _read(home: Home, name: str, clock: Clock) -> ConsoleLink | None:
    """Return the link of this hash; remove one that is too old."""
    with suppress(OSError, ValueError):
        until, role, who = (home.links / name).read_text(encoding="utf-8").split(" ", 2)
        if _HASH.fullmatch(name) and clock.now() < float(until):
            return ConsoleLink(who, role)
        (home.links / name).unlink()
    return None
