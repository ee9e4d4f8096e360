"""Under which versions of the governed files an answer was made, and those files as they were. Pure.

A turn names its configuration by digest: RunRequested, each order, each prompt. Behind that digest stands
CONFIG_SNAPSHOT, whose body 0 has the digest and the owner of each file and body 1 the files. Both are read as what they
are, not as a configuration of this version of the program, so that an old turn is explained by a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from hobus.bus.messages.base import compute_digest, unpack
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.payloads.prompts import PromptSent
from hobus.bus.record.session_facts import RunRequested
from hobus.config.files import ADMIN_CONFIG, find_kind
from hobus.config.on_demand import read_contents
from hobus.launch.sessions.evidence import Seen

SNAPSHOT = "CONFIG_SNAPSHOT"
_SCHEME = "sha256:"
_SHORT_CHARS = 12
_MAPPINGS = {
    "agent": "agents", "contract": "contracts", "template": "templates", "framework": "frameworks", "spec": "specs",
    "package": "packages",
}  # fmt: skip


class Version(NamedTuple):
    """One version of a governed file, as a configuration has it."""

    path: str
    kind: str
    """agent, contract, prompt_pack, template, framework, standard, spec, package, config."""
    asset_id: str
    version: str
    """Its own, else its package's; empty: neither is known."""
    digest: str
    """`sha256:<64 hex>` of its bytes."""
    package_id: str
    package_version: str


class UsedVersion(NamedTuple):
    """A version that a turn was made under; its fields are blank where the record does not have its configuration."""

    path: str
    kind: str
    asset_id: str
    version: str
    digest: str
    package_id: str
    package_version: str
    config_digest: str
    is_absent: bool = False
    """Its configuration is in the record and has no such file, as where the agent of a queued turn was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A CONFIG_SNAPSHOT of the record, as far as it can be read."""

    sequence: int
    at_us: int
    digest: str
    body: bytes = b""
    """The snapshot itself; empty where it was erased or is not what its digest says."""
    versions: Mapping[str, Version]
    """By path."""
    contents: Mapping[str, bytes]
    """By path; only those that are what their digest says."""
    faults: tuple[str, ...] = ()
    """What of it is not as it should be, in sentences."""

    def named(self, kind: str, asset_id: str) -> Version | None:
        return next((one for one in self.versions.values() if (one.kind, one.asset_id) == (kind, asset_id)), None)


def shorten_digest(digest: str) -> str:
    """Return a digest as people read it: its first 12 hexadecimal digits."""
    return digest.removeprefix(_SCHEME)[:_SHORT_CHARS]


# --- configurations ---------------------------------------------------------------------------------------------------


def read_configuration(entry: Entry) -> Configuration:
    """Return what a CONFIG_SNAPSHOT says; `entry` with its bodies."""
    digest = entry.submission_id.partition(":")[2]
    made = partial(Configuration, sequence=entry.sequence, at_us=entry.at_us, digest=digest)
    body, files = [*entry.bodies, None, None][:2]
    if body is None:
        return made(versions={}, contents={}, faults=(f"#{entry.sequence}: it was erased",))
    if compute_digest(body) != digest:
        said = f"#{entry.sequence}: the configuration recorded as {digest} has other bytes"
        return made(versions={}, contents={}, faults=(said,))
    versions = {one.path: one for one in _list_versions(unpack(body))}
    try:
        found = {} if files is None else read_contents(files)
    except ValueError as error:
        said = f"#{entry.sequence}: the files of configuration {digest} cannot be read: {error}"
        return made(body=body, versions=versions, contents={}, faults=(said,))
    sound = {path for path, one in versions.items() if path in found and compute_digest(found[path]) == one.digest}
    faults = tuple(
        f"#{entry.sequence}: {path} is recorded under {versions[path].digest} and has other bytes"
        for path in versions
        if path in found and path not in sound
    )
    return made(body=body, versions=versions, contents={path: found[path] for path in sound}, faults=faults)


def _list_versions(value: Any) -> Iterator[Version]:
    """Yield versions of the canonical form of a snapshot, whatever else of it is of another version of the program."""
    if not isinstance(value, dict):
        return
    for path, file in _map(value.get("files")).items():
        kind, asset_id = find_kind(path) or "", _find_asset_id(path)
        package_id = str(_map(file).get("package_id", ""))
        package_version = str(_map(_map(value.get("packages")).get(package_id)).get("version", ""))
        own = _map(_map(value.get(_MAPPINGS.get(kind, ""))).get(asset_id)).get("version", package_version)
        yield Version(
            path, kind, asset_id, str(own), str(_map(file).get("sha256", "")), package_id, package_version
        )  # fmt: skip


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _find_asset_id(path: str) -> str:
    """Return the name of a file, or of its manifest's directory; of a framework without its title."""
    folder, _, file = path.rpartition("/")
    stem, name = file.rpartition(".")[0], folder.rpartition("/")[2]
    return stem if stem not in ("manifest", "standard") else name.partition("_")[0]


# --- what a turn was made under ---------------------------------------------------------------------------------------


def find_digest(turn: Sequence[Seen]) -> str:
    """Return the digest under which a turn was requested, else that of its first prompt; empty: it names none."""
    asked = [one.said.config_digest for one in turn if isinstance(one.said, RunRequested)]
    prompts = [one.said.config_digest for one in turn if isinstance(one.said, PromptSent)]
    return asked[0] if asked else next(filter(None, prompts), "")


def list_digests(turn: Sequence[Seen]) -> set[str]:
    """Return the digests of the configurations that a turn names: its run's and its prompts'."""
    return {one.said.config_digest for one in turn if isinstance(one.said, RunRequested | PromptSent)} - {""}


def list_used(turn: Sequence[Seen], known: Mapping[str, Configuration]) -> tuple[UsedVersion, ...]:
    """Return what a turn was made under, each once: its agent first, its settings last."""
    digest = find_digest(turn)
    wanted: list[tuple[str, str, str, str]] = []  # kind, id, configuration, and its own digest where that is recorded
    for entry, said, _ in turn:
        about = entry.provenance
        wanted += [("agent", about.agent_id, digest, ""), ("framework", about.framework_id, digest, "")]
        if isinstance(said, PromptSent):
            under = said.config_digest or digest
            wanted += [("contract", said.contract_id, under, ""), ("prompt_pack", said.prompt_pack_id, under, "")]
        elif isinstance(said, ContextAssembled):
            own = f"{_SCHEME}{said.template_hash.hex()}" if said.template_hash else ""
            wanted += [("template", said.template_id, digest, own)]
    wanted += [("config", _find_asset_id(ADMIN_CONFIG), digest, "")]
    ordered = sorted(dict.fromkeys(one for one in wanted if one[1]), key=lambda one: _ORDER.index(one[0]))
    return tuple(_make_used(*one, known) for one in ordered)


_ORDER = ("agent", "framework", "contract", "prompt_pack", "template", "config")


def _make_used(
    kind: str, asset_id: str, config_digest: str, own: str, known: Mapping[str, Configuration]
) -> UsedVersion:
    found = None if config_digest not in known else known[config_digest].named(kind, asset_id)
    if found is None or own not in ("", found.digest):  # a supervisor of another configuration took the turn over
        elsewhere = (one.named(kind, asset_id) for one in known.values())
        found = next((one for one in elsewhere if one is not None and one.digest == own), None)
    if found is not None:
        return UsedVersion(*found, config_digest)
    is_absent = not own and config_digest in known and bool(known[config_digest].versions)
    return UsedVersion("", kind, asset_id, "", own, "", "", config_digest, is_absent)


class ChangedAsset(NamedTuple):
    """A governed file that is not the same under two configurations; empty: it is not there."""

    path: str
    before: str
    after: str


def list_changed(before: Configuration | None, after: Configuration | None) -> list[ChangedAsset]:
    """Return files by path whose digests differ; nothing where either is not in the record."""
    if before is None or after is None:
        return []
    digests = [{path: one.digest for path, one in found.versions.items()} for found in (before, after)]
    paths = sorted({*digests[0], *digests[1]})
    found = [ChangedAsset(path, digests[0].get(path, ""), digests[1].get(path, "")) for path in paths]
    return [one for one in found if one.before != one.after]


# --- one version ------------------------------------------------------------------------------------------------------


class Copy(NamedTuple):
    """The bytes of one digest, as one configuration has them."""

    digest: str
    configuration: Configuration
    version: Version | None
    """None: it is the configuration's own digest."""
    content: bytes | None
    """None: the record does not have the bytes, or has others in their place."""


def copies_in(known: Iterable[Configuration]) -> list[Copy]:
    """Return what the record has of every digest, in its order; several may have the same bytes."""
    return [
        copy
        for one in known
        for copy in (
            *(Copy(each.digest, one, each, one.contents.get(path)) for path, each in one.versions.items()),
            Copy(one.digest, one, None, one.body or None),
        )
    ]
