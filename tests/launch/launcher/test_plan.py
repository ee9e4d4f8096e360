"""What is to be started."""

import json
import os

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import ConfigError
from hobus.config.files import SHIPPED_ROOT
from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import inherited
from hobus.launch.launcher.options import StartOptions, parse_scale
from hobus.launch.launcher.plan import make_plan
from hobus.launch.launcher.plan_apart import PlanApart
from hobus.launch.launcher.supervision import START_ORDER, count_processes
from hobus.launch.launcher.supervision import make_members as members_of


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
    counts = make_plan(make_home(tmp_path), StartOptions(config_file=file)).counts
    assert "ho3/1" not in [member.actor for member in members_of(counts)]
    assert len(members_of(counts)) == len(START_ORDER) - 2  # nor is there an HTTP door


def test_more_processes_than_are_allowed_are_refused_with_the_setting(tmp_path):
    """By --scale and by the configuration alike, all roles together; exactly as many as are allowed may be."""
    home = make_home(tmp_path)
    limit = shipped_snapshot().config.launcher.processes_max
    most = limit - count_processes({}) + 1
    assert count_processes(make_plan(home, StartOptions(scale=[f"ho1={most}"])).counts) == limit
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
    with pytest.raises(CommandError, match="ho1 is named twice") as caught:
        parse_scale(["ho1=2", "ho1=3"])
    assert caught.value.exit_code == exit_codes.USAGE


# --- made apart -------------------------------------------------------------------------------------------------------


def test_a_plan_that_is_made_apart_is_the_same(tmp_path):
    """Only what a launcher needs of it comes back; where files came from stays with the process that read them."""
    options = StartOptions(scale=["ho1=2"])
    here, apart = make_plan(make_home(tmp_path), options), PlanApart(make_home(tmp_path), options, handed=None).made()
    assert (apart.snapshot, apart.origin, apart.counts) == (here.snapshot, here.origin, here.counts)
    assert apart.snapshot.contents == here.snapshot.contents != b""  # the launcher records the files themselves


def test_what_is_wrong_is_told_as_if_it_were_made_here(tmp_path):
    """Message, mend and exit code; no process is left."""
    with pytest.raises(CommandError) as refused:
        PlanApart(make_home(tmp_path), StartOptions(scale=["ho1=0"]), handed=None).made()
    assert (refused.value.exit_code, "--scale ho1=0" in refused.value.message) == (exit_codes.USAGE, True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "admin_config.json").write_text("{")
    with pytest.raises(CommandError, match=r"admin_config\.json") as broken:
        PlanApart(make_home(tmp_path), StartOptions(), handed=None).made()
    assert (broken.value.exit_code, "config check" in broken.value.hint) == (exit_codes.USAGE, True)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_what_was_handed_over_is_read_apart_and_can_still_be_read_here(tmp_path):
    """The launcher takes it once the zygote is forked."""
    _, file = inherited.hand_over([], {"WHOSE": "a person's"})
    with file:
        number = os.dup(file.fileno())
    PlanApart(make_home(tmp_path), StartOptions(), handed=number).made()
    assert inherited.take(number)["WHOSE"] == "a person's"


def test_a_process_that_dies_over_the_plan_is_named(tmp_path, monkeypatch):
    """As the kernel may end it; nobody waits for ever."""
    monkeypatch.setattr("hobus.launch.launcher.plan_apart.start_plan", lambda *_, **__: os.kill(os.getpid(), 9))
    with pytest.raises(CommandError, match=r"ended \(-9\)"):
        PlanApart(make_home(tmp_path), StartOptions(), handed=None).made()
