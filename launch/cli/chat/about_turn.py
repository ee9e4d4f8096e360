"""`/why` in the chat: the account of `hobus why`, read from the record's files, whoever of the cluster is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hobus.launch.cli.chat.cells import printable
from hobus.launch.cli.turn_account import run_in
from hobus.launch.cli.turn_why import explained
from hobus.launch.cli.why_parts import lines_of
from hobus.launch.cli.why_view import parts_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_here
from hobus.launch.sessions.journal_files import session_in

if TYPE_CHECKING:
    from hobus.launch.cli.chat.talk import Talk

_DIM = "bright_black"
_USAGE = "/why, or /why and the number of a turn of this session, or SES-…-n"


async def about_turn(words: list[str], talk: Talk) -> list[tuple[str, str]]:
    """Why a turn was answered as it was: the last one, unless one is named. Raises RuntimeFault, CommandError."""
    if len(words) > 1:
        raise CommandError("/why: expected one turn", hint=_USAGE, exit_code=exit_codes.USAGE)
    given = words[0] if words else None
    if given is None and talk.current_session is None:
        return [("there is no session yet: the first message begins one", _DIM)]
    # Beside the loop: what is typed meanwhile is heard, however large the record is.
    return await asyncio.to_thread(_told, talk.home, talk.current_session, given)


def _told(home: Home, current: str | None, given: str | None) -> list[tuple[str, str]]:
    demand_record(home)
    session, number = _meant(given, current)
    found = explained(home, session_in(home.ledger, session, called="/why"), number, called="/why")
    lines = [(printable(line), "") for line in lines_of(parts_of(found))]
    return [*lines, (f"{next_here(f'why {found.name} --prompts')} prints its prompts whole", _DIM)]


def _meant(given: str | None, current: str | None) -> tuple[str, str | None]:
    """The session and the turn in it; None: its last one. Raises CommandError (usage)."""
    if given is not None and (named := run_in(given)) is not None:
        return named
    if given is not None and (given[:4].upper() == "SES-" or current is None):
        return given, None
    assert current is not None  # noqa: S101 - without one, a turn was given
    return current, given
