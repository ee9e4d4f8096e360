"""A look at sensitive bodies: in the record before it is had, or not had."""

from __future__ import annotations

import pytest

from hobus.bus.errors import LedgerError
from hobus.bus.record.payloads.governance import BodiesClosed, BodiesRead
from hobus.launch.cli.tap.choice import Chooser, TurnBook
from hobus.launch.cli.tap.look import CLOSED, OPENED, Look
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.filters.tap_fields import tap_filter
from tests.launch.cli.tap.batches import batch


class Clock:
    at = 5.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class WatchedLook(Look):
    """A look whose record is a list; `fault` is raised instead, if there is one."""

    def __init__(self) -> None:
        super().__init__(None, Clock(), ("type=wo.*",), 60.0, "L")  # type: ignore[arg-type] - a place is for _write
        self.written = []
        self.fault = None

    async def _write(self, event_type, facts) -> None:
        if self.fault is not None:
            raise self.fault
        self.written.append((event_type, facts))


@pytest.fixture
def look() -> WatchedLook:
    return WatchedLook()


def choice(**fields):
    chooser = Chooser(tap_filter(()), TurnBook(None), lambda: 0.0, with_routine=True)
    return chooser.choose(batch([1, 2], **fields))


async def test_the_first_sensitive_body_is_recorded_once_and_the_end_with_its_numbers(look):
    await look.before(choice(body=b"text", sensitive=True))
    look.clock.at = 7.5
    await look.before(choice(body=b"text", sensitive=True))
    assert await look.close() == ""
    assert look.written == [
        (OPENED, BodiesRead("L", ("type=wo.*",), 60.0)),
        (CLOSED, BodiesClosed("L", 4, 2500)),
    ]


@pytest.mark.parametrize("fields", [{"body": b"text", "sensitive": False}, {"body": None, "sensitive": True}])
async def test_what_shows_nothing_sensitive_is_no_look(look, fields):
    """Other types, and frames whose body is not there."""
    await look.before(choice(**fields))
    assert await look.close() == ""
    assert look.written == []


async def test_without_the_record_nothing_is_shown(look):
    """The error ends the tap before the frame is printed."""
    look.fault = LedgerError("unavailable", "no ledger", retryable=True)
    with pytest.raises(CommandError, match="unavailable") as caught:
        await look.before(choice(body=b"text", sensitive=True))
    assert caught.value.exit_code == exit_codes.UNREACHABLE
    assert look._opened_at is None


async def test_an_end_that_cannot_be_recorded_is_said(look):
    await look.before(choice(body=b"text", sensitive=True))
    look.fault = LedgerError("unavailable", "no ledger", retryable=True)
    assert "could not be recorded" in await look.close()
