"""Which versions a turn was made under, and what the record has of each: read as what they are, whatever is wrong."""

from __future__ import annotations

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.base import compute_digest, pack
from hobus.bus.messages.ids import derive_snapshot_id
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.entry import NOTHING
from hobus.config.files import SHIPPED_ROOT, list_governed
from hobus.config.on_demand import read_contents
from hobus.launch.cli.turn_view import made_under
from hobus.launch.launcher.recording import make_snapshot_entry
from hobus.launch.sessions.evidence import seen_in
from hobus.launch.sessions.provenance import (
    ChangedAsset,
    Configuration,
    copies_in,
    list_changed,
    list_used,
    read_configuration,
)

SNAPSHOT = shipped_snapshot()
ADMIN = "agents/ADMIN.json"


def recorded(*bodies: bytes | None, digest: str = SNAPSHOT.digest, sequence: int = 7) -> Entry:
    """A CONFIG_SNAPSHOT as the record has it; without bodies: the shipped one, as the launcher writes it."""
    given = bodies or tuple(make_snapshot_entry(SNAPSHOT, 1.0).bodies)
    return Entry(
        derive_snapshot_id(digest), "governance", "CONFIG_SNAPSHOT", 1_000_000, "", "", NOTHING, [], "", None, None, None,
        "launcher", 2, [], [], sequence, b"", given,
    )  # fmt: skip


def of_files(files: dict[str, bytes], sequence: int = 7) -> Configuration:
    """A configuration of any version of the program, of which these files are known alone."""
    named = {path: {"sha256": compute_digest(data), "package_id": "PKG-HOME"} for path, data in files.items()}
    body = pack({"files": named, "whatever": [1]})
    return read_configuration(recorded(body, pack(files), digest=compute_digest(body), sequence=sequence))


def test_each_file_is_there_with_its_version_owner_and_bytes() -> None:
    """As they are shipped: of those with a version their own, of the others their package's."""
    found = read_configuration(recorded())
    assert not found.faults and sorted(found.versions) == list_governed(SHIPPED_ROOT)
    assert all((SHIPPED_ROOT / path).read_bytes() == data for path, data in found.contents.items())
    contract = SNAPSHOT.contracts["PRC-SYNTHESIZE-001"]
    one = found.named("contract", "PRC-SYNTHESIZE-001")
    assert one is not None and (one.version, one.package_id) == (contract.version, "PKG-PROMPTS-001")
    agent, package = found.named("agent", "ADMIN"), SNAPSHOT.packages["PKG-ADMIN-AGENT-001"]
    assert agent is not None and (agent.version, agent.package_version) == (package.version, package.version)
    framework, standard = found.named("framework", "FMWK-004"), found.named("standard", "FMWK-004")
    assert framework is not None and standard is not None
    assert framework.version == SNAPSHOT.frameworks["FMWK-004"].version


def test_what_its_configuration_has_not_is_told_from_what_nobody_knows() -> None:
    """An agent that was removed before its turn ran, whatever earlier configurations have."""
    turn = [recorded()._replace(provenance=NOTHING._replace(agent_id="CLERK"))]
    there = of_files({"agents/CLERK.json": b"{}"})
    (agent, _) = list_used(seen_in(turn), {"": of_files({ADMIN: b"{}"}), there.digest: there})
    assert (agent.asset_id, agent.digest, agent.is_absent) == ("CLERK", "", True)
    used = [agent, *list_used(seen_in(turn), {})]
    assert [made_under.cells(one)[3] for one in used] == ["not there", *["not in the record"] * 2]


@pytest.mark.parametrize(
    ("bodies", "said", "has_versions"),
    [
        ((None, None), "was erased", False),
        ((SNAPSHOT.to_bytes()[:-1] + b"\1", SNAPSHOT.contents), "has other bytes", False),
        ((SNAPSHOT.to_bytes(), b"\xc1"), "cannot be read", True),
        ((SNAPSHOT.to_bytes(), pack([1])), "not a map of files", True),
    ],
)
def test_what_is_not_as_it_should_be_is_said(bodies: tuple[bytes | None, ...], said: str, has_versions: bool) -> None:
    """By the entry; nothing of it is shown as if it were whole."""
    found = read_configuration(recorded(*bodies))
    assert len(found.faults) == 1 and said in found.faults[0] and "#7" in found.faults[0]
    assert not found.contents and bool(found.versions) == has_versions


def test_a_file_with_other_bytes_is_named_and_left_out() -> None:
    files = read_contents(SNAPSHOT.contents)
    found = read_configuration(recorded(SNAPSHOT.to_bytes(), pack(files | {ADMIN: files[ADMIN] + b" "})))
    assert len(found.faults) == 1 and ADMIN in found.faults[0] and SNAPSHOT.files[ADMIN].sha256 in found.faults[0]
    assert set(files) - set(found.contents) == {ADMIN}
    [one] = [each for each in copies_in([found]) if each.digest == SNAPSHOT.files[ADMIN].sha256]
    assert one.content is None and one.version is not None and one.configuration == found


def test_files_that_differ_between_two_configurations_are_named_by_digest() -> None:
    """Changed, added, gone; nothing is said where one of them is not known."""
    before, after = of_files({ADMIN: b"1", "agents/B.json": b"2"}), of_files({ADMIN: b"3", "agents/C.json": b"4"})
    assert list_changed(before, after) == [
        ChangedAsset(ADMIN, compute_digest(b"1"), compute_digest(b"3")),
        ChangedAsset("agents/B.json", compute_digest(b"2"), ""),
        ChangedAsset("agents/C.json", "", compute_digest(b"4")),
    ]
    assert list_changed(before, before) == list_changed(None, after) == list_changed(before, None) == []
