"""A directory becomes a signed bundle."""

from __future__ import annotations

import json
import os

import pytest

from hobus.launch import limits
from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.packages.building import build
from hobus.launch.packages.incoming import read_bundle
from hobus.launch.packages.installing import install
from hobus.launch.packages.judging import PackageRefused
from tests.launch.packages import parts


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path / "home")


@pytest.fixture
def make(tmp_path, home):
    """Builds a draft that was made of these; the bundle's path."""

    def made(source=None, **fields):
        source = source or parts.draft(tmp_path / "draft", **fields)
        return build(home, source, parts.key(tmp_path), tmp_path / "made.hobus-package")

    return made


def test_a_draft_becomes_a_bundle_with_every_hash_and_stays_as_it_is(make, tmp_path):
    """What a draft says nothing about is filled in; what is hidden stays out; the file is the same each time."""
    source = parts.draft(tmp_path / "draft")
    file = source / "packages/PKG-CLERK-001/manifest.json"
    value = json.loads(file.read_text())
    for name in ("assets", "schema_version", "dependencies"):
        del value[name]
    file.write_text(json.dumps(value))
    (source / ".git").mkdir()
    (source / ".git/config").write_text("")
    (source / "agents/.CLERK.json.swp").write_text("")
    before = file.read_bytes()
    made = make(source)
    read = read_bundle(made.path)
    assert read.package == made.incoming.package and read.bundle.files == parts.files_of()
    assert made.left_out == [".git", "agents/.CLERK.json.swp"], "and what stays out is named"
    kinds = {asset.path: asset.classification for asset in read.package.assets}
    assert kinds["agents/CLERK.json"] == "agent" and kinds["frameworks/FMWK-200_CLERK/standard.md"] == "doc"
    assert file.read_bytes() == before and not list(source.rglob("signature.json"))
    again = tmp_path / "again"
    again.mkdir()
    assert build(make_home(again), source, parts.key(tmp_path), again / "b").path.read_bytes() == made.path.read_bytes()


def test_no_bundle_is_written_over_another_file(make, tmp_path):
    make()
    with pytest.raises(UsageFault, match="nothing is overwritten"):
        make()
    with pytest.raises(CommandError, match="the bundle cannot be written"):
        build(make_home(tmp_path / "home"), tmp_path / "draft", parts.key(tmp_path), tmp_path / "gone" / "b")


def test_what_is_no_plain_file_in_its_place_is_told_all_at_once(make, tmp_path):
    """Links, pipes, directories where files belong, strangers, settings, and what is too large."""
    source = parts.draft(tmp_path / "draft")
    (source / "agents/LINK.json").symlink_to(source / "agents/CLERK.json")
    (source / "contracts").symlink_to(source / "agents")
    os.mkfifo(source / "agents/PIPE.json")
    (source / "agents/deeper").mkdir()
    (source / "agents/deeper/X.json").write_text("{}")
    (source / "tool.py").write_text("")
    (source / "admin_config.json").write_text("{}")
    (source / "prompt_packs").mkdir()
    (source / "prompt_packs/PRM-BIG-001.txt").write_bytes(b"x" * (limits.PACKAGE_FILE_MAX_BYTES + 1))
    with pytest.raises(UsageFault) as caught:
        make(source)
    said = {
        one.partition(": ")[0].removeprefix(f"{source}/"): one.partition(": ")[2]
        for one in caught.value.message.split("\n")
    }
    assert said["agents/LINK.json"].startswith("a link") and said["contracts"].startswith("a link")
    assert said["agents/PIPE.json"].startswith("not a plain file")
    assert said["agents/deeper/X.json"].startswith("no governed file") and said["tool.py"].startswith(
        "no governed file"
    )
    assert (
        "holds no settings" in said["admin_config.json"]
        and "more than 1048576 bytes" in said["prompt_packs/PRM-BIG-001.txt"]
    )
    assert len(said) == 7


def test_a_name_that_cannot_travel_is_told_and_no_defect(make, tmp_path):
    """Not UTF-8, of another script, with a space; and a text with half of a character in the draft."""
    source = parts.draft(tmp_path / "draft", title="\ud800")
    with pytest.raises(UsageFault, match="half of a character"):
        make(source)
    for name in (b"A\xff.json", "\u0410.json".encode(), b"A B.json", b"A\n.json", b"-\x1b[31m.json"):
        with open(os.fsencode(source / "agents") + b"/" + name, "w") as file:  # noqa: PTH123 - a name in bytes
            file.write("{}")
    with pytest.raises(UsageFault) as caught:
        make(source)
    assert caught.value.message.count("no file of a package has such a name") == 5


def test_too_many_files_are_refused_before_they_are_read(make, tmp_path):
    source = parts.draft(tmp_path / "draft")
    for number in range(limits.FILES_MAX):
        (source / f"agents/A{number}.json").write_text("{}")
    with pytest.raises(UsageFault, match=r"more than 256 files"):
        make(source)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"package_id": "PKG-HOME"}, "the name of a home's own files"),
        ({"schema_version": "1.1"}, "schema_version '1.1'"),
        ({"version": "1"}, "version"),
        ({"assets": [{"path": "agents/GONE.json"}]}, "lists it, and it is not there"),
        ({"assets": 7}, "assets: a list of objects"),
        ({"assets": [{"path": "agents/CLERK.json", "classification": "song"}]}, "classification"),
        ({"more": 1}, "more"),
    ],
)
def test_a_draft_that_is_none_is_refused_with_its_fault(make, fields, said):
    """Nothing is signed that nobody could install."""
    with pytest.raises(CommandError) as caught:
        make(**fields)
    assert "its maker" not in f"{caught.value.message} {caught.value.hint}", "that is who asks"
    assert said in caught.value.message and caught.value.exit_code in (exit_codes.USAGE, exit_codes.INTEGRITY)


def test_a_directory_without_one_manifest_is_no_draft(make, tmp_path):
    """None, two, one that is no JSON, one in a directory of another name, and no directory at all."""
    source = parts.draft(tmp_path / "draft")
    file = source / "packages/PKG-CLERK-001/manifest.json"
    whole = file.read_bytes()
    for data, said in (
        (b"{", "not JSON"),
        (b"[]", "holds list"),
        (whole.replace(b"CLERK-001", b"CLERK-002"), "make them equal"),
    ):
        file.write_bytes(data)
        with pytest.raises(UsageFault, match=said):
            make(source)
    file.write_bytes(whole)
    parts.draft(source, {}, package_id="PKG-TWO")
    with pytest.raises(UsageFault, match="here is 2 of them"):
        make(source)
    for path in source.rglob("manifest.json"):
        path.unlink()
    with pytest.raises(UsageFault, match="here is none"):
        make(source)
    with pytest.raises(UsageFault, match="not a directory"):
        make(tmp_path / "gone")


def test_what_no_home_would_take_is_not_built(make, tmp_path, home):
    """The gates judge it beside what is shipped and installed; no file is left."""
    with pytest.raises(PackageRefused) as caught:
        make(dependencies=["PKG-GHOST-001"])
    (finding,) = caught.value.findings
    assert (finding.gate, finding.file) == ("G1", "PKG-CLERK-001/packages/PKG-CLERK-001/manifest.json")
    assert caught.value.exit_code == exit_codes.INTEGRITY and not (tmp_path / "made.hobus-package").exists()
    install(home, parts.other(tmp_path, "GHOST", 300))
    assert make(parts.draft(tmp_path / "draft", dependencies=["PKG-GHOST-001"])).path.exists()
    taken = parts.draft(tmp_path / "two", parts.files_of() | {"agents/GHOST.json": b"{}"})
    with pytest.raises(PackageRefused, match=r"agents/GHOST\.json: PKG-GHOST-001 has a file of this name") as caught:
        build(home, taken, parts.key(tmp_path), tmp_path / "two.hobus-package")
    told = [one for one in caught.value.findings if one.file.endswith("agents/GHOST.json")]
    assert [(one.gate, one.mend) for one in told] == [("G0", "give yours another name")], "once"
    assert all(one.file.startswith("PKG-CLERK-001/") for one in caught.value.findings), "and of nobody else"
    assert "its maker" not in caught.value.message


def test_a_package_whose_id_begins_alike_is_another_one(make, home, tmp_path):
    """It stays beside what is built: that may depend on it, and not bring its files."""
    install(home, parts.clerk(tmp_path))
    links = {"package_id": "PKG-CLERK", "spec_id": "SPEC-BOSS-001", "framework_id": "FMWK-300"}
    files = parts.files_of("BOSS", 300)
    assert make(parts.draft(tmp_path / "needs", files, dependencies=["PKG-CLERK-001"], **links)).path.exists()
    with pytest.raises(PackageRefused, match=r"agents/CLERK\.json: PKG-CLERK-001 has a file of this name"):
        make(parts.draft(tmp_path / "thief", package_id="PKG-CLERK"))
