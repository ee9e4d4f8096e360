"""Cells: clusters among which people are sharded. Which one a home is; where people are, and how they move."""

from pathlib import Path

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import Record


class CellMembership(Record):
    """Which cell a home is, and where the map is: `<home>/cell.json`; without it its doors do not route."""

    name: str
    map: str


def find_path(home: Path) -> Path:
    return home / "cell.json"


def membership(home: Path) -> CellMembership | None:
    """Return which cell a home is; None: it is none. Raises ConfigError where the file does not say."""
    try:
        return CellMembership.model_validate_json(find_path(home).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        step = f"remove it, then: hobus cell add NAME --url URL --map MAP --home {home}"
        raise ConfigError(f"{find_path(home)} is damaged; {step}", facts={"next": step}) from None


def forget(home: Path) -> None:
    """Forget in a copy which cell its original is, and the map beside it. Raises OSError."""
    for path in (find_path(home), *home.glob("cells.sqlite*")):
        path.unlink(missing_ok=True)
