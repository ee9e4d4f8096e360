"""The configuration of a cluster on this machine as its clients read it: each part when it is asked for.

Its launcher has checked the whole before it wrote it down. A command asks for a few figures: reading all of it, and
loading what reads it, would take longer than its question.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import compute_digest, unpack

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot

_BUS, _TURNS, _RECORD = "hobus.bus.settings", "hobus.config.sections.turns", "hobus.config.sections.record"
_PROCESSES = "hobus.config.sections.processes"
SECTIONS = {
    "bus": (_BUS, "BusSettings"), "ledger": (_RECORD, "LedgerConfig"),
    "gateway": ("hobus.config.sections.gateway", "GatewayConfig"), "budget": (_TURNS, "BudgetConfig"),
    "projection": (_TURNS, "ProjectionConfig"), "attention": (_TURNS, "AttentionConfig"),
    "classify_labels": (_TURNS, "ClassifyLabels"), "sessions": (_TURNS, "SessionsConfig"),
    "quality_gate": (_TURNS, "QualityGateConfig"), "tools": ("hobus.config.sections.tools", "ToolsConfig"),
    "launcher": (_PROCESSES, "LauncherConfig"), "ho1": (_PROCESSES, "Ho1Config"), "ho2": (_PROCESSES, "Ho2Config"),
    "host": (_PROCESSES, "HostConfig"), "http": (_PROCESSES, "HttpConfig"),
    "governance": ("hobus.config.schema", "GovernanceConfig"),
    "ho3": (_RECORD, "Ho3Config"),
}  # fmt: skip
"""Section -> where its model stands."""
FIGURES = frozenset({"bus", "ledger", "launcher", "host"})
"""Sections that are read without their models, which take longer to load than most questions to answer."""
ASSETS = {
    "agents": "AgentFile", "contracts": "Contract", "frameworks": "Framework", "specs": "Spec", "packages": "Package",
    "files": "FileInForce",
}  # fmt: skip
"""What is governed beside the settings, by id -> its model."""


def read_on_demand(data: bytes) -> Snapshot:
    """Return the snapshot behind bytes that a launcher wrote here; its parts raise ConfigError where they are none."""
    return cast("Snapshot", _Parts(data))


def read_contents(data: bytes) -> dict[str, bytes]:
    """Map each file to its bytes, of what `Snapshot.contents` holds. Raises ValueError for anything else."""
    found = unpack(data)
    if type(found) is not dict or {(type(name), type(one)) for name, one in found.items()} - {(str, bytes)}:
        raise ValueError("not a map of files")
    return found


class _Parts:
    """A snapshot, part by part: what is neither a setting nor an asset, all at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def digest(self) -> str:
        return compute_digest(self._data)

    @cached_property
    def config(self) -> _Settings:
        try:
            return _Settings(unpack(self._data)["config"])
        except (ValueError, KeyError, TypeError) as error:
            raise _refuse_version(error) from None

    @cached_property
    def _whole(self) -> Snapshot:
        loaded: Snapshot = importlib.import_module("hobus.config.snapshot").Snapshot.from_bytes(self._data)
        return loaded

    def __getattr__(self, part: str) -> Any:
        if part not in ASSETS:
            return getattr(self._whole, part)
        model = getattr(importlib.import_module("hobus.config.assets"), ASSETS[part])
        try:
            found = {name: model.model_validate(one) for name, one in unpack(self._data)[part].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _refuse_version(error) from None
        self.__dict__[part] = found
        return found


class _Settings:
    """An AdminConfig, section by section."""

    def __init__(self, written: dict[str, Any]) -> None:
        self._written = written

    @property
    def memory(self) -> Any:
        return self.ho3 if self.ho3 is not None and self.ho3.enabled else None

    def model_dump(self, **_as_json: str) -> dict[str, Any]:
        """Return the settings in the form in which a launcher wrote them."""
        return self._written

    def __getattr__(self, section: str) -> Any:
        written = self._written.get(section)
        if section not in SECTIONS:
            raise AttributeError(section)
        if section in FIGURES and isinstance(written, dict):
            figures = self.__dict__[section] = _Figures(written)
            return figures
        module, name = SECTIONS[section]
        try:
            model = getattr(importlib.import_module(module), name)
            is_none = section == "ho3" and written is None
            found = self.__dict__[section] = None if is_none else model.model_validate(written)
        except ValueError as error:
            raise _refuse_version(error) from None
        return found


class _Figures:
    """A section that is figures and texts alone, and those that stand in it."""

    def __init__(self, written: dict[str, Any]) -> None:
        inner = {name: _Figures(value) if isinstance(value, dict) else value for name, value in written.items()}
        self.__dict__.update(inner)

    def __getattr__(self, name: str) -> Any:
        raise _refuse_version(AttributeError(name))


def _refuse_version(error: Exception) -> ConfigError:
    return ConfigError(f"not a snapshot of this version ({type(error).__name__}); restart the cluster")
