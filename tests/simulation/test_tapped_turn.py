"""Every frame of a turn says which turn it belongs to: the whole cluster in one process, its broker's tap."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import shipped_snapshot
from hobus.bus import limits
from hobus.bus.broker.tap_record import TapRecord, record_of
from hobus.bus.messages.ids import NO_TURN, derive_session_id, derive_turn_trace
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.cli.tap.choice import TurnBook
from hobus.launch.filters.tap_fields import is_routine
from hobus.launch.sessions.turns import process_turn
from tests.simulated import SimulatedCluster

ABOUT_PEERS = ("broker.", "bus.", "gateway.read_breakers", "gateway.breakers")
"""What is asked about processes, by timers and at start; and the connections themselves."""


def ask(cluster: SimulatedCluster, text: str, input_id: str, session_id: str | None = None) -> TurnResult:
    """One streamed turn as a client asks it."""
    turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text, stream=True)
    asking = process_turn(cluster.door, turn, timeout_s=60, on_stream=lambda _piece: None)
    return cluster.world.run(asking)


@pytest.mark.parametrize("victim", ["", "ho1", "ho2"])
def test_every_frame_of_two_turns_has_its_session_and_run(victim):
    """Requests, answers, streams, cancels, posts after the reply; also when a process is killed in the second one."""
    tapped: list[TapRecord] = []
    with SimulatedCluster(shipped_snapshot(), ho1=2, ho2=2) as cluster:
        cluster.world.network.on_tap = lambda tap: tapped.append(record_of(tap, "sim", with_body=False))
        first = ask(cluster, "what packages are installed?", "in-1")
        cluster.world.run(asyncio.sleep(2 * limits.LANE_FRAMES_MS / 1000))  # a kill takes what a lane has not told yet
        if victim:
            cluster.strike(victim, after_s=0.002, back_after_s=0.5)
        second = ask(cluster, "is the ledger intact?", "in-2", first.session_id)
        cluster.world.run(asyncio.sleep(2 * limits.LANE_FRAMES_MS / 1000))
    assert first.outcome == second.outcome == "success"
    book = TurnBook(None)
    book.learn(tapped)
    turns = {}
    for record in tapped:
        if is_routine(record) or record.type.startswith(ABOUT_PEERS) or record.verdict in ("control", "lost"):
            continue
        turn = book.make_turn(record)
        assert turn != NO_TURN, record
        assert turn.run in (f"{first.run_id}", f"{second.run_id}"), record
        turns.setdefault(turn.run, []).append(record.type)
    assert list(turns) == [f"{first.run_id}", f"{second.run_id}"]
    for types in turns.values():
        assert {"host.process_turn", "ho2.turn", "wo.execute", "gateway.prompt", "session.turn_result"} <= set(types)
        assert {"stream.delta", "memory.log_signals"} <= set(types)


def test_a_trace_names_the_turn_where_no_derived_id_does_and_nowhere_else():
    """The client's frames carry it; what has an id of its own does not repeat it."""
    tapped: list[TapRecord] = []
    with SimulatedCluster(shipped_snapshot()) as cluster:
        cluster.world.network.on_tap = lambda tap: tapped.append(record_of(tap, "sim", with_body=False))
        ask(cluster, "what packages are installed?", "in-1")
        cluster.world.run(asyncio.sleep(2 * limits.LANE_FRAMES_MS / 1000))
    trace = derive_turn_trace(derive_session_id("door", "in-1"), "in-1")
    by_type = {}
    for record in tapped:
        by_type.setdefault(record.type, set()).add(record.trace)
    for type_name in ("host.process_turn", "session.turn_result"):
        assert by_type[type_name] == {trace}
    for type_name in ("ho2.turn", "ho2.turn_reply", "wo.execute", "wo.receipt", "gateway.prompt"):
        assert by_type[type_name] == {""}
