"""What is left of settings without their faults, and which faults may come from that alone."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import strategies as st

from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.config.mcp_block import PastedServer
from hobus.config.own_settings import laid_over, settings_in
from hobus.config.schema import AdminConfig
from hobus.config.sound_part import follows_from, sound_part
from tests.laws import law

SHIPPED = json.loads((SHIPPED_ROOT / ADMIN_CONFIG).read_text(encoding="utf-8"))
SETTINGS = sorted(settings_in(SHIPPED))


class Wrong:
    """What no setting can be."""


@law(
    20,
    100,
    wrong=st.sets(st.sampled_from(SETTINGS), max_size=6),
    unknown=st.sets(st.sampled_from(["ho2", "bus", "tools"])),
)
def test_whatever_is_wrong_is_as_it_is_shipped_and_what_nobody_knows_is_away(wrong, unknown):
    """So that the rest can be looked at; each is told by its path, or by one above it."""
    value = copy.deepcopy(SHIPPED)
    for path in wrong:
        value = laid_over({}, value, path, Wrong())
    for section in unknown:
        value[section]["surprise"] = 1
    before = copy.deepcopy(value)
    config, gone = sound_part(AdminConfig, value, shipped=SHIPPED, strict=True)
    assert config == AdminConfig.model_validate(SHIPPED)
    assert all(any(path == one or path.startswith(f"{one}.") for one in gone) for path in wrong)
    assert not any("surprise" in one for one in gone)
    assert settings_in(value).keys() == settings_in(before).keys(), "what was given is left alone"


def test_an_entry_that_lacks_something_is_left_out_by_its_name():
    """A provider of one's own without an address; others stay."""
    value = laid_over({}, SHIPPED, "gateway.providers.mine", {"kind": "openai"})
    config, gone = sound_part(AdminConfig, value, shipped=SHIPPED, strict=True)
    assert config is not None and list(config.gateway.providers) == ["offline"]
    assert "'mine'" in gone and "gateway.providers.mine" in gone


def test_of_a_server_what_is_at_fault_is_left_out():
    """Its other settings are there."""
    server, gone = sound_part(PastedServer, {"command": "x", "args": "-v", "arg": 1})
    assert server == PastedServer(command="x") and gone == {"args"}


def test_where_nothing_valid_is_left_there_is_none():
    """What is wrong is all that was there."""
    assert sound_part(AdminConfig, {"ho2": 7})[0] is None


@pytest.mark.parametrize(
    ("fault", "follows"),
    [
        ("gateway.default_route.provider_id: no provider 'mine'; configured: offline", True),
        ("gateway.providers.mine.models: 'm' is there twice", True),
        ("bus.a: 5 is above gateway.providers.mine (3)", True),
        ("gateway.providers.mine-2.models: 'm' is there twice", False),
        ("tools.mcp_servers.x.env: mine", False),
    ],
)
def test_a_fault_that_speaks_of_what_is_gone_may_come_from_that(fault, follows):
    """By its path or in quotes, not by a word that is like it."""
    assert follows_from(fault, {"'mine'", "gateway.providers.mine"}) is follows
