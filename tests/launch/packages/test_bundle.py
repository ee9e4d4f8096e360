"""The file that a package travels in."""

from __future__ import annotations

import tarfile
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch import limits
from hobus.launch.packages.bundle import Bundle, NoPackage, check_bundle, decode, encode
from tests.launch.packages import parts

NAMES = st.sampled_from([f"agents/A{n}.json" for n in range(9)] + [f"prompt_packs/PRM-{n}.txt" for n in range(9)])


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return parts.key(tmp_path_factory.mktemp("keys"))


@given(st.binary(max_size=50), st.binary(max_size=50), st.dictionaries(NAMES, st.binary(max_size=50)))
def test_what_was_packed_is_what_comes_out(manifest, signature, files):
    """And the bytes are the same whatever the order was in which the files were given."""
    made = Bundle(manifest, signature, files)
    found = decode(encode(made))
    assert found == made
    assert encode(Bundle(manifest, signature, dict(reversed(list(files.items()))))) == encode(made)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data):
    """Whatever somebody sends: refused with a sentence, or taken as the one form of what it holds."""
    whole = encode(Bundle(b"{}", b"{}", {"agents/A.json": b"1"}))
    for changed in (data, whole + data, data + whole[len(data) :]):
        try:
            found = decode(changed)
        except NoPackage:
            continue
        assert encode(found) == changed


@pytest.mark.parametrize(
    "name",
    [
        "../agents/A.json", "/agents/A.json", "agents/../../A.json", "frameworks/../manifest.yaml", "agents//A.json",
        "agents/.A.json", "agents\\A.json", "agents/A\0.json", "agents/A.json\n", "admin_config.json", "signature.json",
        "packages/PKG-B/manifest.json", "agents/\u0410.json", "agents/a b.json", "", "specs/./manifest.yaml",
        "agents/" + "A" * 300 + ".json", "src/evil.py",
    ],
)  # fmt: skip
def test_a_name_that_is_no_place_of_a_package_is_refused(key, name):
    """Nothing is ever written outside its directory, nor where the cluster's settings are."""
    good = parts.bundle(key)
    with pytest.raises(NoPackage, match=r"no file of a package has this place|no package|path"):
        check_bundle(parts.bundle(key, {**good.files, name: b"x"}))


def test_what_is_too_large_is_refused():
    """Each limit is named, and nothing is made of a stated size alone."""
    with pytest.raises(NoPackage, match=r"larger than 4194304 bytes"):
        decode(bytes(limits.BUNDLE_MAX_BYTES + 1))
    for size in (limits.PACKAGE_FILE_MAX_BYTES + 1, 2**40):
        header = tarfile.TarInfo("manifest.json")
        header.size = size
        with pytest.raises(NoPackage, match=r"more than 1048576 bytes"):
            decode(header.tobuf(tarfile.GNU_FORMAT))
    many = {f"agents/A{n:04}.json": b"" for n in range(limits.FILES_MAX)}
    with pytest.raises(NoPackage, match=r"more than 256 files"):
        decode(encode(Bundle(b"", b"", many)))
    many.popitem()
    assert len(decode(encode(Bundle(b"", b"", many))).files) == limits.FILES_MAX - 1


def test_another_archive_of_the_same_files_is_refused():
    """One package has one form: no links, no directories, no other order, no file twice, nothing behind the last."""
    data = encode(Bundle(b"", b"", {"agents/A.json": b"1", "agents/B.json": b"2"}))
    with tarfile.open(fileobj=BytesIO(data)) as tar:
        assert tar.getnames() == ["manifest.json", "signature.json", "agents/A.json", "agents/B.json"]
    for name, kind in (
        ("agents/C.json", tarfile.SYMTYPE),
        ("agents", tarfile.DIRTYPE),
        ("agents/B.json", tarfile.REGTYPE),
    ):
        archive = BytesIO(data)
        with tarfile.open(fileobj=archive, mode="a", format=tarfile.USTAR_FORMAT) as tar:
            member = tarfile.TarInfo(name)
            member.type = kind
            tar.addfile(member)
        with pytest.raises(NoPackage, match="no package"):
            decode(archive.getvalue())
    with pytest.raises(NoPackage, match="no package"):
        decode(data + b"\0")


def test_manifest_and_files_are_held_against_each_other(key):
    """A file too many, one too few, another content; names that differ by capitals alone."""
    good = parts.bundle(key, {"agents/CLERK.json": parts.text(parts.agent("CLERK"))})
    assert check_bundle(good).package_id == "PKG-CLERK-001"
    with pytest.raises(NoPackage, match=r"agents/CLERK\.json: the manifest lists it, and it is not"):
        check_bundle(Bundle(good.manifest, good.signature, {}))
    with pytest.raises(NoPackage, match=r"agents/MORE\.json: it is in the bundle, and the manifest does not"):
        check_bundle(Bundle(good.manifest, good.signature, {**good.files, "agents/MORE.json": b""}))
    with pytest.raises(NoPackage, match="another hash"):
        check_bundle(Bundle(good.manifest, good.signature, {"agents/CLERK.json": b"{}"}))
    alike = parts.bundle(key, {"agents/CLERK.json": b"1", "agents/Clerk.json": b"1"})
    with pytest.raises(NoPackage, match="differs from it by no letter"):
        check_bundle(alike)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schema_version": "1.3"}, "schema_version '1.3'; this version of hobus reads '1.2' alone"),
        ({"schema_version": 12}, "schema_version"),
        ({"package_id": "PKG-HOME"}, "the name of a home's own files"),
        ({"package_id": "pkg-clerk-001"}, "package_id"),
        ({"package_id": "PKG-CLERK\u0415"}, "package_id"),
        ({"package_id": "PKG-\uff23LERK"}, "package_id"),
        ({"package_id": "PKG-" + "A" * 61}, "package_id"),
        ({"package_id": "PKG-A\n"}, "package_id"),
        ({"version": "1.0"}, "version"),
        ({"version": "01.0.0"}, "version"),
        ({"version": "1.0.\u0661"}, "version"),
        ({"version": "1.0.0-rc1"}, "version"),
        ({"unknown": 1}, "unknown"),
        ({"title": " "}, "title"),
    ],
)
def test_a_manifest_that_is_none_is_refused_with_the_field(key, fields, said):
    """Of another schema version, with an id that looks like another one, with a version of several forms."""
    with pytest.raises(NoPackage, match=r"manifest|package_id") as caught:
        check_bundle(parts.bundle(key, **fields))
    assert said in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"null", b'{"a": 1, "a": 2}', b"[" * 100_000])
def test_a_manifest_that_is_no_object_is_refused(data):
    with pytest.raises(NoPackage, match="its manifest"):
        check_bundle(Bundle(data, b"", {}))
