"""All gates over the governed files in force: `look` reads them, `run_gates` judges, and changes nothing.

Every breach is told at once. What needs more than files is handed in: whether a package's signature holds (G5), and
whether the record verifies (G6).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from hobus.bus.errors import ConfigError
from hobus.config import files
from hobus.config.files import SHIPPED_ALONE, GovernedFile, Layers
from hobus.config.gates.finding import TITLES, Finding
from hobus.config.gates.invariants import Invariants, unchecked
from hobus.config.gates.layer import Layer, layers_on_disk
from hobus.config.gates.links import Linked, links
from hobus.config.gates.ownership import owners_of, ownership
from hobus.config.gates.secrets import secrets
from hobus.config.load import Further, Reading, file_max_bytes, read

_OF_PROMPTS = ("contract", "prompt_pack", "template")


class RecordFault(NamedTuple):
    """Where the record is not what was written."""

    file: str
    reason: str
    mend: str


Verify = Callable[[Path], str]
"""Directory of an installed package -> why its signature does not hold, as the end of a sentence; empty: it does."""

CheckRecord = Callable[[], RecordFault | None]


@dataclass(frozen=True)
class View:
    """Everything that the gates look at, as it was read."""

    reading: Reading
    layers: Sequence[Layer]

    @property
    def is_checkout(self) -> bool:
        """Whether what is shipped is worked on here: tests lie beside it."""
        return (files.SHIPPED_ROOT.parent / "tests").is_dir()


def look(layers: Layers = SHIPPED_ALONE, *, further: Further = lambda _config: []) -> View:
    """What lies there now, read once for loading and once for its hashes."""
    reading = read(layers, further=further)
    return View(reading, layers_on_disk(layers, max_bytes=file_max_bytes(reading.config)))


def run_gates(
    view: View,
    *,
    verify: Verify | None = None,
    check_record: CheckRecord | None = None,
    has_tests: bool | None = None,
) -> list[Finding]:
    """Every finding in order of the gates. `verify`, `check_record`: without them G5 and G6 have nothing to say.

    `has_tests`: whether the tests that invariants name are looked up; not given: where they lie beside this software.
    """
    found = [*ownership(view.layers, is_checkout=view.is_checkout), *_of_load(view.reading)]
    found += _of_links(view)
    found += _of_prompts(view.reading)
    found += _of_invariants(view, has_tests=view.is_checkout if has_tests is None else has_tests)
    found += _of_signatures(view, verify)
    fault = check_record() if check_record is not None else None
    if fault is not None:
        found.append(Finding("G6", *fault))
    order = list(TITLES)
    return sorted(dict.fromkeys(found), key=lambda one: order.index(one.gate))


def _of_load(reading: Reading) -> Iterator[Finding]:
    """G0 for what lies where nothing may, G3 for what a prompt is made of, G2 for the rest."""
    places = {str(file.path): file for file in reading.files.values()}
    faults = list(reading.faults)
    if not faults:
        try:
            reading.governed()
        except ConfigError as error:
            faults = cast("list[str]", error.facts["faults"])
    for number, fault in enumerate(faults):
        place, colon, rest = fault.partition(": ")
        file = places.get(place)
        if not colon or (file is None and number >= reading.of_place):
            place, rest = str(reading.files[files.ADMIN_CONFIG].path), fault
        reason, semicolon, mend = rest.rpartition("; ")
        said = (place, reason, mend) if semicolon else (place, rest, "mend it, then: hobus config check")
        if number < reading.of_place and reading.faults:
            yield Finding("G0", *said)
        else:
            yield Finding("G3" if file is not None and file.kind in _OF_PROMPTS else "G2", *said)


def _of_links(view: View) -> Iterator[Finding]:
    reading = view.reading
    yield from links(
        Linked(
            frameworks=reading.assets["framework"],
            specs=reading.assets["spec"],
            packages=reading.assets["package"],
            agents=reading.assets["agent"],
            owners=owners_of(view.layers),
            paths={name: str(file.path) for name, file in reading.files.items()},
            shipped=frozenset(name for name, file in reading.files.items() if file.is_shipped),
            unknown=frozenset(_named(file) for file in reading.files.values()) - _known(reading),
        )
    )


def _named(file: GovernedFile) -> str:
    """The id that the file's place gives it."""
    part = file.name.split("/")[1] if "/" in file.name else file.name
    return part.partition("_")[0] if file.kind == "framework" else part


def _known(reading: Reading) -> frozenset[str]:
    return frozenset(name for one in reading.assets.values() for name in one)


def _of_prompts(reading: Reading) -> list[Finding]:
    if reading.config is None:
        return []
    # By name: it loads what reads JSON Schemas, which a process that only looks has no use for.
    prompts: Callable[..., Iterator[Finding]] = importlib.import_module("hobus.config.gates.prompts").prompts
    paths = {name: str(file.path) for name, file in reading.files.items()}
    agents, contracts = reading.assets["agent"], reading.assets["contract"]
    found = list(secrets(reading.config, reading.prompt_packs, agents, paths))
    return found + list(prompts(reading.config, contracts, reading.prompt_packs, agents, paths))


def _of_invariants(view: View, *, has_tests: bool) -> Iterator[Finding]:
    manifests = {_named(file): file for file in view.reading.files.values() if file.kind == "framework"}
    yield from unchecked(
        Invariants(
            frameworks=view.reading.assets["framework"],
            paths={name: str(file.path) for name, file in manifests.items()},
            tested_here=frozenset(name for name, file in manifests.items() if file.is_shipped),
            source_of=_source,
            has_tests=has_tests,
        )
    )


def _source(path: str) -> str | None:
    """Of this installation; the path has no way to lead out of it."""
    try:
        return (files.SHIPPED_ROOT.parent / path).read_text(encoding="utf-8")
    except OSError:
        return None


def _of_signatures(view: View, verify: Verify | None) -> Iterator[Finding]:
    config: Any = view.reading.config
    policy = getattr(getattr(config, "governance", None), "signatures", "dev")
    if policy == "dev":
        yield Finding(
            "G5", "governance.signatures", "signatures are not checked (governance.signatures: dev)", "", "note"
        )
    for layer in view.layers:
        if layer.kind != "package" or verify is None:
            continue
        if reason := verify(layer.root):
            mend = "install a bundle whose signature holds, or remove it: hobus package remove " + " ".join(
                layer.packages
            )
            yield Finding("G5", str(layer.root), reason, mend)
