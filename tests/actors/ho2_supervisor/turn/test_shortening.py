"""A prompt that its model cannot read is asked again without its oldest turns, or the end of a result; so are later ones.

Nobody told this supervisor how long the model's window is.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.work_order import LEARNED, LOOKED_UP, WorkOrder, WorkOrderError
from tests.actors.ho2_supervisor.remembering import Remembering, bias
from tests.actors.ho2_supervisor.rig import Answer, Rig, calls, classified, text_of
from tests.actors.ho2_supervisor.turn.test_context import SPECS, template

pytestmark = pytest.mark.slow

WINDOW_CHARS = 6000
SAID = "w" * 150


def count_chars(order: WorkOrder) -> int:
    """What the order's prompt shows beside the agent's own words."""
    rounds = [one for each in order.exchanges for one in (each.text, *each.results, *each.said)]
    return sum(len(one.text) for one in (*order.input_context, *rounds) if one.name != "instructions")


def with_window(answer: Callable[[WorkOrder], Answer]) -> Callable[[WorkOrder], Answer]:
    """The script of a model that reads so much and no more."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "synthesize" and count_chars(order) > WINDOW_CHARS:
            return WorkOrderError(code="CONTEXT_TOO_LONG", message="too long")
        return classified() if order.wo_type == "classify" else answer(order)

    return script


def answers_of(rig: Rig) -> list[WorkOrder]:
    """Every order for an answer."""
    return [one for one in rig.pool.orders if one.wo_type == "synthesize"]


def test_a_long_conversation_goes_on_in_a_window_that_nobody_stated() -> None:
    """Whole turns are left out, the oldest first; a next turn shows what the last one did, and is asked once."""
    with Rig(script=with_window(lambda order: f"{SAID} to {text_of(order, 'user_input')[:2]}")) as rig:
        rig.run(rig.start_session())
        for number in range(10, 50):
            result = rig.run(rig.turn(f"i{number}", f"{number} {SAID}"))
            assert (result.outcome, result.response) == ("success", f"{SAID} to {number}")
        asked = answers_of(rig)
        refused = [one for one in asked if count_chars(one) > WINDOW_CHARS]
        assert 1 <= len(refused) <= 2
        again = asked[asked.index(refused[0]) + 1]
        shown = text_of(again, "history")
        assert shown.startswith("- older turns are not shown") and "user: " in shown
        assert count_chars(again) < WINDOW_CHARS and text_of(refused[0], "history").endswith(shown.partition("\n")[2])
        assert "CONTEXT_TOO_LONG" not in text_of(asked[-1], "assembled_context")


@pytest.mark.parametrize("result_chars", [20_000, 3000])
def test_a_result_larger_than_the_window_is_cut_to_what_it_leaves(result_chars: int) -> None:
    """By its end, which is marked; of several each as far as it has to be, and the small one not at all."""

    def answer(order: WorkOrder) -> Answer:
        if order.tool_call is not None:
            return "small" if order.wo_id.endswith("002") else "r" * result_chars
        is_asked = "what" in text_of(order, "user_input") and not order.exchanges
        return calls("list_packages", "list_tools", "list_packages") if is_asked else "seen"

    with Rig(script=with_window(answer)) as rig:
        rig.run(rig.start_session())
        assert rig.run(rig.turn("i1", "what is there?")).response == "seen"
        first, small, last = [one.text for one in answers_of(rig)[-1].exchanges[0].results]
        assert (small, first) == ("small", last)
        assert first.endswith("(cut: the model's window has no room for more)") and first.count("(cut") == 1
        assert 1000 < first.count("r") < result_chars
        later = rig.run(rig.turn("i2", "and now?"))
        assert later.outcome == "success" and "[erased]" not in text_of(answers_of(rig)[-1], "history")


def test_what_was_looked_up_is_left_out_before_what_was_said() -> None:
    """A line of memory that is in force stays; nothing gets longer by being cut, down to the message alone."""
    with Rig(("ho3.enabled", True), templates=[template(SPECS, {"type": "memory"}, {"type": "history"})]) as rig:
        rig.run(rig.start_session())
        for number in range(10, 14):
            rig.run(rig.turn(f"i{number}", f"{number} {SAID}"))
        rig.world.start(Remembering([bias("ART-1")]), role="ho3")
        rig.run(rig.world.settled())
        before = len(answers_of(rig))

        def answer(order: WorkOrder) -> Answer:
            if order.tool_call is not None:
                return "r" * 501
            return SAID if order.exchanges else calls("list_packages")

        def script(order: WorkOrder) -> Answer:
            is_long = text_of(order, HISTORY) or any(
                len(one.text) > 500 for each in order.exchanges for one in each.results
            )
            refused = WorkOrderError(code="CONTEXT_TOO_LONG", message="too long")
            return refused if is_long and order.exchanges else answer(order)

        rig.pool.script = lambda order: classified() if order.wo_type == "classify" else script(order)
        assert rig.run(rig.turn("i20", "the last")).response == SAID
        whole, *shorter = answers_of(rig)[before + 1 :]
    assert text_of(whole, LOOKED_UP) and not text_of(shorter[0], LOOKED_UP)
    assert text_of(shorter[0], HISTORY) == text_of(whole, HISTORY) != text_of(shorter[-1], HISTORY) == ""
    assert {text_of(one, LEARNED) for one in (whole, *shorter)} == {text_of(whole, LEARNED)} != {""}
    sizes = [count_chars(one) for one in (whole, *shorter)]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)


def test_a_message_that_alone_is_too_long_is_told_so() -> None:
    """Once nothing is left that could be shown less of."""
    with Rig(script=with_window(lambda _: "yes")) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", SAID))
        assert rig.run(rig.turn("i2", "x" * 7000)).code == "CONTEXT_TOO_LONG"
        assert len(answers_of(rig)) == 3
        assert rig.run(rig.turn("i3", SAID)).response == "yes"


@pytest.mark.parametrize("killed_at", range(1, 6))
def test_after_a_crash_a_shortened_prompt_is_the_same(killed_at: int) -> None:
    """Whenever another supervisor drives the turn on: each order shows what it would have shown."""

    def answer(order: WorkOrder) -> Answer:
        if order.tool_call is not None:
            return "r" * 9000
        is_last = "the last" in text_of(order, "user_input")
        return calls("list_packages") if is_last and not order.exchanges else SAID

    def talk(rig: Rig) -> list[tuple[str, str, list[str]]]:
        rig.run(rig.start_session())
        for number in range(10, 27):
            rig.run(rig.turn(f"i{number}", f"{number} {SAID}"))
        seen: set[str] = set()

        def killing(order: WorkOrder) -> Answer:
            if order.wo_id not in seen:
                seen.add(order.wo_id)
                if len(seen) == killed_at and rig is crashed:
                    rig.world.kill(rig.instances[0])
                    rig.supervise()
            return with_window(answer)(order)

        rig.pool.script = killing
        assert rig.run(rig.turn("i30", "the last")).response == SAID
        run = f"-{18}."
        shown = {one.wo_id: one for one in answers_of(rig) if run in one.wo_id}
        assert len(shown) >= 4
        return [
            (name, text_of(one, "history"), [part.text for each in one.exchanges for part in each.results])
            for name, one in sorted(shown.items())
        ]

    crashed: Rig | None = None
    with Rig(agent={"classification": "off"}) as rig:
        rig.pool.script = with_window(lambda _: SAID)
        usual = talk(rig)
    with Rig(agent={"classification": "off"}) as rig:
        crashed = rig
        rig.pool.script = with_window(lambda _: SAID)
        assert talk(rig) == usual
