"""What is remembered of what was typed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hobus.launch.cli.chat.prompt import ChatHistory


def remembered(path: Path, lines_max: int = 5) -> list[str]:
    """What the next chat finds, the newest first."""
    return list(ChatHistory(path, lines_max).load_history_strings())


@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), max_size=8))
def test_messages_come_back_whole_the_newest_first_and_not_more_than_are_kept(tmp_path_factory, messages):
    """Also those of several lines, and what is no valid text."""
    path = tmp_path_factory.mktemp("home") / "chat_history"
    for message in messages:
        ChatHistory(path, 5).store_string(message)
    assert remembered(path) == messages[::-1][:5]


def test_the_file_is_private_and_lines_of_another_program_are_kept(tmp_path):
    """A file that line editing wrote before holds plain lines."""
    path = tmp_path / "chat_history"
    path.write_text('hello\n12\n["x"]\n')
    ChatHistory(path, 5).store_string("a\nb")
    assert remembered(path) == ["a\nb", '["x"]', "12", "hello"]
    path.unlink()
    ChatHistory(path, 5).store_string("x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_history_that_cannot_be_kept_ends_no_chat(tmp_path):
    """The message is said all the same."""
    history = ChatHistory(tmp_path / "nowhere" / "chat_history", 5)
    history.store_string("hello")
    assert list(history.load_history_strings()) == []
    directory = tmp_path / "chat_history"
    directory.mkdir()
    ChatHistory(directory, 5).store_string("hello")
    assert remembered(directory) == []


@pytest.mark.slow
def test_chats_of_one_home_lose_nothing_of_each_other(tmp_path):
    """They take turns at the file."""
    path = tmp_path / "chat_history"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", (
                "import sys, pathlib; from hobus.launch.cli.chat.prompt import ChatHistory; "
                "history = ChatHistory(pathlib.Path(sys.argv[1]), 1000); "
                "[history.store_string(f'{sys.argv[2]} {n}') for n in range(100)]"
            ), str(path), name],
        )
        for name in "ab"
    ]  # fmt: skip
    assert [writer.wait(30) for writer in writers] == [0, 0]
    assert sorted(remembered(path, 1000)) == sorted(f"{name} {n}" for name in "ab" for n in range(100))


def test_what_is_no_plain_file_is_no_history(tmp_path):
    """A pipe would be waited for."""
    os.mkfifo(tmp_path / "chat_history")
    ChatHistory(tmp_path / "chat_history", 5).store_string("hello")
    assert remembered(tmp_path / "chat_history") == []
