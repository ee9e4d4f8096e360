"""What lies below <home>/packages, changed so that a crash at any moment leaves the old packages in force, or the new.

A package is written beside the others, whole and on the device, and gets its name; then one pointer file, replaced at
once, says what is in force (`cluster/installed.py`). Whatever else lies there is left over, counts for nothing, and is
taken away by the next command. One command at a time changes anything: it holds the lock.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hobus.bus.disk import RealDisk
from hobus.config.files import read_plain_file
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.installed import DIRECTORY, list_in_force, make_pointer_path, write_pointer
from hobus.launch.console.errors import CommandError, RefusedFault, format_next_here, make_os_fault

_LOCK = ".lock"
_STAGING = ".staging"


class PackageStore:
    """The packages of one home, for whoever holds its lock."""

    def __init__(self, home: Home, disk: RealDisk) -> None:
        self._home = home
        self._disk = disk

    def in_force(self) -> tuple[Path, ...]:
        """Return the directories of the installed packages. Raises ConfigError."""
        return list_in_force(self._home)

    def staged(self, files: Mapping[str, bytes]) -> Path:
        """Write a directory beside the others that holds these files, to the device. Raises OSError."""
        folders = {"/".join(name.split("/")[:depth]) for name in files for depth in range(1, name.count("/") + 1)}
        self._disk.make_dir(_STAGING)
        for folder in sorted(folders):
            self._disk.make_dir(f"{_STAGING}/{folder}")
        for name, data in files.items():
            self._write(f"{_STAGING}/{name}", data)
        for folder in sorted(folders, reverse=True):
            self._disk.sync_dir(f"{_STAGING}/{folder}")
        self._disk.sync_dir(_STAGING)
        return self._home.packages / _STAGING

    def name_staged(self, name: str) -> None:
        """Give the staged directory this name; it is not in force yet. Raises OSError."""
        self._disk.rename(_STAGING, name)
        self._disk.sync_dir()

    def name_in_place(self, name: str) -> None:
        """Give the staged directory this name in place of one that was damaged. Raises OSError.

        Whoever is killed meanwhile leaves a package that is not there: as damaged as before, until it is done again.
        """
        if os.path.lexists(self._home.packages / name):
            self._remove(name)
        self.name_staged(name)

    def holds(self, name: str, files: Mapping[str, bytes]) -> bool:
        root = self._home.packages / name
        try:
            found = {path.relative_to(root).as_posix(): path for path in root.rglob("*")}
            found = {name: path for name, path in found.items() if path.is_symlink() or not path.is_dir()}
            return (
                not root.is_symlink()
                and found.keys() == files.keys()
                and all(
                    not found[one].is_symlink() and read_plain_file(found[one], len(data)) == data
                    for one, data in files.items()
                )
            )
        except OSError:
            return False

    def put_in_force(self, directories: Iterable[str]) -> None:
        """Bring exactly these into force.

        Raises OSError where that is not so, and CommandError where the disk did not confirm that it stays so.
        """
        self._replace(make_pointer_path(self._home).name, write_pointer(directories).encode())

    def keep_trusted(self, name: str, data: bytes) -> None:
        """Write the file of trusted keys. Raises as `put_in_force` does."""
        self._replace(name, data)

    def sweep(self) -> list[str]:
        """Remove what unfinished commands, or the last change, left here; return its names.

        Raises OSError, ConfigError.
        """
        kept = {path.name for path in self.in_force()}
        left = [name for name in self._disk.list() if _is_ours(name) and name not in kept]
        for name in left:
            self._remove(name)
        return left

    def _replace(self, name: str, data: bytes) -> None:
        beside = f".{name}.new"
        with suppress(FileNotFoundError):
            self._disk.remove(beside)
        self._write(beside, data)
        self._disk.rename(beside, name)
        try:
            self._disk.sync_dir()
        except OSError as error:
            said = make_os_fault(error, doing="the change was made, but the disk did not confirm it")
            raise CommandError(said.message, hint=f"see what is there: {format_next_here('package list')}") from error

    def _write(self, name: str, data: bytes) -> None:
        file = self._disk.open(name, create=True)
        try:
            file.write_at(0, data)
            file.sync()
        finally:
            file.close()

    def _remove(self, name: str) -> None:
        """Remove a file, a link, or a directory with all that is in it; follow nothing."""
        path = self._home.packages / name
        if path.is_symlink() or not path.is_dir():
            self._disk.remove(name)
            return
        for entry in sorted(os.listdir(path)):  # noqa: PTH208 - names, not paths
            self._remove(f"{name}/{entry}")
        self._disk.remove_dir(name)


def _is_ours(name: str) -> bool:
    """Return whether such a name is given here, to what comes and goes."""
    return name == _STAGING or DIRECTORY.fullmatch(name) is not None or (name.startswith(".") and name.endswith(".new"))


@contextmanager
def open_store(home: Home, disk: type[RealDisk] = RealDisk) -> Generator[PackageStore]:
    """Open the packages of this home for this command alone, without what earlier commands left.

    Raises CommandError: somebody else is changing them, or the disk refuses.
    """
    try:
        make_private(home.packages)
        at = disk(home.packages)
        release = at.lock(_LOCK)
    except OSError as error:
        raise make_os_fault(error, doing="the home's packages cannot be changed") from error
    if release is None:
        raise RefusedFault(
            f"another command is changing the packages of {home.root}", hint="wait until it has ended, then do it again"
        )
    try:
        store = PackageStore(home, at)
        with tell_refusal_as("what an earlier command left cannot be taken away"):
            store.sweep()
        yield store
    finally:
        release()


@contextmanager
def tell_refusal_as(what: str) -> Generator[None]:
    """Tell a refusal of the operating system as this. Raises CommandError."""
    try:
        yield
    except OSError as error:
        raise make_os_fault(error, doing=what) from error
