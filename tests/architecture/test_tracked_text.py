"""What must not stand in any file of the project. The words are put together here so that this file is clean itself."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, tracked_files

UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error"]))
PRIVATE_PLACES = re.compile(
    "|".join(
        [
            r"/wor" + r"k/",
            r"/ro" + r"ot/",
            r"/hom" + r"e/[a-z]",
            r"/Us" + r"ers/",
            r"/tmp/ve" + r"nv",
            r"/opt/py" + r"pi",
            r"/opt/wh" + r"eels",
        ]
    )
)
REGISTRY_HOSTS = re.compile(
    "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "np" + r"mjs\.org", "np" + r"mjs\.com", "index" + "-url"])
)
HOW_IT_WAS_MADE = re.compile(
    "|".join(["sub" + "-?agent", "help" + "er session", r"\.libr" + "ary", "before" + "-stop", "as an " + "ai"])
)
"""Of a text without capitals: a search that looks for both takes six times as long."""
SECRETS = re.compile(
    "|".join(
        [
            "sk-" + "[A-Za-z0-9]{20,}",
            "AK" + "IA[0-9A-Z]{16}",
            "-----BEGIN [A-Z ]*PRIV" + "ATE KEY",
            "gh" + "p_[A-Za-z0-9]{20,}",
        ]
    )
)

OLD_NAMES = re.compile(
    r"^\s*(?:from|import\s+(?:[\w.]+(?:\s+as\s+\w+)?,\s*)*)\s*"
    r"(?:actors|bus|config|gateway_service|launch|ledger_service)\b(?!\s*=)",
    re.MULTILINE,
)
"""Also within a function, where the linter lets the names pass that it forbids at the head of a module."""


@cache
def texts() -> dict[Path, str]:
    """Every tracked file that is text."""
    found: dict[Path, str] = {}
    for path in tracked_files():
        with suppress(UnicodeDecodeError):
            found[path] = path.read_text(encoding="utf-8")
    return found


def hits(pattern: re.Pattern[str], suffixes: tuple[str, ...] | None = None, *, is_folded: bool = False) -> list[str]:
    """`file:line` of each match in the tracked text files, which are looked at without capitals if so asked."""
    found: list[str] = []
    for path, raw in texts().items():
        if suffixes is not None and path.suffix not in suffixes:
            continue
        text = raw.casefold() if is_folded else raw
        if pattern.search(text):
            lines = [number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]
            found.extend(f"{path.relative_to(ROOT)}:{number}" for number in lines)
    return found


def test_nothing_is_left_unfinished() -> None:
    """An unfinished thing is an issue, not a note in a file."""
    assert hits(UNFINISHED, (".py",)) == []


def test_everything_is_imported_by_the_one_name() -> None:
    """In a checkout the folders lie on the path as well: a module loaded under two names is two modules."""
    assert hits(OLD_NAMES, (".py",)) == []


@pytest.mark.parametrize(
    "pattern", [PRIVATE_PLACES, REGISTRY_HOSTS], ids=["paths of one machine", "hosts of registries"]
)
def test_nothing_depends_on_where_it_was_built(pattern: re.Pattern[str]) -> None:
    """Files speak of the project alone, and packages come from whatever registry the installer knows."""
    assert hits(pattern) == []


def test_files_speak_of_the_project_and_not_of_how_it_was_made() -> None:
    """A reader meets the system, not its construction site."""
    assert hits(HOW_IT_WAS_MADE, is_folded=True) == []


def test_no_credential_is_in_any_file() -> None:
    """Secrets are references; a planted one in a test does not look like a real one."""
    assert hits(SECRETS) == []


def test_patterns_find_what_they_are_for() -> None:
    """Each check above can fail."""
    assert UNFINISHED.search("# TO" + "DO later")
    assert all(
        OLD_NAMES.search(line)
        for line in (
            "    from " + "bus import peer",
            "import " + "launch.cluster",
            "import os as o, " + "config",
            "from " + "actors import x",
        )
    )
    assert not any(
        OLD_NAMES.search(line)
        for line in (
            "from hobus.bus import peer",
            "from . import bus",
            "import hobus.config",
            "busy = launch",
            "import configparser",
        )
    )
    assert PRIVATE_PLACES.search("/ro" + "ot/x")
    assert REGISTRY_HOSTS.search("https://py" + "pi.org/simple")
    assert HOW_IT_WAS_MADE.search(("Sub" + "agent").casefold()) and HOW_IT_WAS_MADE.search(("As an " + "AI").casefold())
    assert SECRETS.search("AK" + "IA" + "A" * 16)
