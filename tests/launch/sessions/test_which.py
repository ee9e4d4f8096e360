"""Which session is meant."""

import pytest

from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.which import choose_one, run_number

ONE = "11111111-2222-5333-8444-555555555555"
OTHER = "11112222-2222-5333-8444-555555555555"


def test_an_ambiguous_beginning_names_the_candidates():
    with pytest.raises(CommandError) as caught:
        choose_one("1111", [OTHER, ONE], called="SESSION")
    assert f"{ONE}, {OTHER}" in caught.value.message and "2 sessions" in caught.value.message


@pytest.mark.parametrize("given", ["", "111", "hello", "SES-", "../../etc", "1111\x1b[2J", "x" * 100])
def test_what_begins_no_id_is_a_mistake(given: str) -> None:
    with pytest.raises(CommandError) as caught:
        choose_one(given, [ONE], called="SESSION")
    assert caught.value.exit_code == exit_codes.USAGE and "\x1b" not in caught.value.message


@pytest.mark.parametrize("given", ["3", f"{ONE}-3", "SES-11111111-3"])
def test_a_run_is_named_by_its_number(given: str) -> None:
    assert run_number(given, ONE) == 3


@pytest.mark.parametrize("given", ["0", "-1", "", "x", "SES-22222222-3", "9" * 30])
def test_what_is_no_run_of_the_session_is_a_mistake(given: str) -> None:
    with pytest.raises(CommandError) as caught:
        run_number(given, ONE)
    assert caught.value.exit_code == exit_codes.USAGE
