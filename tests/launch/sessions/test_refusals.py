"""What refusals mean."""

import shlex
from contextvars import copy_context

import click
import pytest

from hobus.bus.messages.session import COMMAND_REFUSALS, CommandVerdict
from hobus.launch.console import exit_codes
from hobus.launch.sessions.refusals import REFUSALS, make_refused, make_table
from tests.architecture.source import ROOT
from tests.docs.test_readme import resolve
from tests.launch.sessions.entries import SESSION


@pytest.mark.parametrize("code", COMMAND_REFUSALS)
def test_a_refusal_says_code_meaning_facts_and_a_next_command_that_parses(code: str) -> None:
    verdict = CommandVerdict(
        session_id=SESSION, command_id="c", outcome="rejected", reason=f"{code}: some facts", lifecycle="Idle",
        session_epoch=1,
    )  # fmt: skip
    error = make_refused(verdict)
    assert error.exit_code == exit_codes.REFUSED
    assert code in error.message and REFUSALS[code].means in error.message and "some facts" in error.message
    command, rest = resolve(shlex.split(error.hint))
    assert isinstance(command, click.Command)
    copy_context().run(command.make_context, "hobus", rest)  # it notes whose home is meant


def test_the_page_shows_this_list():
    """`python -m hobus.launch.sessions.refusals` prints it."""
    assert make_table() in (ROOT / "docs" / "sessions.md").read_text(encoding="utf-8")
