"""What a plain client can do to the record of a whole cluster: nothing."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import BusError
from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Entries, Read, Tail, Write, WriteEntry, Written, name_session_stream
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.record.journal import pack_event
from hobus.bus.record.session_facts import SessionEvent, TurnDegraded
from hobus.ledger_service.limits import DENIED_INTERVAL_MS, PRINCIPAL_TAILS_MAX
from tests.journals import check_record, count_of
from tests.simulated import SimulatedCluster

QUESTION = "what packages are installed?"


def _forgeries(session_id: str) -> list[WriteEntry]:
    """An answer to a later input; junk that would brick the session; a take-over; a poisoned budget."""
    stream, degraded_id = name_session_stream(session_id), f"TurnDegraded:{session_id}/in-2"
    event = TurnDegraded(
        input_id="in-2", input_ref=f"{degraded_id}/1", reply_ref=f"{degraded_id}/2", delivered=False, at=format_iso(1.0)
    )
    envelope = SessionEvent(session_id=session_id, session_epoch=0, step_epoch=0, event=event)
    bodies = [pack_event(envelope, degraded_id, 0), b"is the ledger intact?", b"FORGED"]
    once = f"turn:{session_id}/in-2"
    return [
        WriteEntry(
            submission_id=degraded_id, stream=stream, event_type="TurnDegraded", at_us=0, bodies=bodies, once=once
        ),
        WriteEntry(
            submission_id="x1", stream=stream, event_type="TurnDegraded", at_us=0, bodies=[b"junk"], once="whatever"
        ),
        WriteEntry(
            submission_id="x2", stream=stream, event_type="TookOver", at_us=0, bodies=[b"junk"], prev="", tenure=2
        ),
        WriteEntry(submission_id="x3", stream="prompts", event_type="BUDGET_ALLOCATED", at_us=0, bodies=[pack({})]),
    ]


def test_a_client_forges_nothing_and_reads_nothing():
    """Every forgery is refused and recorded; the session and a restarted gateway go on as if nothing had been tried."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = cluster.ask(QUESTION, input_id="in-1")
        door = cluster.world.client("door")  # with a link to the ledger's own socket
        for client in (door, cluster.world.client("door", lanes=())):
            written = cluster.world.run(
                client.request("ledger", Write(entries=_forgeries(first.session_id)), expect=Written, timeout_s=5)
            )
            assert [(ack.outcome, ack.code) for ack in written.acks] == [("refused", "denied")] * 4
            question = Read(stream=name_session_stream(first.session_id), limit=1)
            with pytest.raises(BusError, match="role door may not read stream session/"):
                cluster.world.run(client.request("ledger", question, expect=Entries, timeout_s=5))
        second = cluster.ask("is the ledger intact?", input_id="in-2", session_id=first.session_id)
        cluster.world.kill(next(name for name in cluster.world.processes if name.startswith("gateway/")))
        cluster.start("gateway")
        third = cluster.ask(QUESTION, input_id="in-3", session_id=first.session_id)
        cluster.world.run(asyncio.sleep(2 * DENIED_INTERVAL_MS / 1000))
        entries = cluster.entries()
    assert [result.outcome for result in (first, second, third)] == ["success"] * 3
    assert "intact" in second.response
    assert count_of(entries, "DENIED") == 8 and count_of(entries, "TurnDegraded") == 0
    check_record(entries)


def test_a_clients_long_polls_keep_nobody_out():
    """More of them than a mailbox has room for one sender: turns go on as before, undegraded."""
    snapshot = shipped_snapshot()
    with SimulatedCluster(snapshot) as cluster:
        count = 84
        greedy = [cluster.world.client(role) for role in ("operator", "door")]
        asker = cluster.world.client("door", lanes=())

        async def scenario() -> list[TurnResult]:
            poll = Tail(stream="signals", after=1 << 40, limit=1, wait_ms=60_000)  # nothing will come
            polls = [
                asyncio.ensure_future(client.request("ledger", poll, expect=Entries, timeout_s=60))
                for client in greedy
                for _ in range(count)
            ]
            await asyncio.sleep(1)
            answers = [
                await asker.request(
                    "host", ProcessTurn(input_id=f"in-{n}", text=QUESTION), expect=TurnResult, timeout_s=30
                )
                for n in range(2)
            ]
            assert sum(not one.done() for one in polls) == PRINCIPAL_TAILS_MAX
            for one in polls:
                one.cancel()
            await asyncio.gather(*polls, return_exceptions=True)
            return answers

        assert [answer.outcome for answer in cluster.world.run(scenario())] == ["success"] * 2
