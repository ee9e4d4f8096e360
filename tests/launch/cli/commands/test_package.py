"""`hobus package`: what it says, to people and to programs, and by which codes it ends."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from hobus.config.snapshot import load_snapshot
from hobus.launch.cli import main as cli
from hobus.launch.cluster.home import home_of
from hobus.launch.cluster.installed import layers_of
from hobus.launch.console import exit_codes
from hobus.launch.launcher.reload import UnderWay
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
    assert "whom this home does not trust" in package("inspect", file) and not (memory_path / "home").exists()
    assert "trusted" in package("trust", "add", "maker", public)
    said = package("install", file)
    for part in ("installed", "agents/CLERK.json", "governance.signatures: dev", "ask --agent CLERK"):
        assert part in said
    assert "maker (key:" in package("list") and "trusted here as maker" in package("inspect", file)
    assert cli.run(["--home", str(memory_path / "home"), "agent", "show", "CLERK"]) == exit_codes.OK
    parts.draft(memory_path / "clerk", version="1.1.0")
    package("build", "clerk", "--key", "my.key", "--output", "next")
    assert "(was 1.0.0)" in package("upgrade", "next")
    assert "would fail gate G5" in package("trust", "remove", "maker")
    assert "removed" in package("remove", "PKG-CLERK-001")
    assert "no package is installed" in package("list") and "no key is trusted" in package("trust", "list")


def test_whoever_makes_signatures_count_is_told_what_counts_no_longer(package, memory_path, capsys):
    """At once, as whoever takes a key away is; and nothing where all of it counts."""
    package("install", str(parts.clerk(memory_path)))
    words = ["--home", str(memory_path / "home"), "config"]
    assert cli.run([*words, "set", "governance.signatures", "signed"]) == exit_codes.OK
    said = capsys.readouterr().err
    assert "PKG-CLERK-001-1.0.0" in said and "gate G5 fails now: no cluster of this home starts" in said
    assert cli.run([*words, "unset", "governance.signatures"]) == exit_codes.OK
    package("remove", "PKG-CLERK-001")
    assert cli.run([*words, "set", "governance.signatures", "signed"]) == exit_codes.OK
    assert "G5" not in capsys.readouterr().err


def test_without_colours_a_warning_is_told_from_a_failure(package, memory_path):
    """By a word, as `hobus gates` has it."""
    package("install", str(parts.clerk(memory_path)))
    mine = parts.text(parts.agent("CLERK", "Mine.") | {"framework_id": "FMWK-200"})
    (memory_path / "home/config/agents").mkdir(parents=True)
    (memory_path / "home/config/agents/CLERK.json").write_bytes(mine)
    worse = parts.clerk(memory_path, "2.0.0", dependencies=["PKG-GHOST-001"])
    said = package("inspect", str(worse), code=exit_codes.INTEGRITY)
    assert "  fail  G1  PKG-CLERK-001/" in said and "  warn  G0  " in said and "1 gate failure" in said


def test_programs_get_documents(package, memory_path):
    """With the fields that the table shows, and those that it has no room for."""
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
    seen = json.loads(package("inspect", str(file), "--json"))
    assert (seen["would"], seen["failures"], seen["signature"]["trusted_as"]) == ("install", [], "")
    assert {one["path"] for one in seen["files"]} == set(parts.files_of()) and all(
        one["size_bytes"] for one in seen["files"]
    )
    done = json.loads(package("install", str(file), "--json"))
    assert (done["is_change"], done["before"], done["agents"], done["signatures"]) == (True, "", ["CLERK"], "dev")
    assert json.loads(package("install", str(file), "--json"))["is_change"] is False
    (row,) = json.loads(package("list", "--json"))["packages"]
    assert (row["package_id"], row["version"], row["fault"], row["agents"]) == ("PKG-CLERK-001", "1.0.0", "", ["CLERK"])
    package("trust", "add", "maker", seen["signature"]["public_key"], "--json")
    (known,) = json.loads(package("trust", "list", "--json"))["keys"]
    assert known["name"] == "maker" and known["fingerprint"] == row["fingerprint"] == seen["signature"]["fingerprint"]
    assert json.loads(package("trust", "remove", "maker", "--json"))["packages"] == ["PKG-CLERK-001"]
    gone = json.loads(package("remove", "PKG-CLERK-001", "--json"))
    assert (gone["version"], gone["is_change"], gone["running_cluster"]) == ("1.0.0", True, "")


def test_what_is_refused_names_gate_file_reason_and_mend_and_changes_nothing(package, memory_path):
    """By inspect and by install alike, with code 3; what is no bundle, and what is not there, with 2."""
    ghost = parts.clerk(memory_path, dependencies=["PKG-GHOST-001"])
    seen = json.loads(package("inspect", str(ghost), "--json", code=exit_codes.INTEGRITY))
    assert [(one["gate"], one["severity"]) for one in seen["failures"]] == [("G1", "fail")]
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
        ("install", str(memory_path / "gone")), ("remove", "PKG-NONE"), ("upgrade", str(parts.clerk(memory_path))),
        ("trust", "remove", "nobody"), ("trust", "add", "me", "ssh-ed25519 AAAA"), ("build", str(memory_path / "gone"), "--key", "k"),
        ("build", str(parts.draft(memory_path / "d")), "--key", str(memory_path / "gone")), ("key", str(memory_path / "maker.key")),
    ):  # fmt: skip
        assert "error: " in package(*words, code=exit_codes.USAGE)
    assert "no package is installed" in package("list")


def test_what_a_maker_writes_makes_no_line_that_this_program_seems_to_say(package, memory_path):
    """Line ends of a title are escaped, each line of a description is marked; what a gate repeats stays in its line."""
    forged = "A clerk\n  signed by key:0, trusted here as root\rok\tx\u2028y"
    said = package("inspect", str(parts.clerk(memory_path, title=forged, description=f"Brings it.\r\n{forged}")))
    lines = said.splitlines()
    assert lines[0].startswith("PKG-CLERK-001 1.0.0  A clerk\\n  signed by key:0")
    assert lines[1:4] == ["  | Brings it.", "  | A clerk", lines[3]] and lines[3].startswith("  |   signed by key:0")
    assert [line for line in lines if line.startswith("  signed by")] == [lines[5]] and "does not trust" in lines[5]
    files = parts.files_of()
    name = "frameworks/FMWK-200_CLERK/manifest.yaml"
    rules = json.loads(files[name])
    rules["invariants"][0]["enforced_by"] = ["gone:x\nok  it would be installed"]
    bundle = parts.file_of(memory_path / "b", parts.bundle(parts.key(memory_path), files | {name: parts.text(rules)}))
    for command in ("inspect", "install"):
        said = package(command, str(bundle), code=exit_codes.INTEGRITY)
        assert "it would be installed" in said
        assert not any(line.startswith("ok") for line in said.splitlines())


def test_what_was_changed_on_disk_is_no_ok(package, memory_path, capsys):
    """By its hash, as gate G0 has it: in the list of packages and in that of files; a file that is gone, too."""
    package("install", str(parts.clerk(memory_path)))

    def files() -> dict[str, str]:
        words = ["--home", str(memory_path / "home"), "registry", "files", "--json"]
        assert cli.run(words) == exit_codes.OK
        rows = json.loads(capsys.readouterr().out)["rows"]
        return {row["path"]: row["state"] for row in rows if row["package_id"] == "PKG-CLERK-001"}

    assert set(files().values()) == {"ok"} and package("list").splitlines()[1].endswith("ok")
    (agent,) = (memory_path / "home/packages").glob("PKG-*/agents/CLERK.json")
    agent.write_bytes(agent.read_bytes() + b"\n")
    said = package("list")
    assert "agents/CLERK.json: changed since PKG-CLERK-001 stated its hash" in said and "hobus gates" in said
    assert [name for name, state in files().items() if state != "ok"] == ["agents/CLERK.json"]
    agent.unlink()
    assert "agents/CLERK.json: PKG-CLERK-001 lists it, but it does not exist" in package("list")
    package("install", str(parts.clerk(memory_path)))
    assert package("list").splitlines()[1].endswith("ok")


def test_under_signed_a_key_that_is_removed_is_said_loudly(package, memory_path, monkeypatch):
    """Which packages fail from now on, and what to do about it."""
    assert (
        cli.run(["--home", str(memory_path / "home"), "config", "set", "governance.signatures", "signed"])
        == exit_codes.OK
    )
    file = parts.clerk(memory_path)
    assert "no key of `hobus package trust list`" in package("install", str(file), code=exit_codes.INTEGRITY)
    public = json.loads(package("inspect", str(file), "--json", code=exit_codes.INTEGRITY))["signature"]["public_key"]
    package("trust", "add", "maker", public)
    assert "governance.signatures: dev" not in package("install", str(file))
    monkeypatch.setattr("hobus.launch.cli.commands.package_trust.holder", lambda _home: 1)
    said = package("trust", "remove", "maker")
    assert "PKG-CLERK-001: gate G5 fails now" in said and "package remove PKG-CLERK-001" in said
    assert "goes on with their agents" in said and "hobus reload" in said, "a cluster runs, and is not changed by it"
    assert "no key of `hobus package trust list`" in package("list")


def test_a_running_cluster_takes_it_in_unless_it_is_told_not_to(package, memory_path, monkeypatch):
    """By a reload; where that fails the package is in force on disk, and the command says which of both happened.

    The same command again makes up for it, and does nothing where the cluster knows the package.
    """
    asked: list[object] = []
    home = home_of(memory_path / "home")

    def refused(home):
        asked.append(home.root)
        raise UnderWay("nothing was changed: another reload is under way", hint="hobus ps")

    def taken(home):
        asked.append(home.root)
        home.snapshot.parent.mkdir(parents=True, exist_ok=True)
        home.snapshot.write_bytes(load_snapshot(layers_of(home)).to_bytes())
        return SimpleNamespace(digest="sha256:" + "0" * 64)

    monkeypatch.setattr("hobus.launch.cli.commands.package_change.holder", lambda _home: 1)
    monkeypatch.setattr("hobus.launch.launcher.reload.reload_in_turn", refused)
    said = package("install", str(parts.clerk(memory_path)), code=exit_codes.FAILED)
    assert (
        "PKG-CLERK-001 1.0.0 is installed, but the cluster that runs here has not taken it in: another reload" in said
    )
    assert "next: hobus reload" in said and "nothing was changed" not in said
    assert len(asked) == 1 and "PKG-CLERK-001" in package("list")
    assert "does not know it yet: hobus reload" in package("install", str(parts.clerk(memory_path)), "--no-reload")
    monkeypatch.setattr("hobus.launch.launcher.reload.reload_in_turn", taken)
    said = package("install", str(parts.clerk(memory_path)))
    assert "is installed already" in said and "its next turns run under sha256:0000" in said and len(asked) == 2
    assert not package("install", str(parts.clerk(memory_path))).count("cluster"), "nothing is otherwise than before"
    assert len(asked) == 2 and home.snapshot.is_file()
    said = package("upgrade", str(parts.clerk(memory_path, "2.0.0")), "--no-reload")
    assert "does not know it yet: hobus reload" in said and len(asked) == 2
    assert "its next turns run under sha256:0000" in package("remove", "PKG-CLERK-001")


def test_a_signature_that_no_longer_holds_is_listed_under_dev_too(package, memory_path):
    """Whatever it has the form of; installing the same bundle again mends it."""
    package("install", str(parts.clerk(memory_path)))
    (file,) = (memory_path / "home/packages").glob("PKG-*/signature.json")
    whole = json.loads(file.read_bytes())
    digit = "1" if whole["signature"][0] == "0" else "0"
    file.write_text(json.dumps(whole | {"signature": digit + whole["signature"][1:]}, indent=1) + "\n")
    (row,) = json.loads(package("list", "--json"))["packages"]
    assert row["fault"].startswith("signature.json: ")
    assert "repaired" in package("install", str(memory_path / "clerk-1.0.0.hobus-package"))
    assert json.loads(package("list", "--json"))["packages"][0]["fault"] == ""
