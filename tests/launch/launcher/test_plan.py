"""What is to be started."""

import json

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import ConfigError
from hobus.config.files import SHIPPED_ROOT
from hobus.launch.cluster.home import home_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.options import StartOptions, parse_scale
from hobus.launch.launcher.plan import make_plan
from hobus.launch.launcher.supervision import START_ORDER, size_of
from hobus.launch.launcher.supervision import plan as members_of


def test_scale_overrides_the_configured_counts(tmp_path):
    """Roles that are not named keep their configured number."""
    plan = make_plan(home_of(tmp_path), StartOptions(scale=["ho1=3"]))
    assert plan.counts == {"ho1": 3, "ho2": plan.snapshot.config.ho2.count, "ho3": 1, "http": 0}


@pytest.mark.parametrize("how", ["null", "disabled"])
def test_without_memory_there_is_no_memory_process(tmp_path, how):
    """A section that is `null` and a disabled one mean the same."""
    value = json.loads((SHIPPED_ROOT / "admin_config.json").read_text())
    if how == "null":
        value["ho3"] = None
    else:
        value["ho3"]["enabled"] = False
    file = tmp_path / "off.json"
    file.write_text(json.dumps(value))
    counts = make_plan(home_of(tmp_path), StartOptions(config_file=file)).counts
    assert "ho3/1" not in [member.actor for member in members_of(counts)]
    assert len(members_of(counts)) == len(START_ORDER) - 2  # nor is there an HTTP door


@pytest.mark.parametrize("item", ["ho1", "ho1=0", "ho1=-1", "ledger=2", "ho1=x", "ho1=1000000000", "=3", ""])
def test_a_scale_that_makes_no_sense_is_refused(item):
    """Only executors, supervisors and HTTP doors scale."""
    with pytest.raises(CommandError, match="--scale") as caught:
        parse_scale([item])
    assert caught.value.exit_code == exit_codes.USAGE


def test_more_processes_than_are_allowed_are_refused_with_the_setting(tmp_path):
    """By --scale and by the configuration alike, all roles together; exactly as many as are allowed may be."""
    home = home_of(tmp_path)
    limit = shipped_snapshot().config.launcher.processes_max
    most = limit - size_of({}) + 1
    assert size_of(make_plan(home, StartOptions(scale=[f"ho1={most}"])).counts) == limit
    with pytest.raises(
        CommandError, match=rf"that would be {limit + 1} processes; .*launcher\.processes_max"
    ) as caught:
        make_plan(home, StartOptions(scale=[f"ho1={most + 1}"]))
    assert caught.value.exit_code == exit_codes.USAGE
    file = tmp_path / "many.json"
    for section, said in (({"ho1": {"count": 1000}}, "ho1.count"), ({"ho1": {"count": most + 1}}, "that would be")):
        file.write_text(json.dumps(section))
        with pytest.raises((CommandError, ConfigError), match=rf"{said}[^\0]*launcher\.processes_max"):
            make_plan(home, StartOptions(config_file=file))


def test_a_role_that_is_named_twice_is_refused():
    """Never the last one silently."""
    with pytest.raises(CommandError, match="ho1 is named twice") as caught:
        parse_scale(["ho1=2", "ho1=3"])
    assert caught.value.exit_code == exit_codes.USAGE


def test_a_missing_configuration_file_is_named(tmp_path):
    """The path that was given stands in the message."""
    with pytest.raises(CommandError, match=r"nowhere\.json") as caught:
        make_plan(home_of(tmp_path), StartOptions(config_file=tmp_path / "nowhere.json"))
    assert caught.value.exit_code == exit_codes.USAGE
