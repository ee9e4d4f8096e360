"""Whether a home has a record at all."""

from __future__ import annotations

from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, next_command
from hobus.ledger_service.verify import is_ledger


def demand_record(home: Home) -> None:
    """Raises UsageFault where no record was ever begun in this home."""
    if not is_ledger(home.ledger):
        raise UsageFault(f"there is no record in {home.root}", hint=next_command("up", home.root))
