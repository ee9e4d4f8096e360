"""`hobus package`: what it says, to people and to programs, and by which codes it ends."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from hobus.config.snapshot import load_snapshot
from hobus.launch.cli import main as cli
from hobus.launch.cluster.home import make_home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console import exit_codes
from hobus.launch.launcher.reload import UnderWay
from hobus.launch.packages.incoming import read_bundle
from tests.launch.packages import parts


@pytest.fixture
def package(memory_path, capsys):
    """A command of this family on one home: what it printed, after it ended by this code."""

    def run(*words: str, code: int = exit_codes.OK) -> str:
        assert cli.run(["--home", str(memory_path / "home"), "package", *words]) == code
        printed = capsys.readouterr()
        return (
            printed.out
            if "--json" in words and code in (exit_codes.OK, exit_codes.INTEGRITY)
            else printed.out + printed.err
        )

    return run


def test_from_a_key_to_an_agent_and_back(package, memory_path, monkeypatch):
    """Every command once, as the help has them; each says what comes next, and what is not looked at."""
    monkeypatch.chdir(memory_path)
    public = package("key", "my.key").splitlines()[0]
    parts.draft(memory_path / "clerk")
    assert "built" in package("build", "clerk", "--key", "my.key")
    file = "PKG-CLERK-001-1.0.0.hobus-package"
    assert "trusted" in package("trust", "add", "maker", public)
    said = package("install", file)
    for part in ("installed", "agents/CLERK.json", "governance.signatures: dev", "ask --agent CLERK"):
        assert part in said
    assert "maker (key:" in package("list")
    assert cli.run(["--home", str(memory_path / "home"), "agent", "show", "CLERK"]) == exit_codes.OK
    parts.draft(memory_path / "clerk", version="1.1.0")
    package("build", "clerk", "--key", "my.key", "--output", "next")
    assert "(was 1.0.0)" in package("install", "next")
    assert "gate G5 fails" in package("trust", "remove", "maker")
    assert "removed" in package("remove", "PKG-CLERK-001")
    assert not list((memory_path / "home/packages").glob("PKG-*"))
    assert "no package is installed" in package("list") and "no key is trusted" in package("trust", "list")


def test_programs_get_documents(package, memory_path):
    key, file = parts.key(memory_path), parts.clerk(memory_path)
    built = json.loads(
        package(
            "build",
            str(parts.draft(memory_path / "d")),
            "--key",
            str(key),
            "--output",
            str(memory_path / "b"),
            "--json",
        )
    )
    assert built["package_id"] == "PKG-CLERK-001" and built["files"] == sorted(parts.files_of())
    done = json.loads(package("install", str(file), "--json"))
    assert (done["is_change"], done["before"], done["agents"], done["signatures"]) == (True, "", ["CLERK"], "dev")
    assert json.loads(package("install", str(file), "--json"))["is_change"] is False
    (row,) = json.loads(package("list", "--json"))["packages"]
    assert (row["package_id"], row["version"], row["fault"], row["agents"]) == ("PKG-CLERK-001", "1.0.0", "", ["CLERK"])
    package("trust", "add", "maker", built["public_key"], "--json")
    (known,) = json.loads(package("trust", "list", "--json"))["keys"]
    assert known["name"] == "maker" and known["fingerprint"] == row["fingerprint"] == built["fingerprint"]
    assert json.loads(package("trust", "remove", "maker", "--json"))["packages"] == ["PKG-CLERK-001"]
    gone = json.loads(package("remove", "PKG-CLERK-001", "--json"))
    assert (gone["version"], gone["is_change"], gone["running_cluster"]) == ("1.0.0", True, "")


def test_what_is_refused_names_gate_file_reason_and_mend_and_changes_nothing(package, memory_path):
    ghost = parts.clerk(memory_path, dependencies=["PKG-GHOST-001"])
    said = package("install", str(ghost), code=exit_codes.INTEGRITY)
    for part in (
        "nothing was changed",
        "G1  PKG-CLERK-001/packages/PKG-CLERK-001/manifest.json",
        "PKG-GHOST-001",
        "install it first",
    ):
        assert part in said
    data = bytearray(ghost.read_bytes())
    data[600] ^= 1  # in the manifest
    ghost.write_bytes(data)
    assert "G5" in package("install", str(ghost), code=exit_codes.INTEGRITY)
    ghost.write_bytes(b"PK\x03\x04")
    assert "it is no package" in package("install", str(ghost), code=exit_codes.USAGE)
    for words in (
        ("install", str(memory_path / "gone")), ("remove", "PKG-NONE"),
        ("trust", "remove", "nobody"), ("trust", "add", "me", "ssh-ed25519 AAAA"), ("build", str(memory_path / "gone"), "--key", "k"),
        ("build", str(parts.draft(memory_path / "d")), "--key", str(memory_path / "gone")), ("key", str(memory_path / "maker.key")),
    ):  # fmt: skip
        assert "error: " in package(*words, code=exit_codes.USAGE)
    assert "no package is installed" in package("list")


def test_under_signed_a_key_that_is_removed_takes_its_packages_along(package, memory_path):
    """Which packages fail from now on, and what to do about it; a signature that holds no longer is listed, too."""
    config = ["--home", str(memory_path / "home"), "config", "set", "governance.signatures", "signed"]
    assert cli.run(config) == exit_codes.OK
    file = parts.clerk(memory_path)
    assert "no key of `hobus package trust list`" in package("install", str(file), code=exit_codes.INTEGRITY)
    package("trust", "add", "maker", read_bundle(file).signature.public_key)
    assert "governance.signatures: dev" not in package("install", str(file))
    said = package("trust", "remove", "maker")
    assert "PKG-CLERK-001: gate G5 fails" in said and "package remove PKG-CLERK-001" in said
    assert "no key of `hobus package trust list`" in package("list")
    (signature,) = (memory_path / "home/packages").glob("PKG-*/signature.json")
    signature.write_bytes(signature.read_bytes()[:-1])
    assert "not as they are made" in package("list")


def test_a_running_cluster_takes_it_in_unless_it_is_told_not_to(package, memory_path, monkeypatch):
    """By a reload; where that fails the package is in force on disk, and the command says which of both happened.

    The same command again makes up for it, and does nothing where the cluster knows the package.
    """
    asked: list[object] = []
    home = make_home(memory_path / "home")

    def refused(home):
        asked.append(home.root)
        raise UnderWay("nothing was changed: another reload is under way", hint="hobus ps")

    def taken(home):
        asked.append(home.root)
        home.snapshot.parent.mkdir(parents=True, exist_ok=True)
        home.snapshot.write_bytes(load_snapshot(find_layers(home)).to_bytes())
        return SimpleNamespace(digest="sha256:" + "0" * 64)

    monkeypatch.setattr("hobus.launch.cli.commands.package_change.find_holder", lambda _home: 1)
    monkeypatch.setattr("hobus.launch.launcher.reload.reload_in_turn", refused)
    said = package("install", str(parts.clerk(memory_path)), code=exit_codes.FAILED)
    assert "PKG-CLERK-001 1.0.0 is installed, but the running cluster did not load it: another reload" in said
    assert "next: hobus reload" in said and "nothing was changed" not in said
    assert len(asked) == 1 and "PKG-CLERK-001" in package("list")
    assert "does not know it yet: hobus reload" in package("install", str(parts.clerk(memory_path)), "--no-reload")
    monkeypatch.setattr("hobus.launch.launcher.reload.reload_in_turn", taken)
    said = package("install", str(parts.clerk(memory_path)))
    assert "is installed already" in said and "its next turns run under sha256:0000" in said and len(asked) == 2
    assert not package("install", str(parts.clerk(memory_path))).count("cluster"), "nothing is otherwise than before"
    assert len(asked) == 2 and home.snapshot.is_file()
    said = package("install", str(parts.clerk(memory_path, "2.0.0")), "--no-reload")
    assert "does not know it yet: hobus reload" in said and len(asked) == 2
    said = package("remove", "PKG-CLERK-001", "--no-reload")
    assert "does not know it yet: hobus reload" in said and "it runs under stay in the home until the next" in said
    assert list((home.root / "packages").glob("PKG-*"))
    package("install", str(parts.clerk(memory_path)), "--no-reload")
    assert "it runs under stay" in package("install", str(parts.clerk(memory_path, "2.0.0")), "--no-reload")
    assert len(list((home.root / "packages").glob("PKG-*"))) == 2
    assert "its next turns run under sha256:0000" in package("install", str(parts.clerk(memory_path, "3.0.0")))
    assert [one.name.rsplit("-", 2)[1] for one in (home.root / "packages").glob("PKG-*")] == ["3.0.0"]
    assert "its next turns run under sha256:0000" in package("remove", "PKG-CLERK-001")
    assert not list((home.root / "packages").glob("PKG-*"))
