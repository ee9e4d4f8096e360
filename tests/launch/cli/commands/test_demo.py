"""The demo's own configuration."""

import errno
from pathlib import Path

import pytest

from bench.builders import shipped_snapshot
from hobus.launch.cli.commands.demo import THINKING_MS, write_config
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan


def test_the_configuration_of_the_demo_is_not_that_of_its_home(tmp_path):
    """The demo runs under it, a later `up` in the same home under the shipped one."""
    home = make_home(tmp_path / "demo")
    path = write_config(home)
    plan = make_plan(home, StartOptions(config_file=path))
    assert {one.latency_ms for one in plan.snapshot.config.gateway.providers.values()} == {THINKING_MS}
    assert make_plan(home, StartOptions()).snapshot.digest == shipped_snapshot().digest


def test_a_full_disk_leaves_no_empty_configuration(tmp_path, monkeypatch):
    """A sentence with the path, and nothing that a next start would stumble over."""

    def full(self, text, encoding):
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    home = make_home(tmp_path / "demo")
    with pytest.raises(CommandError, match=r"No space left on device \(.*demo_config\.json\)"):
        write_config(home)
    assert list(home.root.iterdir()) == []
