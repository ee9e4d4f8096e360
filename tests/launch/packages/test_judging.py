"""What a home's settings are, for commands that look at packages."""

from __future__ import annotations

from hobus.config.files import Layers
from hobus.config.load import read
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.home import home_of
from hobus.launch.packages.judging import config_of
from tests.launch.packages import parts


def test_settings_are_read_alone_as_with_everything_else(tmp_path):
    """Without a file of its own, with a sound one, with one that is at fault in part, and where nothing of it is sound."""
    home, shipped = home_of(tmp_path), load_snapshot().config
    assert config_of(home) == shipped
    home.config.mkdir()
    file = home.config / "admin_config.json"
    for written, packages_max in (
        (parts.text({"governance": {"packages_max": 3}}), 3),
        (parts.text({"governance": {"packages_max": 3}, "budget": {"session_token_limit": "x"}}), 3),
        (b"{", shipped.governance.packages_max),
    ):
        file.write_bytes(written)
        assert config_of(home).governance.packages_max == packages_max
        assert config_of(home) == (read(Layers(config_file=file)).config or shipped)
