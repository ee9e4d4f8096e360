"""Packages come into a home, are replaced, and go."""

from __future__ import annotations

import json
import os
import shutil
import stat

import pytest

from hobus.config.snapshot import load_snapshot
from hobus.launch import limits
from hobus.launch.cluster.home import make_home
from hobus.launch.cluster.installed import find_layers, make_pointer_path
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.packages import trust
from hobus.launch.packages.incoming import read_bundle
from hobus.launch.packages.installing import install, map_installed, remove
from hobus.launch.packages.judging import PackageRefused, judge_layers
from hobus.launch.packages.store import open_store
from tests.launch.packages import parts

pytestmark = pytest.mark.slow


@pytest.fixture
def home(memory_path):
    return make_home(memory_path / "home")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A directory with a key, the clerk's bundle in its first version, and a home in which that was installed."""
    directory = tmp_path_factory.mktemp("begun")
    install(make_home(directory / "home"), parts.clerk(directory))
    return directory


@pytest.fixture
def clerk(begun, memory_path):
    shutil.copytree(begun, memory_path, dirs_exist_ok=True)
    return memory_path / "clerk-1.0.0.hobus-package"


def everything(home):
    """All below the home's packages, what it is and its bytes, but the lock."""
    found = home.packages.rglob("*") if home.packages.is_dir() else ()
    return {path.relative_to(home.packages).as_posix(): what_is(path) for path in found if path.name != ".lock"}


def what_is(path):
    """A file with its bytes; a directory, a link or a pipe as such."""
    mode = path.lstat().st_mode
    return stat.S_IFMT(mode), path.read_bytes() if stat.S_ISREG(mode) else b""


def own(home, files):
    for name, data in files.items():
        (home.config / name).parent.mkdir(parents=True, exist_ok=True)
        (home.config / name).write_bytes(data)


def prompt(home):
    return load_snapshot(find_layers(home)).agents["CLERK"].system_prompt


def refused(command, home, *arguments):
    """The findings of a command that the gates refuse; nothing is otherwise than before."""
    before = everything(home)
    with pytest.raises(PackageRefused) as caught:
        command(home, *arguments)
    assert caught.value.exit_code == exit_codes.INTEGRITY and everything(home) == before
    assert all(one.reason and one.mend for one in caught.value.findings)
    return [(one.gate, one.file, one.reason) for one in caught.value.findings]


def test_a_package_comes_is_upgraded_and_goes(home, memory_path):
    """Its agent is there with the next load; what went can be read by who begun to, until the next command."""
    first = install(home, parts.clerk(memory_path))
    assert first.is_change and first.now is not None and first.now.version == "1.0.0"
    assert prompt(home) == "You are a clerk, version 1.0.0." and judge_layers(home, find_layers(home)).failures == []
    second = install(home, parts.clerk(memory_path, "1.0.10"))
    assert second.before == first.now and prompt(home) == "You are a clerk, version 1.0.10."
    assert {path.name for path in home.packages.glob("PKG-*")} == {first.now.directory.name, second.now.directory.name}
    assert not install(home, parts.clerk(memory_path, "1.0.10")).is_change
    assert [path.name for path in home.packages.glob("PKG-*")] == [second.now.directory.name]
    assert remove(home, "PKG-CLERK-001").before == second.now
    assert map_installed(home) == {} and "CLERK" not in load_snapshot(find_layers(home)).agents
    with open_store(home):
        assert everything(home).keys() == {"installed.json"}
    assert load_snapshot(find_layers(home)).digest == load_snapshot().digest


def test_once_more_is_no_change(home, clerk):
    """For programs that ask for it each time; by another signer it is the same package, too."""
    before = everything(home)
    assert not install(home, clerk).is_change
    assert everything(home) == before


def test_nobodys_file_is_ever_replaced(home, memory_path):
    """Neither the home's own, nor another package's, nor a shipped one; the owner is named."""
    own(home, {"agents/CLERK.json": parts.files_of()["agents/CLERK.json"] + b"\n"})
    found = refused(install, home, parts.clerk(memory_path))
    assert next(one for one in found if one[1].endswith("agents/CLERK.json"))[2].startswith(
        "this home has a file of this name"
    )
    shutil.rmtree(home.config)
    install(home, parts.clerk(memory_path))
    thief = parts.files_of("BOSS", 300) | {"agents/CLERK.json": parts.files_of()["agents/CLERK.json"]}
    fields = {"package_id": "PKG-BOSS-001", "spec_id": "SPEC-BOSS-001", "framework_id": "FMWK-300"}
    path = parts.file_of(memory_path / "thief", parts.bundle(parts.key(memory_path), thief, **fields))
    assert ("G0", "PKG-BOSS-001/agents/CLERK.json", "PKG-CLERK-001 has a file of this name") in refused(
        install, home, path
    )
    for name in ("agents/ADMIN.json", "prompt_packs/PRM-SYNTHESIZE-001.txt"):
        thief = parts.files_of("BOSS", 300) | {name: b"x"}
        path = parts.file_of(memory_path / "thief", parts.bundle(parts.key(memory_path), thief, **fields))
        assert ("G0", f"PKG-BOSS-001/{name}", "hobus itself has a file of this name") in refused(install, home, path)


def test_no_package_has_a_shipped_ones_name_or_one_that_looks_like_it(home, memory_path):
    """Nor the name that the home's own files go by."""
    key = parts.key(memory_path)
    for name, gate in (
        ("PKG-PROMPTS-001", "G0"), ("PKG-PR0MPTS-001", "G1"), ("PKG-HOME", "G2"), ("PKG-H0ME", "G2"), ("PKG-HO-ME", "G2"),
    ):  # fmt: skip
        path = parts.file_of(memory_path / "alike", parts.bundle(key, package_id=name))
        found = refused(install, home, path)
        assert gate in {one[0] for one in found}, (name, found)


def test_dependencies_are_held_at_coming_and_at_going(home, memory_path):
    """A ghost, itself, one above it; and nobody takes away what another package needs."""
    for needs in ("PKG-GHOST-001", "PKG-CLERK-001"):
        found = refused(install, home, parts.clerk(memory_path, dependencies=[needs]))
        assert {one[0] for one in found} == {"G1"}
    install(home, parts.clerk(memory_path))
    install(home, parts.other(memory_path, "BOSS", 300, dependencies=["PKG-CLERK-001"]))
    assert any("PKG-CLERK-001" in one[2] for one in refused(remove, home, "PKG-CLERK-001"))
    found = refused(install, home, parts.clerk(memory_path, "2.0.0", dependencies=["PKG-BOSS-001"]))
    assert "lead back to themselves" in found[0][2]
    remove(home, "PKG-BOSS-001")
    remove(home, "PKG-CLERK-001")


def test_a_package_whose_parts_do_not_fit_is_refused_by_its_gate(home, memory_path):
    """What cannot be loaded, what lies outside of its framework's places, and an invariant that nothing checks."""
    key = parts.key(memory_path)
    whole = parts.files_of()
    rules = json.loads(whole["frameworks/FMWK-200_CLERK/manifest.yaml"])
    unheld = rules | {"invariants": [rules["invariants"][0] | {"enforced_by": []}]}
    cases = {
        "G2": whole | {"agents/CLERK.json": b"{}"},
        "G1": {**whole, "prompt_packs/PRM-MORE-001.txt": b"Hello."},
        "G4": whole | {"frameworks/FMWK-200_CLERK/manifest.yaml": parts.text(unheld)},
    }
    for gate, files in cases.items():
        found = refused(install, home, parts.file_of(memory_path / gate, parts.bundle(key, files)))
        assert gate in {one[0] for one in found}, found
        assert all(".staging" not in f"{one[1]}{one[2]}" and str(home.packages) not in one[1] for one in found)


def test_under_signed_only_a_trusted_key_counts(home, memory_path):
    """A key that is taken back takes its packages' word with it: what is installed fails, and an upgrade mends it."""
    own(home, {"admin_config.json": parts.text({"governance": {"signatures": "signed"}})})
    path = parts.clerk(memory_path)
    (found,) = refused(install, home, path)
    assert found[0] == "G5" and "no key of `hobus package trust list`" in found[2]
    keys = {"maker": read_bundle(path).signature.public_key}
    trust.trust(home, "maker", keys["maker"])
    install(home, path)
    assert judge_layers(home, find_layers(home)).failures == []
    other = parts.clerk(memory_path, "2.0.0", key_file=parts.key(memory_path, "other.key"))
    trust.trust(home, "other", read_bundle(other).signature.public_key)
    assert trust.distrust(home, "maker") == keys["maker"]
    assert [one.gate for one in judge_layers(home, find_layers(home)).failures] == ["G5"]
    assert {one[0] for one in refused(install, home, parts.other(memory_path, "BOSS", 300))} == {"G5"}
    install(home, other)
    assert judge_layers(home, find_layers(home)).failures == []


def test_the_homes_own_mistake_is_no_excuse_for_a_packages(home, clerk, memory_path):
    """Both name a framework that is not there; that of the package keeps it out, and that of the home does not."""
    stray = {"framework_id": "FMWK-999"}
    own(home, {"agents/OWN.json": parts.text(parts.agent("OWN") | stray)})
    files = parts.files_of() | {"agents/CLERK.json": parts.text(parts.agent("CLERK") | stray)}
    worse = parts.file_of(memory_path / "worse", parts.bundle(parts.key(memory_path), files, version="1.1.0"))
    assert {one[1] for one in refused(install, home, worse)} == {"PKG-CLERK-001/agents/CLERK.json"}
    assert install(home, parts.clerk(memory_path, "1.1.0")).is_change


def test_what_was_changed_in_an_installed_package_is_seen_and_can_be_removed(home, memory_path):
    """A file, the manifest, the signature, one more file: a gate fails for each, and taking it away mends it."""
    path, bare = parts.clerk(memory_path), find_layers(home)
    for name, gate in (
        ("agents/CLERK.json", "G0"), ("packages/PKG-CLERK-001/manifest.json", "G5"), ("contracts/PRC-MORE-001.json", "G0"),
        ("README.txt", "G0"), ("signature.json", "G5"),
    ):  # fmt: skip
        directory = install(home, path).now.directory
        file = directory / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes((file.read_bytes() if file.exists() else b"") + b" ")
        assert gate in {one.gate for one in judge_layers(home, find_layers(home)).failures}, name
        remove(home, "PKG-CLERK-001")
        assert find_layers(home) == bare
    assert judge_layers(home, bare).failures == []


def test_what_stands_in_place_of_an_installed_package_is_seen(home, clerk, memory_path):
    """No signature, and a link to another directory, fail; a hidden name in it, which nobody reads, is said."""
    path, (directory,) = clerk, find_layers(home).packages
    (directory / "agents/.hid").write_text("")
    (directory / ".more").mkdir()
    seen = judge_layers(home, find_layers(home))
    assert seen.failures == [] and [one.file for one in seen.warnings] == [
        str(directory / ".more"), str(directory / "agents/.hid")
    ]  # fmt: skip
    assert install(home, path).is_repair
    (directory / "signature.json").unlink()
    assert [(one.gate, one.file) for one in judge_layers(home, find_layers(home)).failures] == [("G5", str(directory))]
    assert install(home, path).is_repair
    elsewhere = directory.rename(memory_path / "elsewhere")
    directory.symlink_to(elsewhere)
    (failure,) = judge_layers(home, find_layers(home)).failures
    assert (failure.gate, failure.file) == ("G0", str(directory)) and "a link" in failure.reason
    assert install(home, path).is_repair
    assert judge_layers(home, find_layers(home)).failures == [] and not directory.is_symlink() and elsewhere.is_dir()


def test_what_was_damaged_is_repaired_by_installing_it_again(home, clerk, memory_path):
    """A file changed, gone or added, a link in its place, the whole directory gone; then it is as it came."""
    path, (directory,) = clerk, find_layers(home).packages
    whole = everything(home)

    def link():
        (directory / "agents/CLERK.json").unlink()
        (directory / "agents/CLERK.json").symlink_to(path)

    def pipe(name):
        (directory / name).unlink()
        os.mkfifo(directory / name)

    for damage in (
        lambda: (directory / "agents/CLERK.json").write_bytes(b"{}"),
        (directory / "signature.json").unlink,
        lambda: (directory / "agents/MORE.json").write_bytes(b"{}"),
        lambda: (directory / "packages/PKG-CLERK-001/manifest.json").write_bytes(b"{}"),
        link,
        # Nobody ever writes into it, and nobody waits for that.
        lambda: pipe("agents/CLERK.json"),
        lambda: pipe("packages/PKG-CLERK-001/manifest.json"),
        lambda: pipe("signature.json"),
        lambda: shutil.rmtree(directory),
    ):
        damage()
        done = install(home, path)
        assert done.is_repair and done.is_change and everything(home) == whole
        assert not install(home, path).is_change
    assert judge_layers(home, find_layers(home)).failures == []


def test_not_more_packages_than_are_allowed(home, memory_path, monkeypatch):
    monkeypatch.setattr(limits, "PACKAGES_MAX", 1)
    install(home, parts.clerk(memory_path))
    (found,) = refused(install, home, parts.other(memory_path, "BOSS", 300))
    assert "1 packages are installed already" in found[2]
    install(home, parts.clerk(memory_path, "2.0.0"))


def test_nothing_is_installed_where_a_pointer_is_damaged(home, clerk, memory_path):
    make_pointer_path(home).write_text("{")
    before = everything(home)
    with pytest.raises((CommandError, Exception), match=r"installed\.json"):
        install(home, parts.other(memory_path, "BOSS", 300))
    assert everything(home) == before


def test_only_a_higher_version_takes_the_place(home, memory_path):
    """Compared as numbers; by another maker it is said, under `dev` too."""
    install(home, parts.clerk(memory_path, "1.10.0"))
    before = everything(home)
    another = parts.file_of(memory_path / "another", parts.bundle(parts.key(memory_path), version="1.10.0"))
    for path in (parts.clerk(memory_path, "1.9.0"), parts.clerk(memory_path, "0.99.99"), another):
        with pytest.raises(UsageFault, match=r"is installed already") as caught:
            install(home, path)
        assert ("package remove PKG-CLERK-001" in caught.value.hint) is (path != another)
    assert everything(home) == before
    (one,) = install(home, parts.clerk(memory_path, "1.10.1", key_file=parts.key(memory_path, "other.key"))).warnings
    assert (one.gate, one.severity) == ("G5", "warn") and "signed the version that is installed" in one.reason


def test_a_key_that_is_trusted_no_longer_signs_no_higher_version(home, memory_path):
    """Though what is installed fails by it already: that excuses nothing that comes."""
    own(home, {"admin_config.json": parts.text({"governance": {"signatures": "signed"}})})
    trust.trust(home, "first", read_bundle(parts.clerk(memory_path)).signature.public_key)
    install(home, parts.clerk(memory_path))
    trust.distrust(home, "first")
    found = refused(install, home, parts.clerk(memory_path, "2.0.0"))
    assert {one[:2] for one in found} == {("G5", "PKG-CLERK-001")}


def test_what_something_here_needs_is_not_taken_away(home, clerk):
    """By a setting, or by a file of the home's own; what is not there, or shipped, makes not even a directory."""
    own(home, {"admin_config.json": parts.text({"host": {"agent_id": "CLERK"}})})
    assert any("CLERK" in one[2] for one in refused(remove, home, "PKG-CLERK-001"))
    mine = parts.text(parts.agent("MINE") | {"framework_id": "FMWK-200"})
    own(home, {"admin_config.json": b"{}", "agents/MINE.json": mine})
    found = refused(remove, home, "PKG-CLERK-001")
    assert any("agents/MINE.json" in file and "FMWK-200" in reason for _, file, reason in found)
    bare = make_home(home.root.with_name("bare"))
    for name, said in (("PKG-PROMPTS-001", "comes with hobus itself"), ("PKG-GHOST", "installed; there: none")):
        with pytest.raises(UsageFault, match=said):
            remove(bare, name)
    assert not bare.root.exists()
