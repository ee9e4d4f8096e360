"""`hobus token` and `hobus worker`: what is said to a wrong word."""

from __future__ import annotations

import pytest

from hobus.bus.join_token import JoinToken
from hobus.bus.limits import MAILBOX_MAX
from hobus.launch.cli.commands.access import _choose_address, parse_seconds
from hobus.launch.cli.main import run
from hobus.launch.console.errors import CommandError


@pytest.mark.parametrize("text", ["", "h", "0s", "0.5s", "-1h", "30m1h", "1w", "\uff11h"])
def test_what_is_no_length_of_time_is_a_mistake_of_usage(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_seconds(text)
    assert (caught.value.exit_code, "expected" in caught.value.message) == (2, True)


def test_a_wrong_word_is_no_token_and_is_not_repeated(tmp_path, capsys) -> None:
    """Exit 2 before anything is made; a token with a typo is a secret still."""
    word = JoinToken("10.0.0.7:5570", bytes(32), bytes(range(32))).encode()
    wrong = word[:60] + ("b" if word[60] == "a" else "a") + word[61:]
    assert run(["worker", "join", wrong, "--home", str(tmp_path / "w")]) == 2
    said = capsys.readouterr().err
    assert "checksum" in said
    assert "hobus token create" in said
    assert wrong[10:40] not in said
    assert not (tmp_path / "w").exists()


def test_a_wrong_address_of_a_token_is_told_by_its_option() -> None:
    """Where the cluster listens is no matter of it."""
    with pytest.raises(CommandError) as caught:
        _choose_address("127.0.0.1:5570", "foo:99999")
    assert "--address" in caught.value.message and caught.value.hint == "the same command with --address HOST:PORT"


def test_a_second_key_of_a_name_is_refused_with_what_replaces_it(tmp_path, capsys) -> None:
    create = ["token", "create", "--role", "http", "--name", "ci", "--home", str(tmp_path)]
    assert run(create) == 0
    assert run(create) == 2
    said = capsys.readouterr().err
    assert "hobus keys rotate ci --home" in said and "hobus keys revoke ci --home" in said


@pytest.mark.parametrize("slots", [0, MAILBOX_MAX + 1])
def test_more_slots_than_a_mailbox_takes_are_a_mistake_of_usage(tmp_path, capsys, slots: int) -> None:
    """Before a token is spent for it."""
    word = JoinToken("10.0.0.7:5570", bytes(32), bytes(range(32))).encode()
    assert run(["worker", "join", word, "--slots", str(slots), "--home", str(tmp_path / "w")]) == 2
    assert "4096" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()
