"""Where governed files are, in three layers: shipped beside this module, installed packages, a home's own.

A package adds files, and never stands in for one that is there; the home's own replace those of both layers one by one.
Paths are relative to their root and `/`-separated: they are the names under which packages own files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

SHIPPED_ROOT = Path(__file__).resolve().parent
ADMIN_CONFIG = "admin_config.json"
SIGNATURE = "signature.json"
"""What a package's directory holds beside its governed files."""
SHIPPED = "shipped"
OWN = "own"

Kind = Literal["config", "agent", "contract", "prompt_pack", "framework", "standard", "spec", "package", "template"]

_PLACES: tuple[tuple[Kind, str], ...] = (
    ("config", r"admin_config\.json"),
    ("agent", r"agents/[^/]+\.json"),
    ("contract", r"contracts/[^/]+\.json"),
    ("template", r"attention/[^/]+\.json"),
    ("prompt_pack", r"prompt_packs/[^/]+\.txt"),
    ("framework", r"frameworks/[^/]+/manifest\.yaml"),
    ("standard", r"(?:frameworks|specs)/[^/]+/standard\.md"),
    ("spec", r"specs/[^/]+/manifest\.yaml"),
    ("package", r"packages/[^/]+/manifest\.json"),
)
_PLACE = re.compile("|".join(f"(?P<{kind}>{place})" for kind, place in _PLACES))


@dataclass(frozen=True)
class Layers:
    """Where governed files are beside those that are shipped; nothing given: nowhere."""

    packages: tuple[Path, ...] = ()
    """A directory for each installed package, laid out like `config/`."""
    own: Path | None = None
    """The home's own, which need not be there."""
    config_file: Path | None = None
    """Stands in for admin_config.json, also for the home's own."""


SHIPPED_ALONE = Layers()


@dataclass(frozen=True)
class GovernedFile:
    """One file and where it came from."""

    name: str
    """Path relative to the root, `/`-separated."""
    kind: Kind
    path: Path
    layer: str
    """`shipped`, `own`, or the id of the package that brought it."""

    @cached_property
    def content(self) -> bytes:
        """Return the file's bytes, read once: what is checked, hashed and recorded is the same. Raises OSError."""
        return read_plain_file(self.path)

    @property
    def is_shipped(self) -> bool:
        return self.layer == SHIPPED

    @property
    def origin(self) -> str:
        """Return `shipped`, the package's id, or the path of the home's own file that replaces or adds."""
        return str(self.path) if self.layer == OWN else self.layer


def find_kind(name: str) -> Kind | None:
    """Return what a governed file of this relative path is; None if no governed file lives there."""
    found = _PLACE.fullmatch(name)
    return None if found is None else cast("Kind", found.lastgroup)


def find(layers: Layers = SHIPPED_ALONE) -> tuple[dict[str, GovernedFile], list[str]]:
    """Return every governed file by name, sorted, and faults: no place, no file, there already."""
    files = {file.name: file for file in _list_below(SHIPPED_ROOT, SHIPPED)}
    faults: list[str] = []
    for root in layers.packages:
        faults += _take_in(root, files)
    if layers.own is not None and layers.own.is_dir():
        files |= {file.name: file for file in _list_below(layers.own, OWN)}
        faults += find_unread(layers.own)
    if layers.config_file is not None:
        files[ADMIN_CONFIG] = GovernedFile(ADMIN_CONFIG, "config", layers.config_file, OWN)
    return dict(sorted(files.items())), faults


def _take_in(root: Path, files: dict[str, GovernedFile]) -> list[str]:
    """Add a package's files to `files`; return a fault for each that may not be there."""
    ids = [name.split("/")[1] for name in list_governed(root) if find_kind(name) == "package"]
    if len(ids) != 1:
        said = f"{len(ids)} package manifests, not one" if root.is_dir() else "no such directory"
        return [f"{root}: {said}; install the package again, or remove it (hobus package list)"]
    faults = [fault for fault in find_unread(root) if not fault.startswith(f"{root / SIGNATURE}: ")]
    if root.is_symlink():
        faults.append(f"{root}: a link, not the directory that was made; install the package again, or remove it")
    for file in _list_below(root, ids[0]):
        if file.kind == "config":
            faults.append(f"{file.path}: a package holds no settings; they are the home's own (hobus config set)")
        elif (there := files.get(file.name)) is not None:
            faults.append(
                f"{file.path}: {there.layer} has a file of this name, which no package may replace; "
                f"remove {file.layer}, or ask its maker to give the file another name"
            )
        else:
            files[file.name] = file
    return faults


def list_visible(root: Path) -> list[str]:
    """Return the relative paths of the visible files below `root`, sorted; an unreadable directory has none."""
    return sorted(_walk_visible(str(root), ""))


def _walk_visible(directory: str, below: str) -> Iterator[str]:
    """Yield visible files by the directory's entries, which know their kinds: looking at each path costs most."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_visible(entry.path, f"{below}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path):  # noqa: PTH113 - no path is made
                yield f"{below}{entry.name}"


def list_hidden(root: Path) -> list[str]:
    """Return relative paths of what is below `root` and begins with a dot, sorted: nothing of it is ever read."""
    found: list[str] = []
    for directory, folders, names in os.walk(root):
        here = Path(directory).relative_to(root)
        found += [(here / name).as_posix() for name in [*folders, *names] if name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
    return sorted(found)


def list_governed(root: Path) -> list[str]:
    """Return the relative paths of the governed files below `root`, sorted."""
    return [name for name in list_visible(root) if find_kind(name) is not None]


def _list_below(root: Path, layer: str) -> list[GovernedFile]:
    return [
        GovernedFile(name, kind, root / name, layer)
        for name in list_visible(root)
        if (kind := find_kind(name)) is not None
    ]


def find_unread(root: Path) -> list[str]:
    """Return faults of what nothing reads: such a setting would silently do nothing."""
    places = "admin_config.json, agents/, contracts/, prompt_packs/, attention/, frameworks/*/, specs/*/, packages/*/"
    faults = [
        f"{root / name}: no governed file has this place; move or remove it (places: {places})"
        for name in list_visible(root)
        if find_kind(name) is None
    ]

    def note_refused(error: OSError) -> None:
        faults.append(f"{error.filename}: cannot be read: {error.strerror}; make it readable for this user, or move it")

    for directory, folders, names in os.walk(root, onerror=note_refused):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in [*folders, *sorted(names)]:
            path = Path(directory, name)
            if not name.startswith(".") and (
                fault := _explain_no_file(path, find_kind(path.relative_to(root).as_posix()))
            ):
                faults.append(f"{path}: {fault}")
    return faults


def _explain_no_file(path: Path, kind: Kind | None) -> str:
    """Return what keeps it from being read, and the fix; empty for a file, and for a directory in its place."""
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH114, PTH110 - pathlib raises where it may not look
        return "a link that leads nowhere; point it at a file, or remove it"
    if os.path.isdir(path):  # noqa: PTH112 - as above
        if kind is not None:
            return "a directory, where a file belongs; put the file in its place, or move it away"
        if os.path.islink(path):  # noqa: PTH114 - as above
            return "a link to a directory, which is not followed; put the directory itself here"
        return ""
    return "" if os.path.isfile(path) else "not a plain file; put one in its place, or move it away"  # noqa: PTH113 - as above


def read_plain_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the bytes of a plain file, at most so many; never waits for anybody.

    Raises OSError, also for what is no plain file, or longer.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        is_longer = max_bytes is not None and about.st_size > max_bytes
        with os.fdopen(number, "rb", closefd=False) as file:
            data = b"" if is_longer else file.read(-1 if max_bytes is None else max_bytes + 1)
    finally:
        os.close(number)
    if max_bytes is not None and (is_longer or len(data) > max_bytes):
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))
    return data
