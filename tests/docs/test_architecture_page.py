"""docs/architecture.md draws the house as it is: every room is on it, and what it names is there."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tests.architecture.source import ROOT, tracked_files

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w*./-]+(?:\.py|/))`")
FOLDERS = ("actors", "bus", "config", "gateway_service", "launch", "ledger_service")


def product() -> set[PurePosixPath]:
    """Every Python file of the folders that ship, from the top of the repository."""
    paths = (PurePosixPath(path.relative_to(ROOT).as_posix()) for path in tracked_files())
    return {path for path in paths if path.parts[0] in FOLDERS and path.suffix == ".py"}


def test_every_room_is_on_the_page():
    """A folder is named by its path, or by its own name in the table of the folder above it."""
    rooms = {path.parent for path in product() if len(path.parts) > 2}
    assert len(rooms) > 20
    assert [str(room) for room in sorted(rooms) if f"`{room}/`" not in PAGE and f"`{room.name}/`" not in PAGE] == []


def test_whatever_the_page_names_is_there():
    """Files by the end of their paths, folders too."""
    files = {str(path) for path in product()} | {"pyproject.toml"}
    folders = {f"{parent}/" for path in product() for parent in path.parents} | {"hobus/", "docs/"}
    named = {name for name in NAMED.findall(PAGE) if "*" not in name}
    assert len(named) > 50
    ends = {"/".join(name.split("/")[-count:]) for name in files for count in range(1, name.count("/") + 2)}
    ends |= {"/".join(name.split("/")[-count:]) for name in folders for count in range(2, name.count("/") + 2)}
    assert sorted(named - ends) == []
