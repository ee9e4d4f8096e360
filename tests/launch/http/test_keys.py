"""Keys of the door, and whose sessions are whose."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.clock import SystemClock
from hobus.bus.disk import write_private
from hobus.bus.record.catalog import read_body
from hobus.launch.cluster.home import make_home
from hobus.launch.http.keys import (
    CREATED,
    REVOKED,
    BearerKeys,
    Ownership,
    create,
    list_keys,
    list_revoked,
    make_directory_path,
    make_entries,
    read_owner_secret,
    revoke,
    rotate,
)

NEW_ID = SystemClock().new_id
NAMES = st.text("abcdefgh0123_-", min_size=1, max_size=8)


def named(key):
    """Whose it is."""
    return None if key is None else key.principal


def test_a_key_is_good_until_it_ends_or_is_taken_back(tmp_path):
    """At once, also for a book that knew it; what lies in the home is no key."""
    home = make_home(tmp_path)
    alice = create(home, "alice", new_id=NEW_ID, now_us=10, ttl_s=None)
    bob = create(home, "bob", new_id=NEW_ID, now_us=0, ttl_s=1)
    book = BearerKeys(home)
    assert named(book.key_of(f"Bearer {alice}", now_us=2**60)) == "alice"
    assert named(book.key_of(f"bearer {bob}", now_us=999_999)) == "bob"
    assert book.key_of(f"Bearer {bob}", now_us=1_000_000) is None
    with pytest.raises(FileExistsError):
        create(home, "alice", new_id=NEW_ID, now_us=0, ttl_s=None)
    assert revoke(home, "alice", now_us=11)
    assert not revoke(home, "alice", now_us=12) and not revoke(home, "../http.secret", now_us=12)
    assert book.key_of(f"Bearer {alice}", now_us=0) is None
    assert [key.principal for key in list_keys(home)] == ["bob"]
    files = [path for path in make_directory_path(home).rglob("*") if path.is_file()]
    assert bob not in "".join(path.read_text() for path in files) and all(
        path.stat().st_mode & 0o77 == 0 for path in files
    )


def test_a_key_that_is_being_taken_back_opens_nothing_whatever_breaks_off(tmp_path):
    """Killed between the word that it is gone and its file; a new one of the same name is another key."""
    home = make_home(tmp_path)
    first = create(home, "alice", new_id=NEW_ID, now_us=1, ttl_s=None)
    file = make_directory_path(home) / "alice.json"
    kept = file.read_bytes()
    assert revoke(home, "alice", now_us=2)
    file.write_bytes(kept)
    book = BearerKeys(home)
    assert book.key_of(f"Bearer {first}", now_us=0) is None and list_keys(home) == []
    second = create(home, "alice", new_id=NEW_ID, now_us=3, ttl_s=None)
    assert book.key_of(f"Bearer {first}", now_us=0) is None
    assert named(book.key_of(f"Bearer {second}", now_us=0)) == "alice"


def test_a_change_within_one_tick_of_the_file_system_is_seen(tmp_path):
    """Two changes may have one time: a book that read between them reads again."""
    home = make_home(tmp_path)
    alice = create(home, "alice", new_id=NEW_ID, now_us=1, ttl_s=None)
    now_ns = make_directory_path(home).stat().st_mtime_ns
    book = BearerKeys(home)
    assert named(book.key_of(f"Bearer {alice}", now_us=now_ns // 1000)) == "alice"
    assert revoke(home, "alice", now_us=2)
    for folder in (make_directory_path(home), make_directory_path(home) / "revoked"):
        os.utime(folder, ns=(now_ns, now_ns))
    assert book.key_of(f"Bearer {alice}", now_us=now_ns // 1000) is None


def test_what_is_recorded_of_keys_is_no_key(tmp_path):
    """Name, fingerprint and times, the same at every door."""
    home = make_home(tmp_path)
    words = [create(home, name, new_id=NEW_ID, now_us=5, ttl_s=9) for name in ("alice", "bob")]
    assert revoke(home, "bob", now_us=7)
    one, two = (make_entries(list_keys(home), list_revoked(home)) for _ in range(2))
    assert one == two and [(entry.event_type, read_body(entry).name) for entry in one] == [
        (CREATED, "alice"), (REVOKED, "bob"),
    ]  # fmt: skip
    assert not any(word.removeprefix("hobus-") in repr(one) for word in words)


def test_a_damaged_file_is_no_key_and_harms_no_other(tmp_path):
    """Half a file, somebody else's file."""
    home = make_home(tmp_path)
    alice = create(home, "alice", new_id=NEW_ID, now_us=0, ttl_s=None)
    (make_directory_path(home) / "half.json").write_text('{"principal": "x"')
    assert named(BearerKeys(home).key_of(f"Bearer {alice}", now_us=0)) == "alice"


def test_doors_of_a_home_share_one_secret(tmp_path):
    """The first one makes it; nothing else is left."""
    home = make_home(tmp_path)
    assert read_owner_secret(home, new_id=NEW_ID) == read_owner_secret(home, new_id=NEW_ID)
    assert [path.name for path in home.keys.iterdir()] == ["http.secret"]


@given(NAMES, NAMES, st.text(max_size=20), st.integers(0, 31), st.integers(1, 15))
def test_a_session_is_of_one_name_and_no_digit_of_it_can_be_changed(mine, other, seed, at, by):
    """Owned by its principal under its secret alone."""
    owners = Ownership(b"secret")
    session = owners.session_id(mine, seed)
    assert session == owners.session_id(mine, seed) and owners.owns(mine, session)
    assert owners.owns(other, session) == (mine == other)
    assert not Ownership(b"other").owns(mine, session)
    digits = session.replace("-", "")
    changed = digits[:at] + f"{int(digits[at], 16) ^ by:x}" + digits[at + 1 :]
    hyphened = "-".join((changed[:8], changed[8:12], changed[12:16], changed[16:20], changed[20:]))
    assert not owners.owns(mine, hyphened) and not owners.owns(
        mine, session.upper() if session.upper() != session else "x"
    )


@pytest.mark.parametrize(
    ("may", "asked", "opens"),
    [
        ("use", "POST /v1/sessions", True), ("use", "GET /metrics", True),
        ("metrics", "GET /metrics", True), ("metrics", "POST /metrics", False), ("metrics", "GET /metrics/x", False),
        ("metrics", "GET /v1/sessions", False), ("metrics", "POST /v1/chat/completions", False),
        ("approve", "GET /v1/sessions", True), ("approve", "POST /v1/sessions", False),
        ("approve", "POST /v1/sessions/x/commands", True), ("approve", "POST /v1/sessions/x/turns", False),
        ("approve", "GET /v1/sessions/x", False), ("approve", "POST /v1/sessions/x/commands\nGET /x", False),
        ("approve", "GET /metrics", False),
    ],
)  # fmt: skip
def test_a_key_opens_what_it_was_made_for_alone(tmp_path, may, asked, opens):
    """By method and whole path; the door refuses all else."""
    create(make_home(tmp_path), "alice", new_id=NEW_ID, now_us=0, ttl_s=None, may=may)
    (key,) = list_keys(make_home(tmp_path))
    assert key.opens(*asked.split(" ", 1)) is opens


def test_a_rotated_key_is_good_for_its_grace_beside_the_new_one(tmp_path):
    """The new one for as long as the old was made for; revoked, none of them opens anything; recorded, each once."""
    home = make_home(tmp_path)
    first = create(home, "alice", new_id=NEW_ID, now_us=0, ttl_s=100, may="metrics")
    (was,) = list_keys(home)
    create(home, "alice-b", new_id=NEW_ID, now_us=0, ttl_s=None)
    assert rotate(home, "bob", new_id=NEW_ID, now_us=0, grace_s=1) is None
    book, made = BearerKeys(home), make_entries(list_keys(home), [])
    second = rotate(home, "alice", new_id=NEW_ID, now_us=10_000_000, grace_s=5)
    for now_us, good in [(14_999_999, [True, True]), (15_000_000, [False, True]), (110_000_000, [False, False])]:
        assert [book.key_of(f"Bearer {word}", now_us=now_us) is not None for word in (first, second)] == good
    known = book.key_of(f"Bearer {second}", now_us=0)
    assert (known.may, known.principal) == ("metrics", "alice")
    told = make_entries(list_keys(home), [])
    assert len(told) == 3 and all(one in told for one in made)
    (news,) = [read_body(one) for one in told if one not in made]
    assert (news.replaces, news.replaced_until_us) == (f"key:{was.fingerprint}", 15_000_000)
    third = rotate(home, "alice", new_id=NEW_ID, now_us=12_000_000, grace_s=5)
    assert all(book.key_of(f"Bearer {word}", now_us=14_000_000) for word in (first, second, third))
    assert revoke(home, "alice", now_us=13_000_000)
    assert not any(book.key_of(f"Bearer {word}", now_us=13_000_000) for word in (first, second, third))
    assert [key.principal for key in list_keys(home)] == ["alice-b"]
    assert {len(read_body(one).key) for one in make_entries([], list_revoked(home))} == {20} and len(
        list_revoked(home)
    ) == 3


def test_a_rotation_that_broke_off_leaves_the_old_key_good(tmp_path, monkeypatch):
    """Before the new key was written: nothing has changed; afterwards, unseen: the old one may be rotated within its grace."""
    home = make_home(tmp_path)
    first = create(home, "alice", new_id=NEW_ID, now_us=0, ttl_s=None)
    book, written = BearerKeys(home), []

    def breaks_off(path, data):
        written.append(path)
        if len(written) > 1:
            raise OSError("killed")
        write_private(path, data)

    with monkeypatch.context() as patch:
        patch.setattr("hobus.launch.http.keys.write_private", breaks_off)
        with pytest.raises(OSError, match="killed"):
            rotate(home, "alice", new_id=NEW_ID, now_us=0, grace_s=1)
    assert named(book.key_of(f"Bearer {first}", now_us=2**60)) == "alice"
    rotate(home, "alice", new_id=NEW_ID, now_us=0, grace_s=10)  # nobody saw this one
    second = rotate(home, "alice", new_id=NEW_ID, now_us=1, grace_s=10)
    assert all(named(book.key_of(f"Bearer {word}", now_us=9_000_000)) == "alice" for word in (first, second))
