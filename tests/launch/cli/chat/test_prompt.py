"""What is remembered of what was typed."""

from __future__ import annotations

from hobus.launch.cli.chat.prompt import ChatHistory


def remembered(path):
    return list(ChatHistory(path).load_history_strings())


def test_messages_come_back_whole_the_newest_first(tmp_path):
    for message in ("hello", "two\nlines", "é"):
        ChatHistory(tmp_path / "chat_history").store_string(message)
    assert remembered(tmp_path / "chat_history") == ["é", "two\nlines", "hello"]


def test_a_history_that_cannot_be_kept_ends_no_chat(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "chat_history"):
        ChatHistory(path).store_string("hello")
        assert remembered(path) == []
