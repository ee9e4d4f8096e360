"""Packages of real homes: whoever is killed or finds no room leaves the old ones in force, or the new."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cluster import begun, hobus
from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes
from hobus.launch.packages.installing import map_installed
from tests.launch.packages import parts
from tests.process.small_disk import small_disk

pytestmark = pytest.mark.process

AFTER = {
    "install": {"PKG-CLERK-001": "1.0.0", "PKG-BOSS-001": "1.0.0"}, "upgrade": {"PKG-CLERK-001": "2.0.0"}, "remove": {},
}  # fmt: skip
BEFORE = {"PKG-CLERK-001": "1.0.0"}


@pytest.mark.parametrize(("name", "least"), [("install", 25), ("upgrade", 25), ("remove", 5)])
def test_a_command_that_is_killed_at_any_operation_leaves_the_old_packages_or_the_new(tmp_path, name, least):
    """SIGKILL at each of them: what is in force is whole, the next command works, and takes away what was left."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.launch.packages.killed", str(tmp_path), name],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) >= least
    assert all(line["found"] in (BEFORE, AFTER[name]) and line["whole"] and line["swept"] for line in lines), lines
    states = [line["found"] == AFTER[name] for line in lines]
    assert states == sorted(states), "once it is new it stays so"
    assert any(states) and not all(states)
    listed = hobus("package", "list", "--json", "--home", lines[len(lines) // 2]["home"])
    assert [row["fault"] for row in listed.json["packages"]] == [""] * len(listed.json["packages"]), listed.err


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", "256k") as directory:
        yield directory


def test_a_package_for_which_there_is_no_room_is_not_installed_and_is_once_there_is(small, tmp_path):
    """A real disk without room: the sentence names it, what was installed stays in force, nothing is left over."""
    home, at = make_home(small / "home"), ("--home", str(small / "home"))
    assert hobus("package", "install", str(parts.clerk(tmp_path)), *at).code == exit_codes.OK
    filler = small / "filler"
    filler.write_bytes(b"x" * (180 << 10))
    version_2 = str(parts.clerk(tmp_path, "2.0.0"))
    large = b"# Clerk\n" * (20 << 10)
    files = parts.files_of(prompt="Two.") | {"frameworks/FMWK-200_CLERK/standard.md": large}
    path = parts.file_of(tmp_path / "large", parts.bundle(parts.key(tmp_path), files, version="1.5.0"))
    refused = hobus("package", "install", str(path), *at)
    assert (
        refused.code == exit_codes.FAILED
        and "No space left on device" in refused.err
        and "nothing was changed" in refused.err
    )
    assert {one.version for one in map_installed(home).values()} == {"1.0.0"}
    assert (
        sorted(path.name for path in home.packages.iterdir())[:1] == [".lock"]
        and not (home.packages / ".staging").exists()
    )
    filler.unlink()
    assert hobus("package", "install", version_2, *at).code == exit_codes.OK
    assert {one.version for one in map_installed(home).values()} == {"2.0.0"}


def test_of_several_at_once_each_comes_in_whole_or_is_told_to_wait(tmp_path):
    """Five programs install five packages in one home."""
    home = make_home(tmp_path / "home")
    paths = [parts.other(tmp_path, f"BOSS{number}", 300 + number) for number in range(5)]
    running = [begun("package", "install", str(path), "--home", str(home.root)) for path in paths]
    ended = [(one.communicate(timeout=120), one.returncode) for one in running]
    codes = [code for _, code in ended]
    assert set(codes) <= {exit_codes.OK, exit_codes.REFUSED} and exit_codes.OK in codes
    assert all(b"another command is changing the packages" in err for (_, err), code in ended if code)
    assert len(map_installed(home)) == codes.count(exit_codes.OK)
    for path in paths:
        assert hobus("package", "install", str(path), "--home", str(home.root)).code == exit_codes.OK
    assert len(map_installed(home)) == 5
    assert hobus("gates", "--enforce", "--home", str(home.root)).code == exit_codes.OK
