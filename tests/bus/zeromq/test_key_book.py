"""Who may connect from elsewhere, as files: nothing is said before it is stored, nothing stored is forgotten or doubled."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from hobus.bus.envelope import HEADER_VERSION
from hobus.bus.errors import BusError, ConfigError
from hobus.bus.messages.control import CreateToken, Hello, Join, Joined, Refused, TokenCreated
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.key_book import KeyFiles, list_damaged, read_tokens, read_workers

NOW = 1_700_000_000.0
DIGEST = "sha256:" + "a" * 64


def book(folder, **changes):
    """The keys of a home as a broker of version 1.0 reads them."""
    return KeyFiles(folder, **({"version": "1.0", "config_digest": DIGEST} | changes))


def token_for(keys, *, uses=1, ttl_s=60, gone_s=0):
    """The public key of a new join token."""
    public = curve.draw_pair().public.decode()
    keys.create_token(CreateToken(public_key=public, role="ho1", ttl_s=ttl_s, uses=uses, gone_s=gone_s), NOW)
    return public


def hashed(public):
    """How a token's file names its key."""
    return hashlib.sha256(public.encode()).hexdigest()


def join(**changes):
    """A worker's word with a key of its own."""
    fields = {
        "public_key": curve.draw_pair().public.decode(), "role": "ho1", "version": "1.0", "protocol": HEADER_VERSION, "host": "box",
    }  # fmt: skip
    return Join.model_validate(fields | changes)


def hello(name, **changes):
    """A hello of an incarnation of this worker."""
    fields = {
        "instance": f"{name}@e1", "token": "", "role": "ho1", "offers": ["ho1"], "slots": 1, "version": "1.0",
        "protocol": HEADER_VERSION, "config_digest": DIGEST,
    }  # fmt: skip
    return Hello.model_validate(fields | changes)


def test_a_token_lets_as_many_workers_in_as_it_says_until_it_expires(tmp_path):
    keys = book(tmp_path)
    token = token_for(keys, uses=2, ttl_s=60)
    first, second, third = join(), join(), join()
    assert keys.join(first, token, NOW) == Joined(name="ho1/remote-1", config_digest=DIGEST)
    assert keys.join(first, token, NOW).name == "ho1/remote-1"
    assert keys.join(second, token, NOW + 59.999).name == "ho1/remote-2"
    assert keys.join(third, token, NOW).code == "token_used"
    assert keys.join(first, token, NOW + 999).name == "ho1/remote-1"
    assert keys.join(third, token_for(keys, ttl_s=60), NOW + 60).code == "token_expired"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": "2.0"}, "bad_version"),
        ({"protocol": HEADER_VERSION + 1}, "bad_protocol"),
        ({"role": "ho2"}, "role_mismatch"),
        ({"public_key": "~" * 40}, "malformed"),
        ({"public_key": ""}, "malformed"),
    ],
)
def test_a_join_that_does_not_fit_is_refused_by_name_and_uses_nothing_up(tmp_path, changes, code):
    keys = book(tmp_path)
    token = token_for(keys)
    assert keys.join(join(**changes), token, NOW).code == code
    assert isinstance(keys.join(join(), token, NOW), Joined)


def test_a_token_s_own_key_and_the_broker_s_cannot_be_enrolled(tmp_path):
    keys = book(tmp_path)
    token = token_for(keys)
    for public in (token, token_for(keys), keys.pair.public.decode()):
        assert keys.join(join(public_key=public), token, NOW).code == "malformed"
    assert keys.join(join(), token, NOW).name == "ho1/remote-1"


def test_who_connects_is_who_its_key_was_enrolled_as(tmp_path):
    """Another name or role, another version, another configuration, a token's key: each refused under its own code."""
    keys = book(tmp_path)
    token = token_for(keys)
    mine = join()
    name = keys.join(mine, token, NOW).name
    assert keys.authenticate(hello(name), mine.public_key) is None
    assert keys.authenticate(hello(name, config_digest="", offers=[]), mine.public_key) is None
    for wrong, key, code in [
        (hello("ho1/remote-2"), mine.public_key, "role_mismatch"),
        (hello("ho1/remote-10"), mine.public_key, "role_mismatch"),
        (hello("ho2/remote-1", role="ho2"), mine.public_key, "role_mismatch"),
        (hello(name, version="2.0"), mine.public_key, "bad_version"),
        (hello(name, config_digest="sha256:" + "b" * 64), mine.public_key, "other_config"),
        (hello(name), token, "not_enrolled"),
        (hello(name), curve.draw_pair().public.decode(), "not_enrolled"),
    ]:
        refused = keys.authenticate(wrong, key)
        assert isinstance(refused, Refused)
        assert refused.code == code


def test_keys_survive_a_restart_and_names_are_never_given_twice(tmp_path):
    keys = book(tmp_path)
    token = token_for(keys, uses=2)
    mine = join()
    keys.join(mine, token, NOW)
    again = book(tmp_path)
    assert again.pair == keys.pair
    assert again.knows(mine.public_key.encode())
    assert again.authenticate(hello("ho1/remote-1"), mine.public_key) is None
    assert again.join(join(), token, NOW).name == "ho1/remote-2"
    assert again.join(join(), token, NOW).code == "token_used"


def test_a_use_that_was_not_stored_is_no_use(tmp_path, monkeypatch):
    keys = book(tmp_path)
    token = token_for(keys)
    lost = join()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert keys.join(lost, token, NOW).code == "unavailable"
        with pytest.raises(BusError, match="stored"):
            token_for(keys)
    assert not keys.knows(lost.public_key.encode())
    again = book(tmp_path)
    assert read_workers(tmp_path) == []
    assert len(read_tokens(tmp_path)) == 1
    assert again.join(join(), token, NOW).name == "ho1/remote-1"


def test_an_enrolment_is_on_the_device_before_it_is_answered(tmp_path, monkeypatch):
    keys = book(tmp_path)
    token = token_for(keys)
    synced = []
    real = os.fsync

    def noted(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    keys.join(join(), token, NOW)
    assert [path.removeprefix(str(tmp_path)) for path in synced] == ["/enrolled/.remote-1.json.new", "/enrolled"]


def test_what_a_crash_left_half_written_counts_for_nothing(tmp_path):
    keys = book(tmp_path)
    token = token_for(keys)
    (tmp_path / "enrolled").mkdir()
    (tmp_path / "enrolled" / ".remote-1.json.new").write_bytes(b'{"name": "ho1/rem')
    assert book(tmp_path).join(join(), token, NOW).name == "ho1/remote-1"


def test_a_damaged_broker_key_stops_the_start_and_is_named(tmp_path):
    keys = book(tmp_path)
    path = tmp_path / "broker.key"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=path.name):
        book(tmp_path)
    path.write_bytes(whole)
    assert book(tmp_path).pair == keys.pair


def test_a_damaged_token_or_worker_is_none_and_stops_nobody_else(tmp_path):
    """It is named and lets nobody in; its number is not given again, and the others are as good as before."""
    keys = book(tmp_path)
    token, spoilt, mine, lost = token_for(keys, uses=3), token_for(keys), join(), join()
    keys.join(mine, token, NOW)
    keys.join(lost, token, NOW)
    damaged = [tmp_path / "enrolled" / "remote-2.json"]
    damaged += [path for path in (tmp_path / "tokens").iterdir() if hashed(spoilt) in path.read_text()]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:20])
    again = book(tmp_path)
    assert sorted(list_damaged(tmp_path)) == sorted(damaged)
    assert again.authenticate(hello("ho1/remote-1"), mine.public_key) is None
    assert not again.knows(lost.public_key.encode()) and not again.knows(spoilt.encode())
    assert again.join(join(), token, NOW).name == "ho1/remote-3"


def test_a_key_that_was_taken_back_gives_no_use_back(tmp_path):
    """After the broker's restart: the token is used up, the key is not let in nor enrolled again, its number is gone."""
    keys = book(tmp_path)
    token, mine = token_for(keys), join()
    keys.join(mine, token, NOW)
    book(tmp_path).revoke("ho1/remote-1")
    with pytest.raises(BusError, match="no worker 'ho1/remote-1' is enrolled"):
        book(tmp_path).revoke("ho1/remote-1")
    again = book(tmp_path)
    assert not again.knows(mine.public_key.encode())
    assert again.authenticate(hello("ho1/remote-1"), mine.public_key).code == "not_enrolled"
    assert again.join(join(), token, NOW).code == "token_used"
    assert again.join(mine, token, NOW).code == "not_enrolled"
    assert again.join(mine, token_for(again), NOW).code == "not_enrolled"
    assert again.join(join(), token_for(again), NOW).name == "ho1/remote-2"
    told = {record.submission_id: record.facts for record in book(tmp_path).take_records()}
    key = curve.compute_fingerprint(mine.public_key.encode())
    assert told[f"KEY_REVOKED:{key}"].name == "remote-1"


def test_keys_are_for_their_owner_alone_and_hold_no_secret_but_the_broker_s(tmp_path):
    """Modes 0700 and 0600; a broker key that others can read is refused; a token's file has a hash only."""
    keys = book(tmp_path / "keys")
    token = token_for(keys)
    keys.join(join(), token, NOW)
    for path in (tmp_path / "keys").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
        assert token not in path.read_text() if path.is_file() and path.parent.name == "tokens" else True
    (tmp_path / "keys" / "broker.key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        book(tmp_path / "keys")


def test_a_token_beyond_the_bounds_is_refused(tmp_path):
    keys = book(tmp_path)
    for changes, says in [({"ttl_s": 10**9}, "--ttl"), ({"uses": 10**6}, "--uses")]:
        wanted = CreateToken.model_validate(
            {"public_key": curve.draw_pair().public.decode(), "role": "ho1", "ttl_s": 1, "uses": 1} | changes
        )
        with pytest.raises(BusError, match=says):
            keys.create_token(wanted, NOW)


def test_every_key_is_recorded_once_whoever_reads_it_back(tmp_path):
    """A restarted broker records the same ids with the same content, so that a repeat adds nothing."""
    keys = book(tmp_path)
    keys.join(join(), token_for(keys), NOW)
    told = keys.take_records()
    assert [record.event_type for record in told] == ["TOKEN_CREATED", "KEY_ENROLLED"]
    assert all(record.submission_id for record in told)
    assert keys.take_records() == []
    assert book(tmp_path).take_records() == told


def test_a_refused_join_is_recorded_with_its_reason(tmp_path):
    keys = book(tmp_path)
    token = token_for(keys)
    keys.take_records()
    wanted = join(version="2.0")
    keys.join(wanted, token, NOW)
    (record,) = keys.take_records()
    assert (record.event_type, record.reason) == ("KEY_REFUSED", "bad_version")
    assert record.facts.key == curve.compute_fingerprint(wanted.public_key.encode())


def test_what_a_token_needs_is_in_the_answer(tmp_path):
    keys = book(tmp_path)
    keys.listens = "10.0.0.7:5570"
    public = curve.draw_pair().public.decode()
    created = keys.create_token(CreateToken(public_key=public, role="ho1", ttl_s=60, uses=1), NOW)
    assert created == TokenCreated(
        token_id=read_tokens(tmp_path)[0].token_id, address="10.0.0.7:5570", broker_key=keys.pair.public.decode(),
        expires_at_us=round((NOW + 60) * 1_000_000),
    )  # fmt: skip


def test_a_running_broker_s_book_takes_a_key_back_at_once(tmp_path):
    """Not known, not enrolled again, recorded once, the use stays used; a name that nobody has is told so."""
    keys = book(tmp_path)
    token, mine = token_for(keys), join()
    keys.join(mine, token, NOW)
    keys.take_records()
    assert keys.revoke("ho1/remote-1") == mine.public_key
    assert not keys.knows(mine.public_key.encode())
    assert keys.join(mine, token, NOW).code == "not_enrolled"
    assert keys.join(join(), token, NOW).code == "token_used"
    assert keys.take_records()[0].event_type == "KEY_REVOKED"
    with pytest.raises(BusError) as fault:
        keys.revoke("ho1/remote-1")
    assert fault.value.code == "not_found"


@pytest.mark.parametrize("is_running", [True, False])
def test_a_token_is_taken_back_at_once_and_its_workers_stay(tmp_path, is_running: bool):
    """By a running broker or without one, recorded once, and by every later one; it is listed no more."""
    keys = book(tmp_path)
    token, mine = token_for(keys, uses=5), join()
    keys.join(mine, token, NOW)
    keys.take_records()
    (made,) = read_tokens(tmp_path)
    if is_running:
        assert keys.revoke(made.token_id) == ""
        (told,) = keys.take_records()
        assert (told.event_type, told.facts.token, told.facts.name) == ("KEY_REVOKED", made.token_id, "")
        assert keys.join(join(), token, NOW).code == "bad_token"
        with pytest.raises(BusError):
            keys.revoke(made.token_id)
    else:
        book(tmp_path).revoke(made.token_id)
        keys = book(tmp_path)
        assert [one.event_type for one in keys.take_records()] == ["TOKEN_CREATED", "KEY_REVOKED", "KEY_ENROLLED"]
    assert not keys.knows(token.encode())
    assert keys.knows(mine.public_key.encode())
    assert read_tokens(tmp_path) == []


def test_an_ephemeral_token_counts_workers_at_once(tmp_path):
    """Gone for its time a worker is named, by a restarted broker as well; revoked, its use is free and its key is not."""
    token = token_for(keys := book(tmp_path), uses=1, gone_s=60)
    mine = join()
    keys.join(mine, token, NOW)
    keys.join(join(), token_for(keys), NOW)  # of another token: for good
    assert keys.join(join(), token, NOW).code == "token_used"
    keys = book(tmp_path)
    assert [keys.list_overdue([], 0.0, NOW), keys.list_overdue([], 59.9, NOW)] == [[], []]
    assert [
        keys.list_overdue(["ho1/remote-1"], 60.0, NOW),
        keys.list_overdue([], 61.0, NOW),
        keys.list_overdue([], 120.9, NOW),
    ] == [
        [],
        [],
        [],
    ]
    assert keys.list_overdue([], 121.0, NOW) == ["ho1/remote-1"]
    keys.revoke("ho1/remote-1")
    assert keys.list_overdue([], 999.0, NOW) == []
    assert keys.join(mine, token, NOW).code == "not_enrolled"
    assert keys.join(join(), token, NOW).name == "ho1/remote-3"


def rotating(tmp_path, **changes):
    """A book, the key of its one worker, which is to have another by NOW + 60, and the one that it enrols with it."""
    keys = book(tmp_path)
    token, mine, then = token_for(keys, uses=1, **changes), join(), join()
    keys.join(mine, token, NOW)
    keys.rotate("ho1/remote-1", NOW + 60)
    return keys, token, mine, then


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_rotated_key_s_place_is_taken_at_once(tmp_path, is_restarted):
    """Who has not heard of it is asked again, and answered the same; a broker killed at any point goes on; one use."""
    keys, token, mine, then = rotating(tmp_path)
    again = (lambda: book(tmp_path)) if is_restarted else lambda: keys
    for _ in range(2):
        assert again().join(then, mine.public_key, NOW + 1) == Joined(name="ho1/remote-1", config_digest=DIGEST)
        keys = again()
    assert keys.authenticate(hello("ho1/remote-1"), mine.public_key).code == "not_enrolled"
    assert not keys.is_rotating(mine.public_key) and not keys.is_rotating(then.public_key)
    assert keys.list_overdue([], 0.0, NOW + 99) == []
    assert not keys.knows(mine.public_key.encode())
    assert keys.authenticate(hello("ho1/remote-1"), then.public_key) is None
    assert keys.join(join(), token, NOW).code == "token_used"
    assert keys.join(mine, token_for(keys), NOW).code == "not_enrolled"
    assert keys.join(join(), token_for(keys), NOW).name == "ho1/remote-2"


def test_who_has_not_enrolled_another_key_in_time_is_named(tmp_path):
    """And told to do so until then, a broker that was restarted, too."""
    keys, _, mine, _ = rotating(tmp_path)
    assert keys.is_rotating(mine.public_key)
    assert (keys.list_overdue([], 0.0, NOW + 59.9), book(tmp_path).list_overdue([], 0.0, NOW + 60)) == (
        [],
        ["ho1/remote-1"],
    )
    assert keys.revoke("ho1/remote-1") == mine.public_key
    assert (
        not keys.knows(mine.public_key.encode())
        and keys.list_overdue([], 0.0, NOW + 999) == []
        and read_workers(tmp_path) == []
    )


def test_a_rotation_is_recorded_and_the_same_whoever_reads_it_back(tmp_path):
    """KEY_ENROLLED says which key it replaces, KEY_REVOKED which one is good no longer."""
    keys, _, mine, then = rotating(tmp_path)
    was = curve.compute_fingerprint(mine.public_key.encode())
    keys.take_records()
    keys.join(then, mine.public_key, NOW)
    enrolled, revoked = keys.take_records()
    assert (enrolled.event_type, enrolled.facts.replaces) == ("KEY_ENROLLED", was)
    assert [one for one in book(tmp_path).take_records() if one.submission_id == enrolled.submission_id] == [enrolled]
    assert (revoked.event_type, revoked.facts.key) == ("KEY_REVOKED", was)
    told = {one.submission_id: one for one in book(tmp_path).take_records()}
    assert told[enrolled.submission_id] == enrolled and told[revoked.submission_id] == revoked


def test_a_key_enrols_another_only_while_it_is_rotated_and_only_a_key_of_its_own(tmp_path):
    keys, _, mine, then = rotating(tmp_path)
    other = join()
    keys.join(other, token := token_for(keys), NOW)
    assert keys.join(join(), other.public_key, NOW).code == "bad_token"
    for public in (other.public_key, token, keys.pair.public.decode(), "~" * 40):
        assert keys.join(join(public_key=public), mine.public_key, NOW).code == "malformed"
    keys.join(then, mine.public_key, NOW)
    assert keys.join(join(), then.public_key, NOW).code == "bad_token"
    assert keys.join(join(), mine.public_key, NOW).code == "bad_token"
    assert keys.revoke("ho1/remote-1") == then.public_key
    assert not keys.knows(mine.public_key.encode()) and not keys.knows(then.public_key.encode())
    with pytest.raises(BusError, match="no worker"):
        keys.rotate("ho1/remote-1", NOW)


def test_a_full_disk_in_a_rotation_leaves_the_old_key_good(tmp_path, monkeypatch):
    keys, _, mine, then = rotating(tmp_path)

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert keys.join(then, mine.public_key, NOW).code == "unavailable"
    assert not keys.knows(then.public_key.encode()) and keys.knows(mine.public_key.encode())
    assert keys.join(then, mine.public_key, NOW).name == "ho1/remote-1"
    assert keys.knows(then.public_key.encode()) and not keys.knows(mine.public_key.encode())
