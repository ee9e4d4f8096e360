"""Whether a home has a record at all, and what of it still waits in spools that no service of this version reads."""

from __future__ import annotations

from pathlib import Path

from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, format_next_command


def demand_record(home: Home) -> None:
    """Raise UsageFault where no record was ever begun in this home."""
    from hobus.ledger_service.verify import is_ledger  # noqa: PLC0415 - loads the record's rooms

    if not is_ledger(home.ledger):
        raise UsageFault(f"there is no record in {home.root}", hint=format_next_command("up", home.root))


def list_unread_spools(home: Home) -> list[str]:
    """Return for each unread spool a sentence: what it is, and what to do."""
    return [said for path in sorted(home.spool.glob("*/*")) if (said := _explain_unread(path))]


def _explain_unread(path: Path) -> str:
    from hobus.bus.spool import ASIDE, is_other_format  # noqa: PLC0415 - loads the record's rooms, for a rare file

    if f".{ASIDE[False]}-" in path.name:
        return (
            f"{path} was set aside as damaged: entries after the damage are not in the record; "
            "keep it for analysis, or move it away"
        )
    name, aside, _ = path.name.partition(f".{ASIDE[True]}-")
    if not aside and not is_other_format(_read_magic(path)):
        return ""
    then = f", back under the name {name}," if aside else ""
    return (
        f"{path} has the format of another version: its entries are not in the record; "
        f"start the version that wrote it once{then} or move it away"
    )


def _read_magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError:
        return b""
