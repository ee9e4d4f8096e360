"""What every part of a supervisor works with: built once when it starts, and the same as long as it lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hobus.actors.ho2_supervisor.own_entries import OwnEntries
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.port import Bus
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Resources:
    """The ways out of the process, and what is configured."""

    bus: Bus
    client: LedgerClient
    snapshot: Snapshot
    config: AdminConfig
    own_entries: OwnEntries
    limits: HistoryLimits
    packages: Mapping[str, str]  # agent id -> the package that owns it
