"""How an input ended, by the entry that ended it."""

import pytest

from hobus.bus.messages.session import TurnResult
from hobus.bus.record import session_facts as events
from hobus.bus.record.catalog import KINDS, SESSION
from hobus.bus.record.ends import ENDS, End, end_in, read_order_receipt, read_result, reply_in
from hobus.bus.record.journal import Recorded, pack_result
from hobus.bus.record.session_facts import RUN_ENDS
from tests.bus.record import journal_samples as samples
from tests.bus.record.journal_samples import RUN, SAMPLES, at, enveloped

NAME = f"RunCancelled:{samples.SESSION}/2.9"
RESULT = TurnResult(
    response="The turn was cancelled.", outcome="error", session_id=samples.SESSION, run_id=RUN, input_id="in-1"
)


def taken(name: str, *bodies: bytes | None, submission_id: str = NAME) -> Recorded:
    """The sample's entry with these further bodies."""
    return Recorded(submission_id, enveloped(name), (b"event", *bodies))


@pytest.mark.parametrize(
    ("name", "bodies", "end"),
    [
        (
            "RunCompleted",
            (),
            End("in-1", "answered", f"RunCompleted:{RUN}/1", f"PROMPT_RECEIVED:{samples.WO}#1/1/1"),
        ),
        ("RunFailed", (), End("in-1", "failed", f"RunFailed:{samples.SESSION}/2.9/1", code="deadline_exceeded")),
        ("RunCancelled", (b"result",), End("in-1", "cancelled", f"{NAME}/1", code="cancelled", reason="enough")),
        ("RunCancelled", (), End("in-1", "cancelled", code="cancelled", reason="enough")),
        (
            "TurnDegraded",
            (),
            End("in-1", "degraded", reply_ref=f"TurnDegraded:{samples.SESSION}/in-1/2", reason="HO2 was away"),
        ),
    ],
)
def test_each_end_says_what_became_of_its_input(name: str, bodies: tuple[bytes, ...], end: End) -> None:
    entry = taken(name, *bodies)
    assert end_in(entry.event.event, entry) == end


def test_a_failure_that_explains_nothing_names_no_result() -> None:
    failed = events.RunFailed(input_id="in-1", code="internal", at=at())
    assert end_in(failed, taken("RunFailed")) == End("in-1", "failed", code="internal")


def test_no_other_event_ends_an_input() -> None:
    named = {SAMPLES[name].entry_name for name in SAMPLES if _ends(name)}
    assert named == ENDS == RUN_ENDS | {"TurnDegraded"}
    keyed = {kind.event_type for kind in KINDS if kind.stream == SESSION and kind.once is not None}
    assert keyed == ENDS | {"SESSION_START"}


def _ends(name: str) -> bool:
    return end_in(SAMPLES[name], taken(name)) is not None


def test_the_result_is_read_from_the_entry_that_brought_it() -> None:
    assert read_result(taken("RunCancelled", pack_result(RESULT)), f"{NAME}/1") == RESULT
    for bodies in ((None,), (b"words",), ()):
        assert read_result(taken("RunCancelled", *bodies), f"{NAME}/1") is None


def test_the_reply_is_its_own_text_or_that_of_the_result() -> None:
    answered = End("in-1", "answered", f"{NAME}/1", f"{NAME}/2")
    assert reply_in(taken("RunCompleted", b"", b"shown"), answered, RESULT) == "shown"
    assert reply_in(taken("RunCompleted", b""), answered._replace(reply_ref="elsewhere/1"), RESULT) == RESULT.response
    assert reply_in(taken("RunCompleted", None, None), answered, None) is None


def test_the_receipt_of_an_order_is_read_from_its_journal_too() -> None:
    ended = samples.entry("OrderEnded")
    receipt = read_order_receipt(ended)
    assert receipt is not None
    assert (receipt.wo_id, receipt.state) == (samples.WO, "completed")
    assert read_order_receipt(ended._replace(bodies=[])) is None
    with pytest.raises(ValueError, match="no end of an order"):
        read_order_receipt(samples.entry("OrderDispatched"))
