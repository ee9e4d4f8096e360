"""Commands in a fork of one process end, print and read as those in an interpreter of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cluster import COMMAND_TIMEOUT_S, Answer, environment, hobus
from bench.warm import Commands

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "words",
    [
        ["config", "check"],
        ["config", "show", "bus.queue_max", "--json"],
        ["session", "list"],
        ["ask", "--no-such-option"],
        ["session", "steer", "SES-00000000", "-"],
    ],
)
def test_a_fork_says_what_an_interpreter_of_its_own_says(
    words: list[str], loaded_commands: Commands | None, tmp_path: Path
):
    """Code, standard output and standard error, of what works and of what is refused; in the directory that it is given in."""
    if loaded_commands is None:
        pytest.skip("this system cannot wait for a fork of another process")
    (tmp_path / "elsewhere").mkdir()
    own = hobus(*words, stdin=b"\xff", cwd=tmp_path / "elsewhere")
    assert loaded_commands.takes(words, environment())
    code, out, err = loaded_commands.run(
        words, stdin=b"\xff", environment=environment(), cwd=tmp_path / "elsewhere", timeout_s=COMMAND_TIMEOUT_S
    )
    assert Answer(code, out.decode(), err.decode()) == own


def test_what_begins_processes_or_has_another_language_is_not_taken(loaded_commands: Commands | None):
    """Such a command is about its own start, or keeps what it was started with."""
    if loaded_commands is None:
        pytest.skip("this system cannot wait for a fork of another process")
    assert not loaded_commands.takes(["up", "--wait"], environment())
    assert not loaded_commands.takes(["ps"], environment() | {"LC_ALL": "tr_TR.UTF-8"})
    assert loaded_commands.takes(["ps"], environment() | {"HOBUS_HOME": "/elsewhere"})
