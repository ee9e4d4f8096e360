"""What a home's settings are, for commands that look at packages."""

from __future__ import annotations

import pytest

from hobus.config.files import Layers
from hobus.config.load import read
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import UsageFault
from hobus.launch.packages.judging import read_config
from tests.launch.packages import parts


def test_settings_are_read_alone_as_with_everything_else(tmp_path):
    """Without a file of its own, and with a sound one; by one that is at fault nobody knows what is trusted."""
    home, shipped = make_home(tmp_path), load_snapshot().config
    assert read_config(home) == shipped
    home.config.mkdir()
    file = home.config / "admin_config.json"
    file.write_bytes(parts.text({"budget": {"turn_limit": 31}}))
    assert read_config(home).budget.turn_limit == 31
    assert read_config(home) == read(Layers(config_file=file)).config
    signed = {"governance": {"signatures": "signed"}, "budget": {"session_token_limit": "x"}}
    for written in (parts.text(signed), b"{"):
        file.write_bytes(written)
        with pytest.raises(UsageFault, match="at fault"):
            read_config(home)
