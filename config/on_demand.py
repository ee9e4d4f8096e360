"""The configuration of a cluster on this machine as its clients read it: each part when it is asked for.

Its launcher has checked the whole before it wrote it down. A command asks for a few figures: reading all of it, and
loading what reads it, would take longer than its question.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import digest_of, unpack

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot

_PROCESSES = "hobus.config.sections.processes"
OFTEN = {
    "bus": ("hobus.bus.settings", "BusSettings"),
    "ledger": ("hobus.config.sections.ledger", "LedgerConfig"),
    "launcher": (_PROCESSES, "LauncherConfig"),
    "host": (_PROCESSES, "HostConfig"),
}
"""Section -> where its model stands, of those that most commands ask for: the others are loaded together."""


def snapshot_on_demand(data: bytes) -> Snapshot:
    """The snapshot behind bytes that a launcher wrote here; its parts raise ConfigError where they are none."""
    return cast("Snapshot", _Parts(data))


def contents_in(data: bytes) -> dict[str, bytes]:
    """File -> its bytes, of what `Snapshot.contents` holds. Raises ValueError for anything else."""
    found = unpack(data)
    if type(found) is not dict or {(type(name), type(one)) for name, one in found.items()} - {(str, bytes)}:
        raise ValueError("not a map of files")
    return found


class _Parts:
    """Snapshot, part by part: everything but the settings at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def digest(self) -> str:
        return digest_of(self._data)

    @cached_property
    def config(self) -> _Settings:
        try:
            return _Settings(unpack(self._data)["config"])
        except (ValueError, KeyError, TypeError) as error:
            raise _other_version(error) from None

    @cached_property
    def _whole(self) -> Snapshot:
        loaded: Snapshot = importlib.import_module("hobus.config.snapshot").Snapshot.from_bytes(self._data)
        return loaded

    def __getattr__(self, part: str) -> Any:
        return getattr(self._whole, part)


class _Settings:
    """AdminConfig, section by section."""

    def __init__(self, written: dict[str, Any]) -> None:
        self._written = written

    @cached_property
    def _whole(self) -> Any:
        return importlib.import_module("hobus.config.schema").AdminConfig.model_validate(self._written)

    def __getattr__(self, section: str) -> Any:
        try:
            if section not in OFTEN:
                return getattr(self._whole, section)
            module, name = OFTEN[section]
            model = getattr(importlib.import_module(module), name)
            found = self.__dict__[section] = model.model_validate(self._written.get(section))
        except ValueError as error:
            raise _other_version(error) from None
        return found


def _other_version(error: Exception) -> ConfigError:
    return ConfigError(f"not a snapshot of this version ({type(error).__name__}); restart the cluster")
