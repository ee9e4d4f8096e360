"""Which processes come and which leave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.options import parse_scale
from hobus.launch.launcher.supervision import Member, ScaleChange, change_to, number_of


def executors(*numbers, leaving=()):
    """Members with these numbers, beside one supervisor."""
    made = [
        Member(actor=f"ho1/{n}", role="ho1", state="ready", then="remove" if n in leaving else "stay",
               resting_since=1.0 if n in leaving else 0.0)
        for n in numbers
    ]  # fmt: skip
    return [*made, Member(actor="ho2/1", role="ho2", state="ready")]


def test_more_and_fewer():
    """Missing numbers are made, the highest leave, and the right number changes nothing."""
    assert change_to(executors(1, 2), "ho1", 4) == ScaleChange(new=["ho1/3", "ho1/4"], back=[], leaving=[])
    assert change_to(executors(1, 2, 10, 11), "ho1", 2) == ScaleChange(new=[], back=[], leaving=["ho1/10", "ho1/11"])
    assert change_to(executors(1, 2), "ho1", 2) == ScaleChange(new=[], back=[], leaving=[])


def test_whoever_is_leaving_comes_back_when_it_is_wanted():
    """Scaled down and up again before it was done: no second process takes its place."""
    assert change_to(executors(1, 2, 3, leaving=(2, 3)), "ho1", 2) == ScaleChange(
        new=[], back=["ho1/2"], leaving=["ho1/3"]
    )


def test_whoever_was_drained_is_started_again():
    """A number of processes means running ones; one that is being started anew is not asked twice."""
    drained = Member(actor="ho1/1", role="ho1", state="stopped")
    resting = Member(actor="ho1/2", role="ho1", state="draining", resting_since=1.0)
    anew = Member(actor="ho1/3", role="ho1", state="draining", resting_since=1.0, then="start")
    assert change_to([drained, resting, anew], "ho1", 3) == ScaleChange(new=[], back=["ho1/1", "ho1/2"], leaving=[])


@given(numbers=st.sets(st.integers(1, 30)), count=st.integers(1, 30))
def test_afterwards_there_are_exactly_the_numbers_up_to_the_count(numbers, count):
    """Whatever was there."""
    change = change_to(executors(*sorted(numbers)), "ho1", count)
    left = numbers - {number_of(actor) for actor in change.leaving}
    assert left | {number_of(actor) for actor in change.new} == set(range(1, count + 1))


@pytest.mark.parametrize("item", ["ho1=0", "ho1=-1", "ho1=1001", "ledger=2", "ho9=1", "ho1", "ho1=", "=2", "ho1=2x"])
def test_what_is_no_number_of_a_scalable_role_is_refused(item):
    """The form, the roles and the bounds are named."""
    with pytest.raises(CommandError, match="one of ho1, ho2, http and N from 1 to 1000") as caught:
        parse_scale([item], option="")
    assert caught.value.exit_code == 2 and caught.value.message.startswith(f"{item}: ")
