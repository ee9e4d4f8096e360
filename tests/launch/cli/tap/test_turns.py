"""Which turn a frame belongs to."""

from __future__ import annotations

import pytest

from hobus.bus.messages.ids import NO_TURN, TurnRef, derive_turn_trace, find_turn
from hobus.launch.cli.tap.choice import TurnBook
from tests.launch.filters.frames import OTHER, SESSION, frame


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        (derive_turn_trace(SESSION, "in-7"), TurnRef(SESSION, 0, "in-7")),
        (f"turn:{SESSION}/in-7/door/1@d:5.1.1.1", TurnRef(SESSION, 0, "in-7")),
        (f"WO-{SESSION}-12.1.2.001", TurnRef(SESSION, 12)),
        (f"WO-{SESSION}-12.1.1#2", TurnRef(SESSION, 12)),
        (f"{SESSION}-3", TurnRef(SESSION, 3)),
        (SESSION, TurnRef(SESSION)),
        (f"session/{SESSION}", TurnRef(SESSION)),
        (f"{SESSION}-3x", TurnRef(SESSION)),
        ("operator/7@0271e1fe:12", NO_TURN),
        (f"x{SESSION}", NO_TURN),
        ("", NO_TURN),
    ],
)
def test_an_id_names_its_turn(text, turn):
    """Every derived form; what only looks like one names nothing."""
    assert find_turn([text]) == turn


def test_ids_of_one_frame_complete_each_other_and_those_of_another_session_do_not():
    assert find_turn([f"WO-{SESSION}-2.1.1", f"turn:{SESSION}/in-7/x"]) == TurnRef(SESSION, 2, "in-7")
    assert find_turn([f"WO-{SESSION}-2.1.1", f"turn:{OTHER}/in-7/x"]) == TurnRef(SESSION, 2)


def test_an_input_gets_its_run_from_the_first_order_that_names_both():
    """The client's request, before and after; another input of the session stays without."""
    book = TurnBook(None)
    asked = frame(trace=derive_turn_trace(SESSION, "in-7"), message_id="door/1@d:5", causation_id="")
    other = asked._replace(trace=derive_turn_trace(SESSION, "in-8"))
    assert book.make_turn(asked) == TurnRef(SESSION, 0, "in-7")
    book.learn([frame()])
    assert book.make_turn(asked) == TurnRef(SESSION, 2, "in-7")
    assert book.make_turn(other) == TurnRef(SESSION, 0, "in-8")


def test_the_book_is_bounded():
    book = TurnBook(2)
    records = [frame(causation_id=f"turn:{SESSION}/in-{n}/x") for n in range(3)]
    book.learn(records)
    asked = [record._replace(message_id="m") for record in records]
    assert [book.make_turn(record).run_seq for record in asked] == [0, 2, 2]
