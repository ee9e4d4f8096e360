"""A cluster that is up already: what differs from what was asked for."""

from pathlib import Path

import pytest

from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.home import home_of, prepare
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.supervision import plan
from hobus.launch.launcher.up_already import differences

RUN = RunFile(
    phase="running", launcher_pid=1, launcher_mark="m", started_at=1.0, sockets="/s", config_digest="sha256:0",
    config_origin="/etc/mine.json", drain_bound_s=1.0, children=[member.row() for member in plan({"ho1": 2})],
)  # fmt: skip


@pytest.fixture
def home(tmp_path):
    """A home whose HTTP doors listen at a port of their own."""
    home = home_of(tmp_path)
    prepare(home)
    home.http.write_text("127.0.0.1:8420")
    return home


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (StartOptions(), []),
        (StartOptions(scale=["ho1=2", "ho2=1"], http="127.0.0.1:8420", config_file=Path("/etc/mine.json")), []),
        (StartOptions(http="127.0.0.1:0"), []),
        (StartOptions(scale=["ho1=3"]), ["it runs ho1=2, not 3: hobus scale ho1=3 --home"]),
        (StartOptions(config_file=Path("/etc/other.json")), ["it runs under the configuration /etc/mine.json, not /etc/other.json"]),
        (StartOptions(listen="10.0.0.7:0"), ["it listens nowhere, not at 10.0.0.7:0 (--listen)"]),
        (StartOptions(http="127.0.0.1:9"), ["it listens at 127.0.0.1:8420, not at 127.0.0.1:9 (--http)"]),
    ],
)  # fmt: skip
def test_what_differs_is_said_with_the_command_that_changes_it(home, options, said):
    """Nothing where all is as it was asked for; port 0 is any port."""
    lines = differences(RUN, options, home)
    assert len(lines) == len(said)
    assert all(line.startswith(text) and "hobus " in line for line, text in zip(lines, said, strict=True))


def test_a_configuration_that_was_changed_after_the_start_is_said(home):
    """Another address of the start itself is no change; a fault that came in is said, too."""
    run = RUN.model_copy(update={"config_origin": "shipped"})
    home.snapshot.write_bytes(load_snapshot().listening("http", "127.0.0.1:0").to_bytes())
    assert differences(run, StartOptions(), home) == []
    own = home.config / "admin_config.json"
    own.parent.mkdir()
    own.write_text('{"ho2": {"runs_max": 256}}')
    (said,) = differences(run, StartOptions(), home)
    assert said.startswith("its configuration was changed after its start; ") and "hobus down" in said
    own.write_text('{"ho2": {"runs_mx": 256}}')
    (said,) = differences(run, StartOptions(), home)
    assert "has faults now (hobus config check --home" in said
    assert differences(run.model_copy(update={"config_origin": "/gone.json"}), StartOptions(), home) == []


def test_a_scale_that_is_none_is_refused(home):
    """As a start refuses it."""
    with pytest.raises(CommandError, match="expected ROLE=N"):
        differences(RUN, StartOptions(scale=["ho9=1"]), home)
