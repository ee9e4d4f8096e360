"""Under which versions of the governed files a turn was made, as commands read and print it: by the record alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hobus.bus.messages.ids import derive_snapshot_id
from hobus.launch.cluster.home import Home
from hobus.launch.sessions.provenance import (
    SNAPSHOT,
    ChangedAsset,
    Configuration,
    UsedVersion,
    read_configuration,
    shorten_digest,
)
from hobus.ledger_service.reader import EntryFilter, find_entries, read_entries

NOT_KNOWN = "not in the record"
_ABSENT = "not there"
_KINDS = {"prompt_pack": "prompt pack", "config": "settings"}


def read_configurations(home: Home) -> dict[str, Configuration]:
    """Return every recorded configuration, by digest, in the order of their first starts. Raises RuntimeFault."""
    snapshots = read_entries(home.ledger, EntryFilter(event_type=SNAPSHOT), with_bodies=True)
    return {one.digest: one for one in map(read_configuration, snapshots)}


def read_named_configurations(home: Home, digests: Iterable[str]) -> dict[str, Configuration]:
    """Return those configurations that the record has, by digest. Raises RuntimeFault."""
    found = map(read_configuration, find_entries(home.ledger, {derive_snapshot_id(one) for one in digests}))
    return {one.digest: one for one in found}


MADE_UNDER: dict[str, Callable[[UsedVersion], str] | str] = {
    "MADE UNDER": lambda one: _KINDS.get(one.kind, one.kind),
    "ID": "asset_id",
    "VERSION": lambda one: one.version or "-",
    "DIGEST": lambda one: shorten_digest(one.digest) or (_ABSENT if one.is_absent else NOT_KNOWN),
    "PACKAGE": lambda one: f"{one.package_id} {one.package_version}".strip() or "-",
}
"""Columns of a table of the files that a turn was made under."""


def change_in_words(one: ChangedAsset) -> tuple[str, str]:
    return shorten_digest(one.before) or "not there", shorten_digest(one.after) or "not there"
