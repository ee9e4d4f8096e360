"""Links to the console that a cluster offers: of this user's commands, for one sign-in, and not for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from hobus.bus.clock import SystemClock
from hobus.launch.cluster.console_file import ConsoleLink, make_link, redeem
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.limits import LINK_S


class _Hand(SystemClock):
    at = 1e9

    def now(self) -> float:
        return self.at


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = make_home(tmp_path / "home")
    made.run.mkdir(parents=True, mode=0o700)
    made.offered_console.write_text("127.0.0.1:7")
    return made


def word_in(link: str) -> str:
    address, _, word = link.partition("/sign-in?word=")
    assert address == "http://127.0.0.1:7"
    return word


def test_a_link_signs_in_once(home: Home) -> None:
    """Whom it was made for; the home holds its hash alone, in a file of this user."""
    clock, ada = _Hand(), ConsoleLink("ada lovelace", "viewer")
    word = word_in(make_link(home, clock, ada))
    files = list(home.links.iterdir())
    assert [word in one.name + one.read_text() for one in files] == [False]
    assert files[0].stat().st_mode & 0o077 == home.links.stat().st_mode & 0o077 == 0
    assert redeem(home, word, clock) == ada
    assert redeem(home, word, clock) is None


def test_a_link_that_is_too_old_signs_nobody_in_and_goes_with_the_next_one(home: Home) -> None:
    clock = _Hand()
    word = word_in(make_link(home, clock, ConsoleLink("ada", "operator")))
    clock.at += LINK_S
    assert redeem(home, word, clock) is None
    make_link(home, clock, ConsoleLink("bob", "operator"))
    clock.at += LINK_S
    make_link(home, clock, ConsoleLink("eve", "operator"))
    assert len(list(home.links.iterdir())) == 1


@pytest.mark.parametrize("word", ["", "../console", "x" * 10_000, "\0", "\ud800"])
def test_no_other_word_signs_in(home: Home, word: str) -> None:
    """Whatever a browser sends; nothing beside the links is looked at, or removed."""
    make_link(home, _Hand(), ConsoleLink("ada", "operator"))
    assert redeem(home, word, _Hand()) is None
    assert home.offered_console.exists() and len(list(home.links.iterdir())) == 1
