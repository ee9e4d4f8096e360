"""Who said something to a session stands in its journal: by the door's word for a key, else by the broker's stamp."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.bus.errors import BusError, SessionFault
from hobus.bus.messages.ids import derive_held_id, follow_up_input, format_iso
from hobus.bus.messages.session import (
    Approve,
    Cancel,
    Command,
    CommandVerdict,
    Deny,
    EndSession,
    FollowUp,
    HostCommand,
    SessionClosed,
    SessionCommand,
    Steer,
)
from hobus.bus.messages.work_order import WorkOrder
from hobus.bus.peer import Peer
from hobus.bus.record.journal import read_event
from hobus.bus.record.session_facts import HostCommandReceived, SessionEnded
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, calls, classified

KEY, OTHER = "key/alice", "key/bob"
HELD = ("tools.approval", ("list_packages",))
PACKAGES = derive_held_id("001", "list_packages", {"n": 1}, "1.2")


def asks_for_packages(order: WorkOrder) -> Answer:
    """One call that waits for an approval, then an answer."""
    match order.wo_type:
        case "classify":
            return classified()
        case "synthesize" if not order.exchanges:
            return calls("list_packages")
        case _:
            return "done"


async def say(client: Peer, command: Command, command_id: str, principal: str = "") -> CommandVerdict:
    """A command as this client says it, with the principal that it names."""
    given = HostCommand(command_id=command_id, issued_at=format_iso(0), command=command)
    asked = SessionCommand(session_id=SESSION, command=given, principal=principal)
    return await client.request("ho2", asked, expect=CommandVerdict, timeout_s=30, key=SESSION)


def journaled(rig: Rig, kind: type[Any]) -> list[Any]:
    """The events of this kind."""
    return [event for one in rig.run(rig.entries()) if isinstance(event := read_event(one).event, kind)]


def test_each_command_names_its_principal_and_its_door() -> None:
    """The user of the machine at a terminal and in a program, a key over HTTP; an end says it, too."""
    with Rig() as rig:
        operator, door, http = [rig.world.client(role) for role in ("operator", "door", "http")]
        rig.run(rig.world.settled())
        rig.run(rig.start_session(principal=KEY))
        rig.run(say(operator, Cancel(reason="no"), "a"))
        rig.run(say(door, Steer(text="no"), "b"))
        rig.run(say(http, FollowUp(text="no"), "c", KEY))
        rig.run(rig.turn(follow_up_input("c"), "no", client="http/1@a"))
        rig.run(rig.ask(EndSession(session_id=SESSION, principal=KEY, door="http/1@a"), SessionClosed))
        assert [(one.principal, one.door) for one in journaled(rig, HostCommandReceived)] == [
            ("local", operator.instance), ("local", door.instance), (KEY, http.instance),
        ]  # fmt: skip
        assert [(one.principal, one.door) for one in journaled(rig, SessionEnded)] == [(KEY, "http/1@a")]


def test_an_http_door_alone_is_believed_about_a_key_and_has_to_name_one() -> None:
    """A client that claims another's name is the user of its machine all the same."""
    with Rig() as rig:
        door, http = rig.world.client("door"), rig.world.client("http")
        rig.run(rig.world.settled())
        rig.run(rig.start_session())
        rig.run(say(door, Steer(text="no"), "a", OTHER))
        with pytest.raises(BusError) as caught:
            rig.run(say(http, Steer(text="no"), "b"))
        assert caught.value.code == "denied"
        assert [one.principal for one in journaled(rig, HostCommandReceived)] == ["local"]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("asker", ["http", "steered", "follow-up"])
def test_where_a_second_person_is_wanted_who_asked_approves_nothing(asker: str, *, is_killed: bool) -> None:
    """Nor who steered the run; anybody may deny, and somebody else approves. It holds behind a kill, too."""
    with Rig(HELD, script=asks_for_packages, approval_by="other") as rig:
        http, operator = rig.world.client("http"), rig.world.client("operator")
        rig.run(rig.world.settled())
        rig.run(rig.start_session(principal=KEY))
        input_id = "i1"
        if asker == "follow-up":
            rig.run(say(http, FollowUp(text="packages?"), "f", KEY))
            input_id = follow_up_input("f")
        reply = rig.run(rig.asked(input_id, "packages?", client="http/1@a"))
        assert reply.waiting == "WaitingInput"
        if asker == "steered":
            rig.run(say(operator, Steer(text="all of them"), "s"))
        if is_killed:
            rig.supervise()
            rig.world.kill(rig.instances[0])
        own, others = [
            rig.run(say(client, Approve(call_id=PACKAGES), f"k{number}", principal)).reason
            for number, (client, principal) in enumerate([(http, KEY), (operator, "")])
        ]
        assert own.startswith(
            f"own_call: {KEY} asked for this run, and agent ADMIN wants its calls approved by somebody"
        )
        steered = "own_call: local steered this run, and agent ADMIN wants its calls approved by somebody"
        assert others.startswith(steered) if asker == "steered" else not others


def test_nobody_but_its_person_takes_a_turn_in_a_session() -> None:
    """The user of the machine would read a key's memory there, and teach it; a known answer is read all the same."""
    with Rig() as rig:
        rig.run(rig.start_session(principal=KEY))
        with pytest.raises(SessionFault, match=f"belongs to {KEY}; begin one of your own"):
            rig.run(rig.turn("i1", "hello", client="door/1@a"))
        answer = rig.run(rig.turn("i1", "hello", client="http/1@a"))
        assert rig.run(rig.turn("i1", "hello", client="door/1@a")).response == answer.response


def test_who_asked_may_deny_and_by_default_may_approve() -> None:
    """The rule is the agent's; without it nothing changes."""
    for by, command in (("other", Deny(call_id=PACKAGES)), ("anyone", Approve(call_id=PACKAGES))):
        with Rig(HELD, script=asks_for_packages, approval_by=by) as rig:

            async def run(rig: Rig = rig, command: Command = command) -> CommandVerdict:
                await rig.start_session()
                await rig.asked("i1", "packages?", client="door/1@a")
                return await rig.command(command)

            assert rig.run(run()).outcome == "applied"
