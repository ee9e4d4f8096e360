"""Commands that act on a running turn: what a line means, and what is said of its verdict."""

from __future__ import annotations

import pytest

from hobus.bus.messages import session as events
from hobus.bus.messages.session import COMMAND_REFUSALS, CommandVerdict, HeldCall
from hobus.launch.cli.chat.run_commands import NAMES, is_run_command, make_refused, parse_command, render_applied
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from tests.launch.sessions.entries import SESSION

ONE = (HeldCall(call_id="001-a1", tool_id="write_file"),)
TWO = (*ONE, HeldCall(call_id="002-b2", tool_id="send_mail"))


@pytest.mark.parametrize(
    ("line", "held", "command"),
    [
        ("/steer be brief", (), events.Steer(text="be brief")),
        ("/followup  and then? ", (), events.FollowUp(text="and then?")),
        ("/pause", (), events.Pause()),
        ("/resume ", (), events.Resume()),
        ("/cancel", (), events.Cancel()),
        ("/cancel it is late", (), events.Cancel(reason="it is late")),
        ("/approve", ONE, events.Approve(call_id="001-a1")),
        ("/approve 002-b2", TWO, events.Approve(call_id="002-b2")),
        ("/approve 002", (), events.Approve(call_id="002")),
        ("/deny", ONE, events.Deny(call_id="001-a1")),
        ("/deny not now", ONE, events.Deny(call_id="001-a1", reason="not now")),
        ("/deny 002-b2 not now", TWO, events.Deny(call_id="002-b2", reason="not now")),
    ],
)
def test_what_a_line_means(line, held, command):
    """A call may be left out where only one waits; else it is named as it was shown."""
    assert parse_command(line, held) == command


@pytest.mark.parametrize(
    ("line", "held", "code", "words"),
    [
        ("/steer", (), exit_codes.USAGE, "needs a text"),
        ("/followup ", (), exit_codes.USAGE, "needs a text"),
        ("/pause now", (), exit_codes.USAGE, "takes no arguments"),
        ("/approve", (), exit_codes.REFUSED, "no tool call that was shown here waits"),
        ("/approve", TWO, exit_codes.USAGE, "001-a1 write_file, 002-b2 send_mail"),
        ("/approve 001-a1 please", ONE, exit_codes.USAGE, "only a call"),
        ("/approve all", ONE, exit_codes.USAGE, "only a call"),
        ("/deny no", TWO, exit_codes.USAGE, "001-a1 write_file, 002-b2 send_mail"),
    ],
)
def test_a_line_that_means_nothing_says_what_to_type(line, held, code, words):
    with pytest.raises(CommandError) as caught:
        parse_command(line, held)
    assert (caught.value.exit_code, words in caught.value.message) == (code, True), caught.value.message
    assert caught.value.hint


def test_only_the_names_themselves_are_commands():
    """Not with a space before them, nor with further letters."""
    assert all(is_run_command(f"{name} x") for name in NAMES)
    assert not any(map(is_run_command, (" /pause", "/paused", "/", "", "  ", "pause", "/help")))


@pytest.mark.parametrize("code", [*COMMAND_REFUSALS, "of_another_version"])
def test_every_refusal_is_words_and_the_next_thing_to_type(code):
    verdict = CommandVerdict(
        session_id=SESSION, command_id="c", outcome="rejected", reason=f"{code}: facts", lifecycle="Idle",
        session_epoch=0,
    )  # fmt: skip
    error = make_refused(verdict)
    assert error.exit_code == exit_codes.REFUSED and code in error.message and error.hint
    assert len(error.message) > len(f"refused ({code}): ")


@pytest.mark.parametrize("line", ["/steer x", "/followup x", "/pause", "/resume", "/cancel", "/approve 1", "/deny 1"])
def test_every_applied_command_says_what_it_brings(line):
    verdict = CommandVerdict(
        session_id=SESSION, command_id="c", outcome="applied", lifecycle="Running", session_epoch=0
    )  # fmt: skip
    said, _ = render_applied(verdict, parse_command(line))
    assert " " in said and "applied" not in said
