"""A disk that is full at any moment, and two who change the same packages."""

from __future__ import annotations

import shutil

import pytest

from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, RefusedFault
from hobus.launch.packages import installing
from hobus.launch.packages.installing import install, map_installed, remove
from hobus.launch.packages.judging import LayerJudgement
from hobus.launch.packages.store import open_store
from tests.launch.packages import parts
from tests.launch.packages.injected import Failpoint, disk_with, full_disk


@pytest.fixture
def unjudged(monkeypatch):
    """What gates say is tested elsewhere; here a command is its operations."""
    nothing = LayerJudgement([])
    monkeypatch.setattr(installing, "list_refusals", lambda *_: ([], nothing))
    monkeypatch.setattr(installing, "judge_layers", lambda *_: nothing)


@pytest.fixture
def begun(memory_path, unjudged):
    """A home with the clerk in version 1, as often as it is asked for; and the bundles."""
    one, two, boss = parts.clerk(memory_path), parts.clerk(memory_path, "2.0.0"), parts.other(memory_path, "BOSS", 300)
    origin = make_home(memory_path / "origin")
    install(origin, one)

    def copy():
        shutil.rmtree(memory_path / "home", ignore_errors=True)
        shutil.copytree(origin.root, memory_path / "home")
        return make_home(memory_path / "home")

    return copy, {"install": (install, boss), "upgrade": (install, two), "remove": (remove, "PKG-CLERK-001")}


def state(home):
    return {one.package_id: one.version for one in map_installed(home).values()}


AFTER = {
    "install": {"PKG-CLERK-001": "1.0.0", "PKG-BOSS-001": "1.0.0"}, "upgrade": {"PKG-CLERK-001": "2.0.0"}, "remove": {},
}  # fmt: skip


def _refused(command, home, what, point):
    """What the command says on this disk, if it ends with a word."""
    try:
        command(home, what, disk=disk_with(point))
    except CommandError as error:
        return error
    return None


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", AFTER)
def test_a_full_disk_at_any_operation_leaves_the_old_packages_or_the_new(begun, name, stride):
    """What the command says is what is the case; the next one finds nothing in its way, and takes away what was left."""
    copy, commands = begun
    command, what = commands[name]
    counted = Failpoint()
    command(copy(), what, disk=disk_with(counted))
    assert len(counted.seen) > (5 if name == "remove" else 20)
    before, refusals = {"PKG-CLERK-001": "1.0.0"}, 0
    for at in sorted({1, 2, *range(1, len(counted.seen), stride), len(counted.seen) - 1, len(counted.seen)}):
        home = copy()
        point = Failpoint(at, full_disk)
        refused = _refused(command, home, what, point)
        if refused is not None:
            refusals += 1
            assert "No space left on device" in refused.message and refused.hint, at
        # Where nothing is said, what was left over could not be taken away, and goes next time.
        is_made = refused is None or "the change was made" in refused.message
        assert state(home) == (AFTER[name] if is_made else before), (at, counted.seen[at - 1])
        with open_store(home):
            assert {path.name for path in home.packages.glob("PKG-*")} == {
                one.directory.name for one in map_installed(home).values()
            }
            assert not list(home.packages.glob(".*.new")) and not (home.packages / ".staging").exists()
        assert all(one.package is not None and one.public_key for one in map_installed(home).values())
    assert refusals > (3 if stride == 1 else 1)


def test_one_command_at_a_time_changes_packages(begun):
    """The second is told so at once, and changes nothing; looking is nobody's privilege."""
    copy, commands = begun
    home = copy()
    with open_store(home):
        for command, what in commands.values():
            with pytest.raises(RefusedFault, match="another command is changing the packages") as caught:
                command(home, what)
            assert caught.value.exit_code == exit_codes.REFUSED
        assert state(home) == {"PKG-CLERK-001": "1.0.0"}
    command, what = commands["install"]
    command(home, what)
    assert state(home) == AFTER["install"]


def test_strangers_in_the_directory_of_packages_stay(begun):
    """What no command of ours names is not ours to take away; a link that stands where we write is not followed."""
    copy, commands = begun
    home = copy()
    (home.packages / "notes.txt").write_text("mine")
    outside = home.root / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (home.packages / ".staging").symlink_to(outside)
    (home.packages / ".installed.json.new").symlink_to(outside / "kept")
    (home.packages / "PKG-OLD-1.0.0-0123456789abcdef").symlink_to(outside)
    command, what = commands["install"]
    command(home, what)
    assert (home.packages / "notes.txt").read_text() == "mine" and (outside / "kept").read_text() == "kept"
    assert state(home) == AFTER["install"] and not list(home.packages.glob("PKG-OLD*"))
