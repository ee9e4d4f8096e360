"""What an operator tells the launcher from the page of the cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hobus.launch.cli.web import cluster
from hobus.launch.cli.web.app import Asked
from hobus.launch.cli.web.people import Person
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.control import LeaveCommand, ScaleCommand


def asked(**form) -> Asked:
    async def peers():
        return None

    return Asked(SimpleNamespace(home="home", peers=peers), Person("ada", "operator", "", 0.0), {}, form)


@pytest.fixture
def told(monkeypatch):
    found = []
    monkeypatch.setattr(cluster, "send_command", lambda _home, wanted, *, is_followed: found.append(wanted))
    rows = {
        name: SimpleNamespace(actor=name, role=name.partition("/")[0], state="ready")
        for name in ("broker/1", "gateway/1", "ho1/1", "ho1/2", "ho2/1")
    }
    monkeypatch.setattr(cluster, "find_row", lambda _home, actor: rows[actor])
    monkeypatch.setattr(cluster, "find_running", lambda _home: SimpleNamespace(children=list(rows.values())))
    monkeypatch.setattr(cluster, "require_room_for", lambda _home, _wanted: None)
    return found


async def test_a_process_is_restarted_or_drained_and_the_roles_scaled_by_name(told):
    """The launcher records its command as it took it: with the person."""
    await cluster.leave(asked(verb="restart", actor="ho2/1"))
    await cluster.leave(asked(verb="drain", actor="ho1/2"))
    await cluster.scale(asked(role="ho1", count="3"))
    assert told == [
        LeaveCommand(actor="ho2/1", then="start", person="ada"),
        LeaveCommand(actor="ho1/2", then="stay", person="ada"),
        ScaleCommand(role="ho1", count=3, person="ada"),
    ]
    assert '"person":"ada"' in told[0].model_dump_json()


@pytest.mark.parametrize("actor", ["broker/1", "gateway/1", "ho1/1"])
async def test_draining_the_last_process_of_a_role_warns_as_the_command_does(told, actor):
    """Its requests fail from then on; where another one takes them, nothing is said."""
    said = await cluster.leave(asked(verb="drain", actor=actor))
    role = actor.partition("/")[0]
    warning = f"; no other process offers {role}: its requests fail until then"
    assert said == f"{actor} is draining{'' if role == 'ho1' else warning}" and len(told) == 1


async def test_a_worker_of_another_host_is_drained_by_its_instance(told, monkeypatch):
    """As `hobus drain` does; it is started where it runs, so nobody restarts it from here."""
    assert await cluster.leave(asked(verb="drain", actor="ho1/remote-box@7f")) == "ho1/remote-box is draining"
    assert told == [LeaveCommand(actor="ho1/remote-box@7f", then="stay", person="ada")]

    def unknown(_home, actor):
        raise CommandError(actor)

    monkeypatch.setattr(cluster, "find_row", unknown)
    with pytest.raises(CommandError):
        await cluster.leave(asked(verb="restart", actor="ho1/remote-box@7f"))
    assert len(told) == 1
