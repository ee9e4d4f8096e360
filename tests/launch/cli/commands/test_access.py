"""`hobus token` and `hobus worker`: what is said to a wrong word."""

from __future__ import annotations

import json
import re

import pytest

from hobus.bus.join_token import JoinToken
from hobus.bus.limits import JOIN_TTL_MAX_S, JOIN_USES_MAX, MAILBOX_MAX
from hobus.bus.zeromq.key_book import beyond_bounds
from hobus.launch.cli.commands.access import seconds_of
from hobus.launch.cli.main import run
from hobus.launch.console.errors import CommandError
from hobus.launch.worker.main import check_slots


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("10m", 600), ("1h", 3600), ("2d", 172_800), ("1h30m", 5400)],
)
def test_a_length_of_time(text: str, seconds: int) -> None:
    """The grammar of every duration."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "0s", "0.5s", "-1h", "30m1h", "1w", "\uff11h"])
def test_what_is_no_length_of_time_is_a_mistake_of_usage(text: str) -> None:
    """Exit 2, and what is expected."""
    with pytest.raises(CommandError) as caught:
        seconds_of(text)
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


def test_lists_of_a_home_that_never_listened_are_empty(tmp_path, capsys) -> None:
    """No cluster is needed to look, and nothing is made."""
    for command in ("token", "keys"):
        assert run([command, "list", "--json", "--home", str(tmp_path)]) == 0
        assert json.loads(capsys.readouterr().out) == {f"{command}s" if command == "token" else command: []}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ttl_s", "uses", "option"), [(10**12, 1, "--ttl"), (60, 10**20, "--uses")])
def test_a_token_beyond_the_bounds_is_told_of(ttl_s: int, uses: int, option: str) -> None:
    """However large the number; the command asks before the broker does."""
    assert not beyond_bounds(JOIN_TTL_MAX_S, JOIN_USES_MAX)
    assert re.match(f"{option} .*: at most ", beyond_bounds(ttl_s, uses))


def test_more_slots_than_a_mailbox_takes_are_a_mistake_of_usage() -> None:
    """Exit 2 with the limit."""
    for slots in (None, 1, MAILBOX_MAX):
        check_slots(slots)
    with pytest.raises(CommandError, match="at most 4096") as caught:
        check_slots(MAILBOX_MAX + 1)
    assert caught.value.exit_code == 2


def test_an_empty_address_to_listen_at_is_a_mistake_of_usage(tmp_path, capsys) -> None:
    """Exit 2 before anything is started."""
    assert run(["up", "--detach", "--listen", "", "--home", str(tmp_path)]) == 2
    assert "HOST:PORT" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
