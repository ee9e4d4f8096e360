"""Which packages a home has installed."""

import json

import pytest

from hobus.bus.errors import ConfigError
from hobus.launch.cluster.home import make_home
from hobus.launch.cluster.installed import find_layers, list_in_force, make_pointer_path, write_pointer

ONE, TWO = "PKG-A-001-1.0.0-0123456789abcdef", "PKG-B-1.2.3-fedcba9876543210"


@pytest.fixture
def home(tmp_path):
    home = make_home(tmp_path)
    home.packages.mkdir()
    return home


def test_the_pointer_names_what_is_in_force(home, tmp_path):
    """In order of the names; the home's own directory and a given file stand beside it."""
    make_pointer_path(home).write_text(write_pointer([TWO, ONE]))
    assert list_in_force(home) == (home.packages / ONE, home.packages / TWO)
    home.config.mkdir()
    layers = find_layers(home, tmp_path / "mine.json")
    assert layers.packages == list_in_force(home)
    assert (layers.own, layers.config_file) == (home.config, tmp_path / "mine.json")


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"format": 2, "directories": []}', '{"format": 1}', '{"format": 1, "directories": {}}',
        json.dumps({"format": 1, "directories": ["../../etc"]}), json.dumps({"format": 1, "directories": [7]}),
        json.dumps({"format": 1, "directories": [ONE, ONE]}), json.dumps({"format": 1, "directories": [], "more": 1}),
        json.dumps({"format": 1, "directories": [ONE.lower()]}), json.dumps({"format": 1, "directories": [f"{ONE}\n"]}),
    ],
)  # fmt: skip
def test_a_pointer_that_says_nothing_clear_is_told_with_the_mend(home, text):
    """Never a start without packages that were installed."""
    make_pointer_path(home).write_text(text)
    with pytest.raises(ConfigError, match=r"installed\.json: .*; restore a copy, or remove it"):
        list_in_force(home)
