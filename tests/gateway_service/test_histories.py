"""Earlier turns that a prompt goes on from: what the gateway fills in, and what it asks for."""

from __future__ import annotations

import pytest

from bench.builders import order
from bench.builders import prompt as built
from hobus.bus.errors import BusError
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt, PromptMessage
from hobus.bus.messages.work_order import Segment, WorkOrder
from hobus.gateway_service.histories import Histories

FIRST = "\x1euser\nfirst\n\x1eassistant\nanswer\n"
SECOND = FIRST + "\x1euser\nsecond\n\x1eassistant\nanswer\n"


def asked(text: str) -> WorkOrder:
    """An order that shows these turns."""
    return order(input_context=[Segment(name=transcript.NAME, ref="r/1", text=text)])


def prompt(given: WorkOrder, session_id: str = "s") -> Prompt:
    """What an executor makes of it."""
    segments = [one for one in given.input_context if one.name == transcript.NAME]
    message = PromptMessage(role="history", segments=segments)
    return built(messages=[message], session_id=session_id, history_after=given.history_after)


def test_a_prompt_brings_what_was_added_and_gets_all_of_it():
    """The same text for the next order of a turn, a longer one for the next turn's; a call made again gets the same."""
    kept = Histories(chars_max=1000)
    assert kept.whole(prompt(asked(FIRST))).messages[0].text == FIRST
    same = transcript.goes_on(asked(FIRST), transcript.told(asked(FIRST)))
    assert same.input_context[0].text == ""
    longer = transcript.goes_on(asked(SECOND), transcript.told(asked(FIRST)))
    assert FIRST + longer.input_context[0].text == SECOND
    assert kept.whole(prompt(same)).messages[0].text == FIRST
    for _ in range(2):
        filled = kept.whole(prompt(longer))
        assert (filled.messages[0].text, filled.messages[0].segments[0].ref) == (SECOND, "r/1")


@pytest.mark.parametrize("last", [None, transcript.told(asked("\x1euser\nother\n"))])
def test_what_begins_otherwise_is_brought_whole(last):
    """Turns that went out of the window, were erased, or belong to nobody: no word of theirs is relied on."""
    assert transcript.goes_on(asked(SECOND), last) == asked(SECOND)


def test_what_the_gateway_has_not_is_asked_for():
    """After a restart, where room went to other sessions, and where another text stands: never a wrong one."""
    longer = transcript.goes_on(asked(SECOND), transcript.told(asked(FIRST)))
    full = Histories(chars_max=len(FIRST))
    full.whole(prompt(asked(FIRST)))
    full.whole(prompt(asked(FIRST), session_id="other"))
    wrong = Histories(chars_max=1000)
    wrong.whole(prompt(asked(FIRST.replace("first", "forged"))))
    for kept in (Histories(chars_max=1000), full, wrong):
        with pytest.raises(BusError) as raised:
            kept.whole(prompt(longer))
        assert (raised.value.code, raised.value.retryable) == (transcript.UNKNOWN, True)
        assert kept.whole(prompt(asked(SECOND))).messages[0].text == SECOND
