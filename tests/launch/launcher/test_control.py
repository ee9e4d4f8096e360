"""What arrives at the launcher's socket, and what is answered."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from hobus.bus.errors import BusError
from hobus.launch.launcher.control import (
    SOCKET,
    Command,
    CommandAnswer,
    CommandSender,
    LeaveCommand,
    ScaleCommand,
    send,
    serve,
)
from hobus.launch.launcher.members import is_at_odds

COMMANDS = (ScaleCommand(role="ho1", count=2), LeaveCommand(actor="ho1/1", then="start", kill=True))


async def test_a_command_is_taken_once_and_a_refusal_reaches_the_sender(tmp_path: Path) -> None:
    """As it was sent; a no is raised there with the launcher's code and reason."""
    taken: list[Command] = []

    def take(command: Command, sender: CommandSender) -> None:
        assert sender == CommandSender(os.getpid(), pwd.getpwuid(os.getuid()).pw_name)
        taken.append(command)
        if len(taken) > len(COMMANDS):
            raise BusError("unavailable", "the cluster is being stopped")

    server = await serve(tmp_path, take, timeout_s=5)
    for command in COMMANDS:
        await asyncio.to_thread(send, tmp_path, command, timeout_s=5)
    assert tuple(taken) == COMMANDS
    with pytest.raises(BusError, match="being stopped") as caught:
        await asyncio.to_thread(send, tmp_path, COMMANDS[0], timeout_s=5)
    assert caught.value.code == "unavailable"
    server.close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\n", "this version"),
        (b'{"command": "nothing"}\n', "this version"),
        (b'{"command": "scale", "role": "ho1", "count": 0}\n', "this version"),
        (b'{"command": "leave", "actor": "\\ud800", "then": "stay"}\n', "this version"),
        (b"[" * 4000 + b"\n", "this version"),
        (b"\xff\x00\n", "this version"),
        (bytes(100_000), "4096 bytes"),
    ],
)
async def test_what_is_no_command_is_refused_and_the_next_one_is_taken(tmp_path: Path, line: bytes, said: str) -> None:
    """Whatever somebody writes there, the launcher reads no more than a command's bytes, and goes on."""
    taken: list[Command] = []
    server = await serve(tmp_path, lambda command, _: taken.append(command), timeout_s=5)
    reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
    writer.write(line)
    answer = CommandAnswer.model_validate_json(await reader.readline())
    assert answer.code == "rejected" and said in answer.detail and not taken
    writer.close()
    await asyncio.to_thread(send, tmp_path, COMMANDS[0], timeout_s=5)
    assert taken == [COMMANDS[0]]
    server.close()


async def test_who_says_nothing_is_hung_up_on_and_who_is_not_answered_gives_up(tmp_path: Path) -> None:
    """Neither side waits for ever for the other."""
    server = await serve(tmp_path, lambda _command, _sender: None, timeout_s=0.05)
    reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
    assert await reader.read() == b""
    writer.close()
    server.close()
    (tmp_path / SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / SOCKET))
        mute.listen()
        with pytest.raises(BusError, match="did not answer within") as caught:
            send(tmp_path, COMMANDS[0], timeout_s=0.05)
    assert caught.value.code == "timeout"


@pytest.mark.parametrize(
    ("state", "then", "asked", "kill", "is_so"),
    [
        ("draining", "stay", "start", False, True),
        ("draining", "start", "stay", False, True),
        ("draining", "start", "start", False, False),
        ("draining", "stay", "start", True, False),
        ("ready", "stay", "start", False, False),
        ("stopped", "stay", "start", False, False),
    ],
)
def test_a_process_that_leaves_for_one_end_is_not_asked_for_another(state, then, asked, kill, is_so):
    """A restart beside a drain is refused, whoever came first; to kill it is always possible."""
    member = SimpleNamespace(state=state, then=then)
    assert is_at_odds(member, LeaveCommand(actor="ho1/1", then=asked, kill=kill)) is is_so
