"""Which packages a home has installed: the pointer file alone says so, and nothing else that lies beside it.

<home>/packages/installed.json                            {"format": 1, "directories": ["PKG-…", …]}
<home>/packages/<PKG-ID>-<version>-<16 hex>/              one package, laid out like config/, with its signature.json
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from hobus.bus.errors import ConfigError
from hobus.config.files import Layers, read_plain_file
from hobus.config.parse import BadText, parse_json
from hobus.launch.cluster.home import Home
from hobus.launch.console.output import as_json

FORMAT = 1
HEX = 16
DIRECTORY = re.compile(rf"PKG-[A-Z0-9]+(-[A-Z0-9]+)*-[0-9]+\.[0-9]+\.[0-9]+-[0-9a-f]{{{HEX}}}")
"""Name of an installed package's directory: id, version, beginning of its manifest's SHA-256."""


def make_pointer_path(home: Home) -> Path:
    return home.packages / "installed.json"


def list_in_force(home: Home) -> tuple[Path, ...]:
    """Return the directories of the installed packages, in order of their names.

    Raises ConfigError for a pointer that cannot be read: what is installed is then unknown.
    """
    pointer = make_pointer_path(home)
    try:
        value = parse_json(read_plain_file(pointer).decode())
    except FileNotFoundError:
        return ()
    except (BadText, UnicodeDecodeError) as error:
        raise _make_damaged(pointer, str(error)) from None
    except OSError as error:
        raise _make_damaged(pointer, f"cannot be read: {error.strerror}") from None
    return tuple(home.packages / name for name in _read_directories(value, pointer))


def write_pointer(directories: Iterable[str]) -> str:
    return f"{as_json({'format': FORMAT, 'directories': sorted(directories)})}\n"


def find_layers(home: Home, config_file: Path | None = None) -> Layers:
    """Return where a cluster of this home finds its governed files. Raises ConfigError for a damaged pointer."""
    return Layers(list_in_force(home), home.config if home.config.is_dir() else None, config_file)


def find_package(directory: Path) -> str:
    """Return the id of the package in a directory that has the name of one; ids begin alike."""
    return directory.name.rsplit("-", 2)[0]


def _read_directories(value: Any, pointer: Path) -> list[str]:
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    names = fields.get("directories")
    if fields.get("format") != FORMAT or set(fields) != {"format", "directories"} or not isinstance(names, list):
        raise _make_damaged(pointer, f"not a list of installed packages in format {FORMAT}")
    found = [name for name in cast("list[Any]", names) if isinstance(name, str) and DIRECTORY.fullmatch(name)]
    if len(found) != len(cast("list[Any]", names)) or len(set(found)) != len(found):
        raise _make_damaged(pointer, "names a directory that no package has, or one twice")
    return sorted(found)


def _make_damaged(pointer: Path, why: str) -> ConfigError:
    fault = f"{pointer}: {why}; restore a copy, or remove it: then no package is installed"
    return ConfigError(fault, facts={"faults": [fault]})
