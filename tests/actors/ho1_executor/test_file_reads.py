"""Files below allowed roots, with real files, links, pipes and devices: what is read, and what is refused in words."""

import hashlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho1_executor import file_reads
from hobus.actors.ho1_executor.file_reads import FileReads, _holds_key
from hobus.bus.join_token import JoinToken
from hobus.launch.cluster.home import HomeLock, is_home, make_home, prepare
from hobus.launch.worker.home import WorkerHome
from tests.linear_time import is_linear

MAX = 1_000


@pytest.fixture
def root(tmp_path) -> Path:
    """Of two directories side by side the one that is permitted; a home lies in it."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "note.txt").write_text("grün\n", encoding="utf-8")
    (root / "home").mkdir()
    (root / "home" / "token").write_text("hidden", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return root


def read(root, path, max_bytes=MAX, roots=None):
    """As the executor whose home lies below the root."""
    return FileReads((str(root / "home"),), is_home).read(str(path), roots or (str(root),), max_bytes)


def test_a_file_below_a_root_is_read_with_its_digest(root):
    (root / "inside").symlink_to("docs/note.txt")
    data = "grün\n".encode()
    for path in (root / "docs/note.txt", "docs/note.txt", "inside", "./docs//note.txt"):
        found = read(root, path, roots=(str(root / "nowhere"), str(root)))
        assert (found.refused, found.warning, found.text, found.size_bytes) == ("", "", "grün\n", 6)
        assert found.path == str((root / "docs/note.txt").resolve()) and not found.is_cut
        assert found.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_a_root_may_be_a_link_a_home_directory_or_everything(root, tmp_path, monkeypatch):
    """What the configuration names is followed; `*` leaves out the home and the system's own files."""
    (tmp_path / "link").symlink_to(root)
    assert read(root, "docs/note.txt", roots=(str(tmp_path / "link"),)).text == "grün\n"
    assert read(root, root / "docs/note.txt", roots=(str(tmp_path / "link"),)).text == "grün\n"
    monkeypatch.setenv("HOME", str(root))
    assert read(root, "docs/note.txt", roots=("~/",)).text == "grün\n"
    assert read(root, "~/docs/note.txt", roots=("*",)).text == "grün\n"
    for path in ("/proc/self/environ", "/sys/kernel/mm/transparent_hugepage/enabled", root / "home/token"):
        if Path(path).exists():
            found = read(root, path, roots=("*",))
            assert (found.refused, found.text) == ("outside", "") and "where no agent reads" in found.warning


def test_another_clusters_home_is_no_agents_to_read(root):
    """One that was made before homes had a mark is known by the directories of a cluster, all of them side by side."""
    other = root / "other"
    for name in ("ledger", "logs", "run"):
        (other / name / "deep").mkdir(parents=True)
    (other / "admin_config.json").write_text("{}")
    (other / "run" / "deep" / "token").write_text("hidden")
    assert read(root, other / "admin_config.json", roots=("*",)).text == "{}"
    (other / "spool").mkdir()
    (root / "to-other").symlink_to("other/run/deep/token")
    for path in ("other/admin_config.json", "other/run/deep/token", "to-other"):
        found = read(root, path)
        assert (found.refused, found.text) == ("outside", "") and "home of a cluster" in found.warning
    assert read(root, "docs/note.txt").text == "grün\n"


@pytest.mark.parametrize("was_there", [False, True])
def test_a_home_is_known_by_its_mark_whatever_is_missing_in_it(root, was_there):
    """A worker's, and a cluster's whose logs somebody removed; also where the directory was there before."""
    worker, cluster = WorkerHome(make_home(root / "docs/w1")), make_home(root / "docs/c1")
    if was_there:
        worker.home.root.mkdir()
        cluster.root.mkdir()
    prepare(cluster)
    for lock in (worker.hold(), HomeLock.take(cluster)):
        assert lock is not None
        lock.release()
    cluster.logs.rmdir()
    for home in (worker.home, cluster):
        (home.root / "note").write_text("hidden")
        found = read(root, home.root / "note")
        assert (found.refused, found.text) == ("outside", "") and "home of a cluster or worker" in found.warning


@pytest.mark.parametrize("file", ["worker.key", "keys/broker.key", "keys/http.secret"])
def test_an_older_home_is_known_by_its_keys(root, file):
    (root / "old/keys").mkdir(parents=True)
    (root / "old" / file).write_text("hidden")
    (root / "old/note").write_text("hidden")
    assert read(root, "old/note").refused == read(root, f"old/{file}").refused == "outside"


def test_a_private_folder_of_keys_is_nobodys_to_read(root):
    """Such as that of a home that was never started, with the typed key of a provider; open to all, it is a folder."""
    (root / "keys").mkdir(mode=0o755)
    (root / "keys/provider-mine").write_text("hidden")
    assert read(root, "keys/provider-mine").text == "hidden"
    (root / "keys").chmod(0o700)
    assert read(root, "keys/provider-mine").refused == "outside"


HOSTILE = [
    ("", f"-----BEGIN {'PRIVATE'} KEY-----\n", ""),
    (f"-----BEGIN {'PRIVATE'} KEY-----\n", "a: b\n", ""),
    ("", "hobus1", ""),
    ("hobus-", "0", "g"),
]


def test_a_text_four_times_as_long_takes_about_four_times_as_long():
    """Whoever wrote it: an executor that looks at a text does nothing else meanwhile."""
    assert [text for text in HOSTILE if not is_linear(_holds_key, *text)] == []


def test_a_file_with_two_names_is_refused(root):
    """The other one may lie in a home."""
    os.link(root / "home/token", root / "docs/token")
    found = read(root, "docs/token")
    assert (
        (found.refused, found.text) == ("outside", "")
        and "2 names (hard links)" in found.warning
        and "copy it" in found.warning
    )


BODY = "AbCdEfGh12345678" * 4
KEYS = {
    "of HTTP": f"hobus-{'0a' * 32}",
    "to join by": JoinToken("host:1", b"1" * 32, b"2" * 32).encode(),
    "of a provider": f"sk-{'x' * 20}",
    "of a service account": f'{{"private_key": "-----BEGIN {"PRIVATE"} KEY-----\\n{BODY}\\n"}}',
    "of OpenSSL": f"-----BEGIN RSA {'PRIVATE'} KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n{BODY}",
    "in a text": f"kept for Bob\n-----BEGIN {'PRIVATE'} KEY-----\n{BODY}",
    "of OpenPGP": f"-----BEGIN PGP {'PRIVATE'} KEY BLOCK-----\n\n{BODY}",
    "of HTTP as it was told": f'{{"name": "alice", "key": "hobus-{"0a" * 32}"}}',
    "of HTTP in a line": f"key=hobus-{'0a' * 32}",
    "to join by as it was told": f"hobus worker join {JoinToken('host:1', b'1' * 32, b'2' * 32).encode()}",
}


@pytest.mark.parametrize(
    "name", ["id_rsa", "server.pem", ".env", ".env.local", "credentials.json", ".ssh/config", "aws/.aws/x"]
)
def test_what_is_for_keys_by_its_name_or_place_is_not_read(root, name):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("hidden")
    (root / "docs/plain").symlink_to(root / name)
    for path in (name, "docs/plain"):
        found = read(root, path)
        assert (found.refused, found.text) == ("outside", "") and "for keys" in found.warning


@pytest.mark.parametrize("name", ["id_mapping.py", "environment.md", "keys.txt", "id_rsa.pub", "credentialsafe.md"])
def test_what_only_sounds_like_it_is_read(root, name):
    (root / name).write_text("shown")
    assert read(root, name).text == "shown"


@pytest.mark.parametrize("max_bytes", [MAX, 20])
@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS))
def test_a_key_is_known_wherever_it_lies_and_however_it_is_called(root, key, max_bytes):
    (root / "docs/copy.txt").write_text(f"{key}\n")
    found = read(root, "docs/copy.txt", max_bytes)
    assert (found.refused, found.text) == ("outside", "") and "which goes into no prompt: " in found.warning


@pytest.mark.parametrize(
    "text",
    [
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "word", "", f"use sk-{'x' * 20} here", "a" * 41, "a word " * 20,
        f"{'0a' * 32}  hobus.tar.gz", "`AGE-SECRET-KEY-1...`", "a .ppk has Private-Lines: 8", "keys begin with hobus-",
        f"It begins with `-----BEGIN RSA {'PRIVATE'} KEY-----`.\n", "0a" * 32,
        f'{{"kty": "EC", "crv": "P-256", "x": "{"A" * 43}"}}', f'{{"d": "{BODY[:43]}"}}',
    ],
)  # fmt: skip
def test_what_is_no_key_is_read(root, text):
    (root / "docs/text").write_text(text)
    assert read(root, "docs/text").text == text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../secret.txt", "outside"), ("docs/../../secret.txt", "outside"), ("docs/..", "outside"),
        ("{outside}/secret.txt", "outside"), ("/etc/passwd", "outside"), ("{root}2/x", "outside"), ("{root}/../secret.txt", "outside"),
        ("out", "outside"), ("out-dir/secret.txt", "outside"), ("absolute", "outside"), ("home/token", "outside"), ("to-home", "outside"),
        ("loop", "unreadable"), ("dangling", "not_found"), ("nothing", "not_found"), ("docs/note.txt/x", "not_found"),
        ("docs", "not_a_file"), ("pipe", "not_a_file"), ("socket", "not_a_file"), ("to-null", "outside"),
        ("", "not_a_path"), ("  ", "not_a_path"), ("docs\0/note.txt", "not_a_path"), ("a\nb", "not_a_path"), ("x" * 5_000, "unreadable"),
        ("~nobody-here/x", "not_found"), ("binary", "not_text"), ("latin-1", "not_text"), ("torn", "not_text"),
    ],
)  # fmt: skip
def test_everything_else_is_refused_in_words(root, tmp_path, monkeypatch, path, code):
    """Ways out by `..`, by absolute paths and links; what is no file; what is no text. Nothing waits, nothing is shown."""
    (root / "out").symlink_to("../secret.txt")
    (root / "out-dir").symlink_to("..")
    (root / "absolute").symlink_to(tmp_path / "secret.txt")
    (root / "to-home").symlink_to("home/token")
    (root / "to-null").symlink_to("/dev/null")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("not-there")
    os.mkfifo(root / "pipe")
    (root / "binary").write_bytes(b"text\0more")
    (root / "latin-1").write_bytes("grün".encode("latin-1"))
    (root / "torn").write_bytes("ü".encode()[:1])
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("socket")
        found = read(root, path.format(root=root, outside=tmp_path))
    assert (found.refused, found.text, found.digest, found.path) == (code, "", "", "")
    assert found.warning.isprintable() and len(found.warning) < 400 and ": " in found.warning


@pytest.mark.parametrize("roots", [(), ("docs",), ("",)])
def test_without_a_root_nothing_is_read(root, roots):
    found = FileReads((), is_home).read(str(root / "docs/note.txt"), roots, MAX)
    assert found.refused == "not_permitted" and "permissions.paths" in found.warning


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told_so(root):
    (root / "docs/note.txt").chmod(0)
    found = read(root, "docs/note.txt")
    assert found.refused == "unreadable" and "Permission denied" in found.warning


def test_a_huge_file_is_cut_at_a_whole_character_and_says_so(root):
    """Only what is shown is read, also of terabytes that are no data at all; the digest is of what is shown."""
    big = root / "big"
    big.write_bytes(b"a" + "ü".encode() * 600)
    found = read(root, "big", max_bytes=10)
    assert (found.text, found.size_bytes, found.is_cut) == ("aüüüü", 1201, True)
    assert found.digest == f"sha256:{hashlib.sha256('aüüüü'.encode()).hexdigest()}"
    assert "the first 9 of 1201 bytes" in found.warning
    with big.open("ab") as file:
        file.truncate(1 << 40)
    assert read(root, "big", max_bytes=10).text == "aüüüü"
    assert read(root, "big", max_bytes=1_201).text.endswith("ü")  # exactly what is text


def test_a_file_that_changes_while_it_is_read_says_so(root, monkeypatch):
    file = root / "docs/note.txt"
    inner = file_reads._read

    def changing(descriptor, max_bytes):
        data = inner(descriptor, max_bytes)
        with file.open("a", encoding="utf-8") as more:
            more.write("more")
        return data

    monkeypatch.setattr(file_reads, "_read", changing)
    found = read(root, "docs/note.txt")
    assert found.text == "grün\n" and "it changed while it was read" in found.warning


def test_a_name_that_is_swapped_for_a_link_after_the_look_changes_nothing(root, tmp_path, monkeypatch):
    file = root / "docs/note.txt"
    inner = os.readlink

    def swapped(path, *rest):
        real = inner(path, *rest)
        file.unlink()
        file.symlink_to(tmp_path / "secret.txt")
        return real

    monkeypatch.setattr(os, "readlink", swapped)
    found = read(root, "docs/note.txt")
    assert "secret" not in found.text


def _open():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(root):
    before = _open()
    for path in ("docs/note.txt", "docs", "nothing", "home/token", "../x"):
        read(root, path)
    assert _open() == before


@pytest.mark.slow
@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_any_words_are_a_path_or_are_refused(path, roots):
    """Nothing raises, and nothing is read without a root that is one."""
    found = FileReads((), is_home).read(
        path, [root for root in roots if root != "*" and not root.startswith(("/", "~"))], 10
    )
    assert found.refused in ("not_permitted", "outside", "not_a_path") and found.warning
