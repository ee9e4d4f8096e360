"""A file that is there whole, or not at all."""

import os

import pytest

from hobus.launch.packages.signing import write_new


def test_it_is_there_with_its_mode_and_never_in_place_of_another_one(tmp_path):
    file = tmp_path / "a"
    write_new(file, b"1", mode=0o600)
    assert file.read_bytes() == b"1" and file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path in (file, tmp_path / "link", tmp_path):
        with pytest.raises(FileExistsError):
            write_new(path, b"2", mode=0o600)
    assert file.read_bytes() == b"1" and sorted(path.name for path in tmp_path.iterdir()) == ["a", "link"]


def test_of_one_that_cannot_be_finished_nothing_is_left(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_new(tmp_path / "a", b"1", mode=0o600)
    assert list(tmp_path.iterdir()) == []
