"""One setting by its path: what is laid over is there, and taken away it is as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.config.load import merge
from hobus.config.own_settings import NoSuchSetting, flatten_settings, lay_over, make_own_schema, take_away
from hobus.config.schema import AdminConfig

SHIPPED = json.loads((SHIPPED_ROOT / ADMIN_CONFIG).read_text())
PATHS = st.sampled_from([path for path in flatten_settings(SHIPPED) if not path.endswith((".kind", ".transport"))])
"""Without those that say which kind of value stands beside them: another one replaces it as a whole."""


@given(before=st.lists(st.tuples(PATHS, st.integers()), max_size=5), path=PATHS, value=st.integers())
def test_a_setting_that_is_laid_over_is_there_and_none_beside_it_changes(before, path, value):
    own = {}
    for one, number in before:
        own = lay_over(SHIPPED, own, one, number)
    changed = lay_over(SHIPPED, own, path, value)
    values, was = flatten_settings(merge(SHIPPED, changed)), flatten_settings(merge(SHIPPED, own))
    assert values == {**was, path: value}
    without = take_away(changed, path)
    assert flatten_settings(merge(SHIPPED, without)) == {**was, path: flatten_settings(SHIPPED)[path]}
    assert {} not in without.values()


def test_names_with_dots_and_new_names_are_found():
    """A provider may be called by its version; what is not there yet is divided at each dot."""
    own = {"gateway": {"providers": {"v1.5": {"kind": "openai"}}}}
    changed = lay_over(SHIPPED, own, "gateway.providers.v1.5.base_url", "http://x")
    assert changed["gateway"]["providers"] == {"v1.5": {"kind": "openai", "base_url": "http://x"}}
    assert take_away(changed, "gateway.providers.v1.5") == {}
    assert lay_over(SHIPPED, {}, "tools.mcp_servers.time.transport", "stdio") == {
        "tools": {"mcp_servers": {"time": {"transport": "stdio"}}}
    }


@pytest.mark.parametrize("path", ["", ".", "bus.", "bus..x", "bus.attempts_max.x"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(NoSuchSetting):
        lay_over(SHIPPED, {}, path, 1)
    with pytest.raises(NoSuchSetting):
        take_away({}, path)


def test_a_name_that_nobody_knows_is_left_to_the_check_of_the_whole():
    with pytest.raises(ValueError, match="sessions_mx"):
        AdminConfig.model_validate(merge(SHIPPED, lay_over(SHIPPED, {}, "ho2.sessions_mx", 1)))


def test_the_schema_of_an_own_file_requires_nothing_and_knows_every_setting():
    schema = make_own_schema(AdminConfig.model_json_schema())
    assert "required" not in schema and set(schema["properties"]) == set(SHIPPED)
    assert all("required" not in one for one in schema["$defs"].values())
