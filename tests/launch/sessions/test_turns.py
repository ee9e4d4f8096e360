"""A turn from the client's side."""

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import BusError, SessionFault
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.ledger import Entries, Entry, Provenance, Query
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.sim.world import World
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.console.interrupt import is_interrupt
from hobus.launch.limits import JOURNAL_POLL_MS
from hobus.launch.sessions.journal import FromLedger
from hobus.launch.sessions.turns import check_text, process_turn

SNAPSHOT = shipped_snapshot()
LIMITS = SNAPSHOT.config.host
SESSION = derive_session_id("door", "in-1")


class Host(Actor):
    """Answers the n-th time, with what it was told before that."""

    service = "host"

    def __init__(self, faults):
        self.faults = list(faults)
        self.seen = []

    async def on_turn(self, message: ProcessTurn, call: Call) -> TurnResult:
        self.seen.append((message.input_id, call.message_id))
        if self.faults:
            told = self.faults.pop(0)
            if isinstance(told, TurnResult):
                return told
            raise told
        return TurnResult(response="yes", outcome="success", session_id=SESSION, run_id=None, input_id=message.input_id)


class Ledger(Actor):
    service = "ledger"

    def __init__(self, sessions):
        self.sessions = sessions

    async def on_query(self, message: Query, call: Call) -> Entries:
        wanted = {"SESSION_START": self.sessions[:-1], "TurnDegraded": self.sessions[-1:]}[message.where["event_type"]]
        entries = [
            Entry(
                sequence=number, submission_id=f"s{number}", origin="ho2/1@a", stream=f"session/{session}",
                event_type=message.where["event_type"], decision="", reason="", provenance=Provenance(session_id=session), parents=[],
                trace="", at_us=0, ledger_at_us=0, body_hashes=[], body_lengths=[], prev=None, tenure=None, once=None,
                chain=b"",
            )
            for number, session in enumerate(wanted)
        ]  # fmt: skip
        return Entries(entries=entries, more=False, head=len(entries) - 1)


def in_world(actor, role, client_role, work, *, prepare=lambda _world: None):
    """Runs `work(bus)` as a client of a simulated bus on which `actor` answers; its result and the virtual seconds.

    `prepare` is told the world once everybody is there.
    """
    world = World(SNAPSHOT.config.bus, seed=3, config_digest=SNAPSHOT.digest)
    try:
        world.start(actor, role=role)
        bus = world.client(client_role, lanes=())
        world.run(world.settled())
        prepare(world)
        began = bus.clock.monotonic()
        return world.run(work(bus)), bus.clock.monotonic() - began
    finally:
        world.close()


def ask(host, *, timeout_s=10.0, **more):
    turn = ProcessTurn(session_id=None, input_id="in-1", text="hi")
    return in_world(host, "host", "door", lambda bus: process_turn(bus, turn, timeout_s=timeout_s, **more))


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\0"])
def test_an_empty_message_is_refused(text):
    with pytest.raises(CommandError, match="empty") as caught:
        check_text(text, LIMITS)
    assert caught.value.exit_code == exit_codes.USAGE and "hobus" not in caught.value.hint, "whoever sends it"


def test_the_limit_of_a_message_is_in_bytes_and_named():
    """Exactly the limit passes; one byte more names the setting."""
    limits = LIMITS.model_copy(update={"prompt_max_bytes": 6})
    check_text("äöü", limits)
    with pytest.raises(CommandError, match=r"7 bytes; the limit is 6 \(host\.prompt_max_bytes\)"):
        check_text("äöüx", limits)


def test_a_lost_host_is_asked_again_under_the_same_input_id():
    """Each try is another message with the same idempotency key."""
    host = Host([BusError("peer_lost", "gone"), BusError("peer_lost", "gone")])
    result, elapsed = ask(host)
    assert result.response == "yes"
    assert [input_id for input_id, _ in host.seen] == ["in-1"] * 3
    assert len({message_id for _, message_id in host.seen}) == 3
    assert 0.4 <= elapsed < 0.6


def test_a_verdict_is_not_tried_again():
    host = Host([SessionFault("run_active", "SES-1 runs")])
    with pytest.raises(SessionFault):
        ask(host)
    assert len(host.seen) == 1


def refused() -> TurnResult:
    return TurnResult(
        response="wait", outcome="error", session_id=SESSION, run_id=None, input_id="in-1", code="run_active"
    )


def test_who_waits_for_its_turn_asks_until_it_has_come():
    """Under the same input id; the refusal is the answer only when the time is over, and to who does not wait."""
    host = Host([refused(), refused()])
    result, _ = ask(host, waits_for_its_turn=True)
    assert (result.response, len(host.seen)) == ("yes", 3)
    assert {input_id for input_id, _ in host.seen} == {"in-1"}
    assert ask(Host([refused()]))[0].code == "run_active"
    result, elapsed = ask(Host([refused()] * 100), waits_for_its_turn=True, timeout_s=0.56)
    assert result.code == "run_active" and elapsed <= 0.56


def test_it_gives_up_when_the_next_try_would_come_too_late():
    """The last fault is told before the deadline, not after it."""
    host = Host([BusError("peer_lost", "gone")] * 100)
    with pytest.raises(BusError) as caught:
        ask(host, timeout_s=0.56)
    assert caught.value.code == "peer_lost"
    assert len(host.seen) == 3


class SilentHost(Host):
    async def on_turn(self, message: ProcessTurn, call: Call) -> TurnResult:
        await self.bus.sleep(1000.0)
        return await super().on_turn(message, call)

    async def start(self, bus):
        self.bus = bus


def test_a_turn_ends_with_the_cluster_and_not_with_its_deadline():
    """As soon as the watch says that nobody is left, its error ends the wait, and is no part of what it came by."""
    looks = []

    def gone():
        looks.append(1)
        return CommandError("gone", exit_code=exit_codes.UNREACHABLE) if len(looks) == 2 else None

    async def work(bus):
        began = bus.clock.monotonic()
        turn = ProcessTurn(session_id=None, input_id="in-1", text="hi")
        with pytest.raises(CommandError, match="gone") as caught:
            await process_turn(bus, turn, timeout_s=60.0, find_gone=gone)
        assert not is_interrupt(caught.value)  # which looks into whatever an error came by
        return bus.clock.monotonic() - began

    waited, _ = in_world(SilentHost([]), "host", "door", work)
    assert waited == pytest.approx(2 * JOURNAL_POLL_MS / 1000, abs=0.05)


@pytest.mark.parametrize("find_gone", [None, lambda: None])
def test_who_cannot_be_told_in_time_finds_out_at_the_deadline(find_gone):
    """A broker that stands still says nothing, and nobody waits for it longer than they said."""

    async def work(bus):
        began = bus.clock.monotonic()
        turn = ProcessTurn(session_id=None, input_id="in-1", text="hi")
        with pytest.raises(BusError) as caught:
            await process_turn(bus, turn, timeout_s=3.0, find_gone=find_gone)
        return caught.value.code, bus.clock.monotonic() - began

    def prepare(world):
        world.loop.call_later(2.9, world.network.freeze_broker)

    (code, waited), _ = in_world(SilentHost([]), "host", "door", work, prepare=prepare)
    assert (code, waited) == ("expired", pytest.approx(3.0))


def test_a_watched_turn_is_answered_and_retried_like_any_other():
    """Answer, retry and verdict come out as they are, not as a group of exceptions."""
    result, _ = ask(Host([BusError("peer_lost", "gone")]), find_gone=lambda: None)
    assert result.response == "yes"
    with pytest.raises(SessionFault):
        ask(Host([SessionFault("run_active", "SES-1 runs")]), find_gone=lambda: None)


def named(given, sessions):
    return in_world(Ledger(sessions), "ledger", "operator", lambda bus: FromLedger(bus, timeout_s=1.0).named(given))[0]


def test_a_session_is_named_by_id_or_unambiguous_prefix():
    """With or without the shown form's prefix; upper case is read as lower case."""
    other = derive_session_id("door", "in-2")
    assert named(SESSION, []) == SESSION
    for given in (f"SES-{SESSION[:8]}", SESSION[:8], SESSION[:20], SESSION[:8].upper()):
        assert named(given, [SESSION, other]) == SESSION


def test_an_over_long_session_id_is_refused_without_being_repeated():
    """Whatever was pasted there by mistake does not come back on the terminal."""
    with pytest.raises(CommandError, match="SESSION: 5000 characters") as caught:
        named("secret" + "a" * 4994, [SESSION])
    assert caught.value.exit_code == exit_codes.USAGE and "secret" not in caught.value.message
