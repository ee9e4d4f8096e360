"""How a change of the configuration takes effect in a cluster that runs."""

from __future__ import annotations

import pytest

from bench.builders import shipped_snapshot
from hobus.config.own_settings import flatten_settings
from hobus.launch.cluster.takes_effect import RULES, find_rule


@pytest.mark.parametrize(
    ("path", "how", "roles"),
    [
        ("budget.turn_limit", "at once", ()),
        ("gateway.default_route.model_id", "at once", ()),
        ("gateway.rebuild_page_of_another_name", "at once", ()),
        ("tools.entry_points", "restart", ("ho1",)),
        ("tools.mcp_servers.files.command", "restart", ("ho1",)),
        ("tools.approval", "at once", ()),
        ("ho1.orders_max", "restart", ("ho1",)),
        ("ho1.count", "scale", ("ho1",)),
        ("ho2.history_turns_max", "restart", ("ho2",)),
        ("ho3.gate_high", "restart", ("ho3", "ho2")),
        ("ho3.enabled", "stop", ()),
        ("http.hosts", "restart", ("http",)),
        ("http.listen", "stop", ()),
        ("bus.listen", "stop", ()),
        ("ledger.segment_bytes", "stop", ()),
        ("launcher.environment", "stop", ()),
        ("host.turn_timeout_ms", "at once", ()),
        ("sessions.pending_max", "at once", ()),
    ],
)
def test_the_longest_path_that_a_setting_begins_with_decides(path, how, roles):
    rule = find_rule(path)
    assert (rule.how, rule.roles) == (how, roles)


def test_every_path_of_the_table_is_one_of_the_configuration_and_has_its_reason():
    """A rule of a setting that is no more would hold nothing."""
    known = flatten_settings(shipped_snapshot().config.model_dump(mode="json"))
    for rule in RULES[1:]:
        assert any(path == rule.path or path.startswith(f"{rule.path}.") for path in known), rule.path
        assert rule.why or rule.how in ("scale", "at once"), rule.path
