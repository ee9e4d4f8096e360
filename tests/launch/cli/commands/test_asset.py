"""`hobus asset` on files alone: what it prints, byte for byte, and the exit code it ends with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.disk import RealDisk
from hobus.bus.messages.base import pack
from hobus.config.files import SHIPPED_ROOT
from hobus.config.on_demand import read_contents
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes
from hobus.launch.launcher.recording import make_snapshot_entry
from hobus.ledger_service.segment import name_segment
from tests.ledger_service.rig import ledger_config, running

SNAPSHOT = shipped_snapshot()
ADMIN = "agents/ADMIN.json"
DIGEST = SNAPSHOT.files[ADMIN].sha256
ROOM = ledger_config(segment_bytes=1_000_000, bodies_max_bytes=200_000)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return recorded(tmp_path, [SNAPSHOT.to_bytes(), SNAPSHOT.contents])


def recorded(home: Path, bodies: list[bytes]) -> Path:
    async def write() -> None:
        async with running(RealDisk(home / "ledger"), ROOM) as ledger:
            await ledger.write(make_snapshot_entry(SNAPSHOT, 1.0)._replace(bodies=bodies))

    asyncio.run(write())
    return home


def asked(home: Path, *words: str) -> int:
    return cli.run(["asset", *words, "--home", str(home)])


def test_a_version_is_printed_byte_for_byte_as_text_and_for_programs(home, capfdbinary):
    """By a short digest too; what is said about it goes to stderr."""
    content = (SHIPPED_ROOT / ADMIN).read_bytes()
    assert asked(home, DIGEST.removeprefix("sha256:")[:12]) == exit_codes.OK
    said = capfdbinary.readouterr()
    assert said.out == content and ADMIN.encode() in said.err and DIGEST.encode() in said.err
    assert asked(home, DIGEST, "--json") == exit_codes.OK
    document = json.loads(capfdbinary.readouterr().out)
    assert document["text"].encode() == content
    assert [one["path"] for one in document["versions"]] == [ADMIN]
    assert document["configurations"][0]["config_digest"] == SNAPSHOT.digest


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ffffffffffffffff", "names no version with the digest ffffffffffffffff"),
        ("sha256:", "is the beginning of"),
        (DIGEST[7:9], f"  {DIGEST[7:19]}  {ADMIN}"),
        ("", "names no version with the digest"),
    ],
)
def test_what_is_meant_by_nothing_or_by_several_is_a_mistake_with_a_way_on(home, capsys, given, said):
    assert asked(home, given) == exit_codes.USAGE
    assert said in capsys.readouterr().err


FILES = read_contents(SNAPSHOT.contents)


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        ([SNAPSHOT.to_bytes(), pack(FILES | {ADMIN: b"forged"})], f"{ADMIN} is recorded under {DIGEST}"),
        ([SNAPSHOT.to_bytes().replace(b"ADMIN", b"admin"), SNAPSHOT.contents], "has other bytes"),
        ([SNAPSHOT.to_bytes(), b"\xc1"], "cannot be read"),
    ],
)
def test_a_forged_body_is_said_and_not_printed(tmp_path, capsys, bodies, said):
    """Whoever can rewrite the record cannot make another text of a digest: exit code 3."""
    home = recorded(tmp_path, bodies)
    assert asked(home, DIGEST) == exit_codes.INTEGRITY
    shown = capsys.readouterr()
    assert not shown.out and said in " ".join(shown.err.split()) and "#0" in shown.err and "ledger verify" in shown.err


def test_a_flipped_bit_of_the_files_body_is_said(home, capsys):
    """The reader finds it before any digest does: exit code 3 with file and byte."""
    segment = home / "ledger" / "segments" / name_segment(0)
    data = bytearray(segment.read_bytes())
    at = data.find(b'"agent_id"')
    assert at > 0
    data[at + 3] ^= 1
    segment.write_bytes(data)
    assert asked(home, DIGEST) == exit_codes.INTEGRITY
    assert name_segment(0) in capsys.readouterr().err


def test_bytes_that_the_record_does_not_have_are_said_to_be_missing(tmp_path, capsys):
    """A configuration that stands there without its files."""
    home = recorded(tmp_path, [SNAPSHOT.to_bytes()])
    assert asked(home, DIGEST) == exit_codes.FAILED
    assert f"names {DIGEST} ({ADMIN}) but does not have its bytes" in " ".join(capsys.readouterr().err.split())
