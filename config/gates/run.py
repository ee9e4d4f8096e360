"""All gates over the governed files in force: `look` reads them, `run_gates` judges, and changes nothing.

Every breach is told at once. What needs more than files is handed in: whether a package's signature holds (G5), and
whether the record verifies (G6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from hobus.bus.errors import ConfigError
from hobus.config import files
from hobus.config.assets import FileInForce
from hobus.config.file_limits import get_file_max_bytes
from hobus.config.files import SHIPPED_ALONE, GovernedFile, Layers
from hobus.config.gates.finding import TITLES, Finding
from hobus.config.gates.invariants import Invariants, find_unchecked
from hobus.config.gates.layer import Layer, read_layers_on_disk
from hobus.config.gates.links import Linked, find_broken_links
from hobus.config.gates.ownership import find_breaches, map_owners
from hobus.config.gates.prompts import check_prompts, find_secrets, find_unused_parts
from hobus.config.load import Further, ReadLayers, read
from hobus.config.registries import Manifests

_OF_PROMPTS = ("contract", "prompt_pack", "template")


class RecordFault(NamedTuple):
    """Where the record is not what was written."""

    file: str
    reason: str
    mend: str


Verify = Callable[[Layer], str]
"""Layer of an installed package -> why its signature does not hold, as the end of a sentence; empty: it does."""

CheckRecord = Callable[[], RecordFault | None]


@dataclass(frozen=True)
class View:
    """Everything that the gates look at, as it was read."""

    reading: ReadLayers
    layers: Sequence[Layer]

    @property
    def is_checkout(self) -> bool:
        """Return whether what is shipped is worked on here: tests lie beside it."""
        return (files.SHIPPED_ROOT.parent / "tests").is_dir()

    @property
    def manifests(self) -> Manifests:
        """Return everything in force. What a home has of its own belongs to it, unless a manifest of it lists it."""
        held = {name: one for layer in self.layers for name, one in layer.held.items()}
        assets = self.reading.assets
        found = {
            # Unchecked: what cannot be read is in the list, too, and has no hash.
            name: FileInForce.model_construct(sha256=held[name].sha256, package_id=owner)
            for name, owner in map_owners(self.layers).items()
        }
        return Manifests(assets["framework"], assets["spec"], assets["package"], found)


def look(layers: Layers = SHIPPED_ALONE, *, further: Further = lambda _config: []) -> View:
    """Read what lies there now, each file once: the bytes that are loaded are those that are hashed and judged."""
    reading = read(layers, further=further)
    loaded = [*reading.files.values(), *reading.beneath]
    return View(reading, read_layers_on_disk(layers, max_bytes=get_file_max_bytes(reading.config), loaded=loaded))


def run_gates(
    view: View,
    *,
    verify: Verify | None = None,
    check_record: CheckRecord | None = None,
    has_tests: bool | None = None,
) -> list[Finding]:
    """Return findings in order of the gates; for the options see `run_outside` and `run_inside`."""
    return [
        *run_inside(view, has_tests=view.is_checkout if has_tests is None else has_tests),
        *run_outside(view, verify=verify, check_record=check_record),
    ]


def run_inside(view: View, *, has_tests: bool) -> list[Finding]:
    """Return findings of G0 to G4, in order: what governed files alone decide.

    `has_tests`: whether what the tests beside this software hold of its files is looked at here, too: that the tests
    which invariants name are there, that the schemas of shipped contracts run. Else their hashes are enough.
    """
    found = list(find_breaches(view.layers, is_checkout=view.is_checkout))
    told = {(one.file, one.reason) for one in found}
    found += [one for one in _judge_load(view.reading) if (one.file, one.reason) not in told]
    found += _judge_links(view)
    found += _judge_prompts(view.reading, has_tests=has_tests)
    found += _judge_invariants(view, has_tests=has_tests)
    order = list(TITLES)
    return sorted(dict.fromkeys(found), key=lambda one: order.index(one.gate))


def run_outside(view: View, *, verify: Verify | None = None, check_record: CheckRecord | None = None) -> list[Finding]:
    """Return findings of G5 and G6; without `verify` and `check_record` only that nobody could look."""
    found = list(_judge_signatures(view, verify))
    fault = check_record() if check_record is not None else None
    return found if fault is None else [*found, Finding("G6", *fault)]


def _judge_load(reading: ReadLayers) -> Iterator[Finding]:
    """Yield G0 for what lies where nothing may, G3 for what a prompt is made of, G2 for the rest."""
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


def _judge_links(view: View) -> Iterator[Finding]:
    reading = view.reading
    yield from find_broken_links(
        Linked(
            there=view.manifests,
            agents=reading.assets["agent"],
            paths={name: str(file.path) for name, file in reading.files.items()},
            shipped=frozenset(name for name, file in reading.files.items() if file.is_shipped),
            unknown=frozenset(map(_name_file, reading.files.values())).difference(*reading.assets.values()),
        )
    )


def _name_file(file: GovernedFile) -> str:
    """Return the id that the file's place gives it."""
    part = file.name.split("/")[1] if "/" in file.name else file.name
    return part.partition("_")[0] if file.kind == "framework" else part


def _judge_prompts(reading: ReadLayers, *, has_tests: bool) -> Iterator[Finding]:
    if reading.config is None:
        return
    paths = {name: str(file.path) for name, file in reading.files.items()}
    agents, contracts = reading.assets["agent"], reading.assets["contract"]
    yield from find_secrets(reading.config, reading.prompt_packs, agents, paths)
    shipped = [file.path.stem for file in reading.files.values() if file.is_shipped and file.kind == "contract"]
    run_before = () if has_tests else shipped
    yield from check_prompts(reading.config, contracts, reading.prompt_packs, agents, paths, run_before=run_before)
    yield from find_unused_parts(contracts, reading.prompt_packs, agents, paths)


def _judge_invariants(view: View, *, has_tests: bool) -> Iterator[Finding]:
    manifests = {_name_file(file): file for file in view.reading.files.values() if file.kind == "framework"}
    yield from find_unchecked(
        Invariants(
            frameworks=view.reading.assets["framework"],
            paths={name: str(file.path) for name, file in manifests.items()},
            tested_here=frozenset(name for name, file in manifests.items() if file.is_shipped),
            source_of=_read_source,
            has_tests=has_tests,
        )
    )


def _read_source(path: str) -> str | None:
    """Return source text of this installation; the path has no way to lead out of it."""
    try:
        return (files.SHIPPED_ROOT.parent / path).read_text(encoding="utf-8")
    except OSError:
        return None


def _judge_signatures(view: View, verify: Verify | None) -> Iterator[Finding]:
    """Yield findings of signatures; what is shipped is held by hash (G0), settings are the home's own."""
    config: Any = view.reading.config
    if config is None:  # at fault: nobody knows the policy, and nothing starts
        return
    is_signed = config.governance.signatures == "signed"
    if not is_signed:
        said = "signatures are not checked (governance.signatures: dev)"
        yield Finding("G5", "governance.signatures", said, "", "note")
    for layer in view.layers:
        if layer.kind == "package":
            reason = verify(layer) if verify is not None else "nobody here can verify its signature"
            if reason and (verify is not None or is_signed):
                mend = "install a bundle whose signature holds, or remove it"
                yield Finding("G5", str(layer.root), reason, f"{mend}: hobus package remove {' '.join(layer.packages)}")
        elif layer.kind == "own" and is_signed:
            for name, held in layer.held.items():
                if name != files.ADMIN_CONFIG:
                    reason = "is this home's own, and only signed packages are taken (governance.signatures: signed)"
                    yield Finding("G5", str(held.path), reason, "put it into a package: hobus package build")
