"""The record, on this machine's disk."""

from __future__ import annotations

from hobus.bus.disk import RealDisk
from hobus.launch.cluster.endpoints import Place
from hobus.launch.process.roles import Made
from hobus.ledger_service.service import LedgerService


def make(place: Place) -> Made:
    """Make the ledger over `<home>/ledger`. Raises OSError."""
    return Made(LedgerService(RealDisk(place.home.ledger), place.snapshot.config.ledger))
