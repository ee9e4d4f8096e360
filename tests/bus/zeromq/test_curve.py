"""Keys: drawn apart, kept privately and durably, named without being shown."""

from __future__ import annotations

import pytest
import zmq

from hobus.bus import disk
from hobus.bus.errors import ConfigError
from hobus.bus.zeromq import curve


def test_pairs_differ_and_fit_and_show_no_secret():
    """The public half is the secret's own; neither repr nor fingerprint holds the secret."""
    pairs = [curve.draw_pair() for _ in range(50)]
    assert len({pair.public for pair in pairs}) == len({pair.secret for pair in pairs}) == 50
    for pair in pairs:
        assert zmq.curve_public(pair.secret) == pair.public
        assert pair.secret.decode() not in repr(pair) + pair.fingerprint
        assert curve.encode_key(curve.decode_key(pair.public)) == pair.public


@pytest.mark.parametrize("wrong", [b"", b"x", b"~" * 40, b"#" * 40, b"0" * 39, b"0" * 41, "é".encode() * 20])
def test_what_is_no_key_is_refused(wrong):
    with pytest.raises(ValueError, match="key"):
        curve.decode_key(wrong)


def test_a_kept_pair_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "keys" / "a.key"
    pair = curve.keep_pair(path)
    assert curve.keep_pair(path) == pair
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        curve.keep_pair(path)
    path.chmod(0o600)
    path.write_bytes(pair.secret[:20])
    with pytest.raises(ConfigError, match="join again"):
        curve.keep_pair(path)


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path):
    """What a crash left beside it is overwritten; nothing of it is ever open to others."""
    path = tmp_path / "f"
    disk.write_private(path, b"first")
    (tmp_path / ".f.new").write_bytes(b"torn")
    disk.write_private(path, b"second")
    assert path.read_bytes() == b"second"
    assert [found.name for found in tmp_path.iterdir()] == ["f"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_curve_in_the_library_nothing_may_listen(monkeypatch):
    curve.check_available()
    monkeypatch.setattr(zmq, "has", lambda _what: False)
    with pytest.raises(ConfigError, match="CURVE"):
        curve.check_available()
