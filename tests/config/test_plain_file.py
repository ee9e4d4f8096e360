"""A file is read if it is one; nothing else is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hobus.config.files import GovernedFile, read_plain_file


def test_the_bytes_of_a_plain_file_are_read_up_to_the_bound(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"12345")
    link.symlink_to(path)
    assert read_plain_file(path) == read_plain_file(path, 5) == read_plain_file(link, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_plain_file(path, 4)


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened = len(list(Path("/dev/fd").iterdir()))
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a plain file"):
            read_plain_file(path)
    assert len(list(Path("/dev/fd").iterdir())) == opened
    with pytest.raises(OSError, match="not a plain file"):  # put there after it was found
        _ = GovernedFile("agents/BOT.json", "agent", pipe, "own").content
