"""Who is shown as degraded because somebody else is not ready."""

import pytest

from launch.needs import shown
from launch.supervision import START_ORDER, Member


def seen(**states):
    """Role -> (state, note), with one process per role, ready unless said otherwise."""
    members = [Member(actor=f"{role}/1", role=role, state=states.get(role, "ready")) for role in START_ORDER]
    return {row.role: (row.state, row.note) for row in shown(members)}


def test_everybody_ready_is_shown_as_it_is():
    """Nobody misses anything."""
    assert set(seen().values()) == {("ready", "")}


def test_without_the_broker_nobody_is_ready():
    """Each says why; the broker's own word stands."""
    rows = seen(broker="stopped")
    assert rows.pop("broker") == ("stopped", "")
    assert set(rows.values()) == {("degraded", "the broker is not ready")}


def test_without_the_ledger_a_need_of_a_need_is_missing_too():
    """The gateway, HO3 and HO2 need it, HO1 the gateway, the host one of HO2 and gateway."""
    rows = seen(ledger="stopped")
    for role in ("gateway", "ho3", "ho2"):
        assert rows[role] == ("degraded", "the ledger is not ready")
    assert rows["ho1"] == ("degraded", "the gateway is not ready")
    assert rows["host"] == ("degraded", "neither ho2 nor gateway is ready")
    assert rows["broker"] == ("ready", "")


@pytest.mark.parametrize("role", ["ho2", "gateway"])
def test_the_host_needs_one_of_two(role):
    """Either answers a turn, if worse."""
    assert seen(**{role: "failed"})["host"] == ("ready", "")


def test_one_ready_process_of_a_role_is_enough_and_other_states_stay():
    """And who is not ready itself keeps its own state and note."""
    members = [
        Member(actor="broker/1", role="broker", state="ready"),
        Member(actor="ledger/1", role="ledger", state="ready"),
        Member(actor="gateway/1", role="gateway", state="stopped", note="drained"),
        Member(actor="gateway/2", role="gateway", state="ready"),
        Member(actor="ho1/1", role="ho1", state="ready"),
    ]
    assert [row.state for row in shown(members)] == ["ready", "ready", "stopped", "ready", "ready"]
    assert shown(members)[2].note == "drained"
