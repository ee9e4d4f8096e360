"""Under which versions of the governed files a turn was made, as commands read and print it: by the record alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hobus.bus.messages.ids import snapshot_id
from hobus.bus.messages.ledger import Entry
from hobus.launch.cluster.home import Home
from hobus.launch.sessions.evidence import seen
from hobus.launch.sessions.provenance import (
    SNAPSHOT,
    ChangedAsset,
    Configuration,
    Used,
    configuration_in,
    named_by_run,
    short_digest,
)
from hobus.ledger_service.reader import EntryFilter, entries_with, read_entries

NOT_KNOWN = "not in the record"
_ABSENT = "not there"
_KINDS = {"prompt_pack": "prompt pack", "config": "settings"}
Run = tuple[str, int]
"""A session, and the number of a run in it."""


def configurations_of(home: Home) -> dict[str, Configuration]:
    """Return every recorded configuration, by digest, in the order of their first starts. Raises RuntimeFault."""
    found = map(configuration_in, snapshots_of(home))
    return {one.digest: one for one in found}


def configurations_with(home: Home, digests: Iterable[str]) -> dict[str, Configuration]:
    """Return those configurations that the record has, by digest. Raises RuntimeFault."""
    found = map(configuration_in, entries_with(home.ledger, {snapshot_id(one) for one in digests}))
    return {one.digest: one for one in found}


def snapshots_of(home: Home) -> Iterable[Entry]:
    return read_entries(home.ledger, EntryFilter(event_type=SNAPSHOT), with_bodies=True)


def run_of(entry: Entry) -> Run:
    """Return the run that an entry is about; number 0: none. A signal names its run in its id alone."""
    session_id, run_seq = entry.provenance.session_id, entry.provenance.run_seq
    if entry.event_type == "HO3_SIGNAL" and session_id:
        _, _, behind = entry.submission_id.partition(f"/EVT-{session_id}-")
        number = behind.partition("-")[0]
        run_seq = int(number) if number.isdecimal() else run_seq
    return session_id, run_seq


def configurations_named(home: Home, entries: Iterable[Entry]) -> dict[Run, str]:
    wanted = {run for run in map(run_of, entries) if run[1]}
    found: dict[Run, str] = {}
    if not wanted:
        return found
    requested = EntryFilter(event_type="RunRequested")
    for one in read_entries(home.ledger, requested, newest_first=True, with_bodies=True):
        if (run := run_of(one)) in wanted:
            found[run] = named_by_run([seen(one)])
            wanted.remove(run)
        if not wanted:
            break
    return found


MADE_UNDER: dict[str, Callable[[Used], str] | str] = {
    "MADE UNDER": lambda one: _KINDS.get(one.kind, one.kind),
    "ID": "asset_id",
    "VERSION": lambda one: one.version or "-",
    "DIGEST": lambda one: short_digest(one.digest) or (_ABSENT if one.is_absent else NOT_KNOWN),
    "PACKAGE": lambda one: f"{one.package_id} {one.package_version}".strip() or "-",
}
"""Columns of a table of the files that a turn was made under."""


def change_in_words(one: ChangedAsset) -> tuple[str, str]:
    return short_digest(one.before) or "not there", short_digest(one.after) or "not there"
