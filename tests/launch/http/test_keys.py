"""Keys of the door, and whose sessions are whose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.clock import SystemClock
from launch.home import home_of
from launch.http.keys import KeyBook, Ownership, create, directory_of, keys_in, owner_secret, revoke

NEW_ID = SystemClock().new_id
NAMES = st.text("abcdefgh0123_-", min_size=1, max_size=8)


def test_a_key_is_good_until_it_ends_or_is_taken_back(tmp_path):
    """At once, also for a book that knew it; what lies in the home is no key."""
    home = home_of(tmp_path)
    alice = create(home, "alice", new_id=NEW_ID, now_us=10, ttl_s=None)
    bob = create(home, "bob", new_id=NEW_ID, now_us=0, ttl_s=1)
    book = KeyBook(home)
    assert book.principal_of(f"Bearer {alice}", now_us=2**60) == "alice"
    assert book.principal_of(f"bearer {bob}", now_us=999_999) == "bob"
    assert book.principal_of(f"Bearer {bob}", now_us=1_000_000) is None
    with pytest.raises(FileExistsError):
        create(home, "alice", new_id=NEW_ID, now_us=0, ttl_s=None)
    assert revoke(home, "alice") and not revoke(home, "alice") and not revoke(home, "../http.secret")
    assert book.principal_of(f"Bearer {alice}", now_us=0) is None
    assert [key.principal for key in keys_in(home)] == ["bob"]
    files = list(directory_of(home).iterdir())
    assert bob not in "".join(path.read_text() for path in files) and all(
        path.stat().st_mode & 0o77 == 0 for path in files
    )


def test_a_damaged_file_is_no_key_and_harms_no_other(tmp_path):
    """Half a file, somebody else's file."""
    home = home_of(tmp_path)
    alice = create(home, "alice", new_id=NEW_ID, now_us=0, ttl_s=None)
    (directory_of(home) / "half.json").write_text('{"principal": "x"')
    assert KeyBook(home).principal_of(f"Bearer {alice}", now_us=0) == "alice"


def test_doors_of_a_home_share_one_secret(tmp_path):
    """The first one makes it; nothing else is left."""
    home = home_of(tmp_path)
    assert owner_secret(home, new_id=NEW_ID) == owner_secret(home, new_id=NEW_ID)
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
