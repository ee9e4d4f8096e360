"""A home's own files in `config/`: read, and replaced whole; admin_config.json by one that was found good."""

from __future__ import annotations

import fcntl
import json
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from hobus.bus.disk import replace_private
from hobus.bus.errors import ConfigError
from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.config.parse import BadText, parse_json
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console.errors import UsageFault, format_next_here, make_os_fault

_LOCK = ".admin_config.lock"
Settings = dict[str, Any]


def make_path(home: Home) -> Path:
    """Return where a home's own settings lie, if it has any."""
    return home.config / ADMIN_CONFIG


def read_shipped() -> Settings:
    """Return the shipped settings, over which a home's own are laid."""
    return parse_json((SHIPPED_ROOT / ADMIN_CONFIG).read_text(encoding="utf-8"))


def read(home: Home) -> Settings:
    """Return what the home's own settings say; nothing where there are none. Raises CommandError."""
    return read_document(make_path(home))


def read_document(path: Path) -> Settings:
    """Return what a file says; nothing where there is none. Raises CommandError (usage) for a file with faults."""
    if path.exists() and not path.is_file():
        raise UsageFault(f"{path} is not a plain file", hint="move it away")
    try:
        value = parse_json(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not isinstance(value, dict):
            raise BadText(f"holds {type(value).__name__}, not an object")
    except (BadText, UnicodeDecodeError) as error:
        raise UsageFault(f"{path}: {error}", hint=f"fix the file, then: {format_next_here('config check')}") from None
    except OSError as error:
        raise make_os_fault(error, doing=f"{path} cannot be read") from error
    return value


class ChangedFile(NamedTuple):
    """The file as it is now."""

    value: Settings
    digest: str
    """Of the configuration with it."""


def change(
    home: Home,
    changed: Callable[[Settings], Settings],
    *,
    beside: AbstractContextManager[None] | None = None,
) -> ChangedFile:
    """Write the file anew as `changed` says; whoever else changes it meanwhile waits.

    What is made `beside` it stays only if it is replaced. Raises CommandError, also for what is no valid
    configuration: then nothing is changed, and no directory made.
    """
    own = make_path(home)
    _compute_digest(home, changed(read(home)))
    try:
        with lock_alone(home):
            value = changed(read(home))
            digest = _compute_digest(home, value)
            with beside or nullcontext():
                put(own, value)
    except OSError as error:
        raise make_os_fault(error, doing=f"{own} cannot be written") from error
    return ChangedFile(value, digest)


def put(path: Path, value: Settings) -> None:
    """Replace the file as a whole; call it `alone`. Raises OSError."""
    replace_private(path.resolve(), _write_text(value).encode())  # a link stays one


def _compute_digest(home: Home, value: Settings) -> str:
    """Return the digest of the configuration with this in its file. Raises UsageFault with its faults, by that file."""
    with tempfile.TemporaryDirectory() as directory:
        candidate = Path(directory) / ADMIN_CONFIG
        try:
            candidate.write_text(_write_text(value), encoding="utf-8")
        except UnicodeEncodeError:
            raise UsageFault("the setting is not valid text", hint=format_next_here("config show")) from None
        from hobus.config.snapshot import load_snapshot  # noqa: PLC0415 - whoever reads alone needs none of the rules

        try:
            return load_snapshot(find_layers(home, candidate)).digest
        except ConfigError as fault:
            said = fault.detail.replace(str(candidate), str(make_path(home)))
            raise UsageFault(f"nothing was changed: {said}", hint=format_next_here("config show")) from None


@contextmanager
def lock_alone(home: Home, lock: str = _LOCK) -> Generator[None]:
    """Keep everybody else from changing the home's own files, or from what else has this lock. Raises OSError."""
    make_private(home.config)
    with (home.config / lock).open("w", encoding="utf-8") as file:  # a hidden file is no governed one
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield


def _write_text(value: Settings) -> str:
    return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n"
