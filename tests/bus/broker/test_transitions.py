"""The life of a request, cell by cell: the table itself, and what each event does to a broker in each state."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from hobus.bus.broker.peers import OpenRequest
from hobus.bus.broker.transitions import (
    REQUEST_TRANSITIONS,
    IllegalMove,
    RequestEvent,
    RequestState,
)
from hobus.bus.envelope import Kind, make_header
from tests.bus.broker.rig import Rig

STATES: tuple[RequestState, ...] = get_args(RequestState)
EVENTS: tuple[RequestEvent, ...] = get_args(RequestEvent)
TABLE = """
              placing    waiting    in_flight  stopping   done
queued        waiting    -          -          -          -
taken_out     -          placing    -          -          -
bound         in_flight  in_flight  in_flight  stopping   -
handed_over   done       -          -          -          -
asked_again   -          waiting    in_flight  in_flight  -
cancelled     -          done       stopping   stopping   -
answered      -          -          done       done       -
worker_lost   -          -          placing    done       -
expired       done       done       done       done       -
failed        done       done       done       done       -
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
CELLS = [(state, row[0], row[1 + number]) for row in ROWS[1:] for number, state in enumerate(ROWS[0])]


def test_the_table_has_every_state_and_event() -> None:
    assert tuple(ROWS[0]) == STATES == tuple(REQUEST_TRANSITIONS)
    assert tuple(row[0] for row in ROWS[1:]) == EVENTS
    assert len(CELLS) == len(STATES) * len(EVENTS)


def test_every_event_in_every_state() -> None:
    found = [(state, event, moved(state, event)) for state, event, _ in CELLS]
    assert [cell for cell in zip(found, CELLS, strict=True) if cell[0] != cell[1]] == []


def moved(state: RequestState, event: RequestEvent) -> str:
    """Where a request comes to; `-`: the move was refused, in words that name it."""
    request = OpenRequest.__new__(OpenRequest)
    request.header = make_header(Kind.REQUEST, "m1")
    request.state = state
    try:
        to = request.after(event)
        request.move(event)
    except IllegalMove:
        with pytest.raises(IllegalMove, match=f"{event} while {state}: m1"):
            request.move(event)
        return "-" if request.state == state else f"refused, and {request.state}"
    return to if request.state == to else f"{to}, and {request.state}"


def test_a_request_ends_whatever_it_is_and_once() -> None:
    """The broker may give up one in any state; nothing leads out of the end; every state can be come to."""
    assert all(REQUEST_TRANSITIONS[state].get("failed") == "done" for state in STATES if state != "done")
    assert not REQUEST_TRANSITIONS["done"]
    reached = {to for moves in REQUEST_TRANSITIONS.values() for to in moves.values()}
    assert reached == set(STATES)


# --- what peers and time do, in each state that they can meet

CLIENT, STRANGER, WORKER, OTHER = b"ho2/1@a", b"gateway/1@a", b"ho1/1@a", b"ho1/2@a"
AGAIN = b"ho1/1@a, again"
DEADLINE_MS, PAST_S = 1000, 1.1


def waiting(rig: Rig) -> None:
    """Nobody has room."""
    rig.credit(WORKER, 0)
    rig.order(CLIENT, "m1", deadline_ms=DEADLINE_MS)


def in_flight(rig: Rig) -> None:
    """The worker has it."""
    rig.order(CLIENT, "m1", deadline_ms=DEADLINE_MS)


def stopping(rig: Rig) -> None:
    """The worker was told to stop."""
    in_flight(rig)
    rig.cancel(CLIENT, "m1", to="ho1")


def done(rig: Rig) -> None:
    """It was answered."""
    in_flight(rig)
    rig.reply(WORKER, "m1")


def late(rig: Rig) -> None:
    """Its time was over while the worker had it, and has it still."""
    in_flight(rig)
    rig.advance(PAST_S)


def asked_again(rig: Rig) -> None:
    """By the same."""
    rig.order(CLIENT, "m1", deadline_ms=DEADLINE_MS)


def cancelled(rig: Rig) -> None:
    """By who asked."""
    rig.cancel(CLIENT, "m1", to="ho1")


def cancelled_by_a_stranger(rig: Rig) -> None:
    """By who did not."""
    rig.cancel(STRANGER, "m1", to="ho1")


def answered(rig: Rig) -> None:
    """By its worker, if it has one."""
    rig.reply(WORKER, "m1")


def answered_by_another(rig: Rig) -> None:
    """By a worker that was not given it."""
    rig.reply(OTHER, "m1")


def worker_lost(rig: Rig) -> None:
    """Its connection is."""
    rig.lost(WORKER)


def back(rig: Rig, **said: list[str]) -> None:
    """The worker, on a new connection."""
    rig.hello("ho1/1@a", AGAIN, offers=["ho1"], slots=1, **said)
    rig.ready(AGAIN)


def worker_back_with_it(rig: Rig) -> None:
    """On a new connection, at work on it."""
    back(rig, in_progress=["m1"])


def worker_back_with_its_answer(rig: Rig) -> None:
    """On a new connection; the answer may have been lost with the old one."""
    back(rig, answered=["m1"])


def worker_back_without_it(rig: Rig) -> None:
    """On a new connection: it never got it."""
    back(rig)


def time_over(rig: Rig) -> None:
    """The deadline passes."""
    rig.advance(PAST_S)


def after(came_to: Callable[[Rig], None], happens: Callable[[Rig], None]) -> str:
    """The request's state, its asker's answers, and what workers got, behind one event in one state."""
    rig = Rig()
    rig.client("ho2/1@a")
    rig.client("gateway/1@a")
    rig.worker("ho1/1@a", slots=1)
    rig.worker("ho1/2@a", slots=0)
    came_to(rig)
    rig.inbox.clear()
    rig.verdicts()
    happens(rig)
    found = rig.core._state.asked["ho2"].get("m1")
    state = "-" if found is None else found.state
    answers = ",".join(code or "reply" for _, code in rig.answers(CLIENT))
    got = [
        f"{Kind(frame.header.kind).name.lower()}{frame.header.attempt if frame.header.kind == Kind.REQUEST else ''}"
        for worker in (WORKER, AGAIN, OTHER)
        for frame in rig.got(worker)
        if frame.header.kind in {Kind.REQUEST, Kind.CANCEL}
    ]
    verdicts = ",".join(verdict for verdict in rig.verdicts() if verdict not in {"control", "lost", "queued"})
    return " ".join([state, answers or ".", ",".join(got) or ".", verdicts or "."])


COLUMNS: tuple[Callable[[Rig], None], ...] = (waiting, in_flight, stopping, done, late)
HAPPENINGS: tuple[Callable[[Rig], None], ...] = (
    asked_again, cancelled, cancelled_by_a_stranger, answered, answered_by_another, worker_lost, worker_back_with_it,
    worker_back_with_its_answer, worker_back_without_it, time_over,
)  # fmt: skip
SEEN = """
asked_again                 waiting    waiting . . .
asked_again                 in_flight  in_flight . . .
asked_again                 stopping   in_flight . request2 delivered
asked_again                 done       in_flight . request1 delivered
asked_again                 late       waiting . . .
cancelled                   waiting    - cancelled . cancelled
cancelled                   in_flight  stopping . cancel delivered
cancelled                   stopping   stopping . cancel delivered
cancelled                   done       - . . late
cancelled                   late       - . . late
cancelled_by_a_stranger     waiting    waiting . . late
cancelled_by_a_stranger     in_flight  in_flight . . late
cancelled_by_a_stranger     stopping   stopping . . late
cancelled_by_a_stranger     done       - . . late
cancelled_by_a_stranger     late       - . . late
answered                    waiting    waiting . . denied
answered                    in_flight  - reply . delivered
answered                    stopping   - reply . delivered
answered                    done       - . . late
answered                    late       - . . late
answered_by_another         waiting    waiting . . denied
answered_by_another         in_flight  in_flight . . denied
answered_by_another         stopping   stopping . . denied
answered_by_another         done       - . . late
answered_by_another         late       - . . late
worker_lost                 waiting    waiting . . .
worker_lost                 in_flight  waiting . . .
worker_lost                 stopping   - cancelled . cancelled
worker_lost                 done       - . . .
worker_lost                 late       - . . .
worker_back_with_it         waiting    in_flight . request1 delivered
worker_back_with_it         in_flight  in_flight . . .
worker_back_with_it         stopping   stopping . . .
worker_back_with_it         done       - . . .
worker_back_with_it         late       - . . .
worker_back_with_its_answer waiting    in_flight . request1 delivered
worker_back_with_its_answer in_flight  in_flight . request1 delivered
worker_back_with_its_answer stopping   stopping . request1 delivered
worker_back_with_its_answer done       - . . .
worker_back_with_its_answer late       - . . .
worker_back_without_it      waiting    in_flight . request1 delivered
worker_back_without_it      in_flight  in_flight . request2 delivered
worker_back_without_it      stopping   - cancelled . cancelled
worker_back_without_it      done       - . . .
worker_back_without_it      late       - . . .
time_over                   waiting    - expired . expired
time_over                   in_flight  - expired cancel expired
time_over                   stopping   - expired cancel expired
time_over                   done       - . . .
time_over                   late       - . . .
"""
"""What happens, in which state; then: its state (-: none), what its asker is told, what workers get, verdicts."""


def test_what_peers_and_time_can_do_to_a_request() -> None:
    seen = {tuple(line.split()[:2]): " ".join(line.split()[2:]) for line in SEEN.strip().splitlines()}
    found = {
        (happens.__name__, came_to.__name__): after(came_to, happens) for happens in HAPPENINGS for came_to in COLUMNS
    }
    assert [cell for cell in zip(found.items(), seen.items(), strict=True) if cell[0] != cell[1]] == []
