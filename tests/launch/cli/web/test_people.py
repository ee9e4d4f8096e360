"""Links and cookies by the clock."""

from __future__ import annotations

from hobus.bus.clock import SystemClock
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.people import People
from hobus.launch.limits import LINK_S


class _Hand(SystemClock):
    at = 0.0

    def monotonic(self) -> float:
        return self.at


def test_a_link_and_a_cookie_have_their_time():
    clock = _Hand()
    people = People(clock)
    late, word = people.invite("ada", "viewer"), people.invite("bob", "operator")
    cookie = people.sign_in(word)
    assert cookie is not None and people.of(cookie).name == "bob" and people.of(cookie).operates
    clock.at = LINK_S
    assert people.sign_in(late) is None
    clock.at = limits.SIGNED_IN_S - 1
    assert people.of(cookie) is not None
    clock.at = limits.SIGNED_IN_S
    assert people.of(cookie) is None and people.of("") is None


def test_browsers_beyond_the_bound_take_the_place_of_the_first():
    people = People(SystemClock())
    cookies = [people.sign_in(people.invite("ada", "viewer")) for _ in range(limits.SIGNED_IN_MAX + 1)]
    assert people.of(cookies[0]) is None and all(people.of(one) is not None for one in cookies[1:])
