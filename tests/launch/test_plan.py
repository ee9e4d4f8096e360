"""What is to be started."""

import pytest

from launch import exit_codes
from launch.errors import CommandError
from launch.home import home_of
from launch.plan import make_plan
from launch.scale import parse_scale


def test_scale_overrides_the_configured_counts(tmp_path):
    """Roles that are not named keep their configured number."""
    plan = make_plan(home_of(tmp_path), config_file=None, scale=["ho1=3"])
    assert plan.counts == {"ho1": 3, "ho2": plan.snapshot.config.ho2.count, "ho3": 1}


@pytest.mark.parametrize("item", ["ho1", "ho1=0", "ho1=-1", "ledger=2", "ho1=x", "ho1=1001", "=3", ""])
def test_a_scale_that_makes_no_sense_is_refused(item):
    """Only executors and supervisors scale, from 1 to 1000."""
    with pytest.raises(CommandError, match="--scale") as caught:
        parse_scale([item])
    assert caught.value.exit_code == exit_codes.USAGE


def test_a_missing_configuration_file_is_named(tmp_path):
    """The path that was given stands in the message."""
    with pytest.raises(CommandError, match=r"nowhere\.json") as caught:
        make_plan(home_of(tmp_path), config_file=tmp_path / "nowhere.json", scale=[])
    assert caught.value.exit_code == exit_codes.USAGE
