"""Which session is meant: its whole id, `SES-<8 hex>`, or any unambiguous prefix of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hobus.bus.messages.ids import shorten_session
from hobus.launch.console.errors import UsageFault, format_next_here

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_PREFIX = re.compile(r"[0-9a-f]{4}[0-9a-f-]*", re.ASCII)
_LONGEST_ID = len("SES-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
_NAMED_AT_MOST = 5
_DIGITS = 18


def complete_session_id(given: str) -> str | None:
    """Return the id, where the whole of it was given; None for a prefix, which only the record can complete."""
    text = _strip_prefix(given)
    return text if _UUID.fullmatch(text) else None


def check_prefix(given: str, *, called: str) -> str:
    """Return the beginning that was given. Raises UsageFault for what begins no id."""
    if len(given) > _LONGEST_ID:
        raise UsageFault(f"{called}: {len(given)} characters; a session id has at most {_LONGEST_ID}")
    text = _strip_prefix(given)
    if not _PREFIX.fullmatch(text):
        shown = given if given.isprintable() else ascii(given)
        raise UsageFault(
            f"{called} {shown}: expected a session id or at least four hexadecimal digits of one",
            hint=format_next_here("session list --all"),
        )
    return text


def choose_one(given: str, sessions: Iterable[str], *, called: str) -> str:
    """Return the one of these sessions that begins like this. Raises UsageFault that names the candidates."""
    text = check_prefix(given, called=called)
    found = sorted({session for session in sessions if session.startswith(text)})
    if len(found) == 1:
        return found[0]
    if not found:
        raise make_no_such(given, called=called)
    named = ", ".join(found[:_NAMED_AT_MOST])
    more = f" and {len(found) - _NAMED_AT_MOST} more" if len(found) > _NAMED_AT_MOST else ""
    raise UsageFault(
        f"{called} {given}: {len(found)} sessions have that prefix: {named}{more}", hint="give more of the id"
    )


def make_no_such(given: str, *, called: str) -> UsageFault:
    return UsageFault(f"{called} {given}: no such session in the record", hint=format_next_here("session list --all"))


def run_number(given: str, session_id: str) -> int:
    """Return the number behind `3`, `<session>-3` or `SES-<8 hex>-3`. Raises UsageFault."""
    if (number := run_in_session(given, session_id)) is not None:
        return number
    raise UsageFault(
        f"--run {given[:80]}: expected the number of a run of {shorten_session(session_id)}, such as 1",
        hint=format_next_here(f"session show {shorten_session(session_id)}"),
    )


def run_in_session(given: str, session_id: str) -> int | None:
    """Return the number that this names, as `run_number` takes it; None for anything else."""
    session, dash, number = given.rpartition("-")
    is_number = number.isascii() and number.isdigit() and len(number) <= _DIGITS and int(number) > 0
    return int(number) if is_number and (not dash or session in (session_id, shorten_session(session_id))) else None


def _strip_prefix(given: str) -> str:
    """Remove the letters that people put in front."""
    text = given[4:] if given[:4].upper() == "SES-" else given
    return text.lower()
