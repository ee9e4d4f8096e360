"""`hobus token` and `hobus worker`: what is said to a wrong word."""

from __future__ import annotations

import pytest

from bus.join_token import JoinToken
from launch.cli import run
from launch.commands.token import seconds_of
from launch.errors import CommandError


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("2d", 172_800)])
def test_a_length_of_time(text: str, seconds: int) -> None:
    """One number, one unit."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "0s", "-1h", "1.5h", "1h30m", "1w", "\uff11h"])
def test_what_is_no_length_of_time_is_a_mistake_of_usage(text: str) -> None:
    """Exit 2 with examples."""
    with pytest.raises(CommandError) as caught:
        seconds_of(text)
    assert (caught.value.exit_code, "30m" in caught.value.message) == (2, True)


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


def test_lists_of_a_home_that_never_listened_are_empty(tmp_path, capsys) -> None:
    """No cluster is needed to look, and nothing is made."""
    for command in ("token", "keys"):
        assert run([command, "list", "--json", "--home", str(tmp_path)]) == 0
        assert capsys.readouterr().out == "[]\n"
    assert list(tmp_path.iterdir()) == []
