"""The conditions of a write, one by one; all together they stand against a model in test_write_rules.py."""

import pytest

from hobus.bus.messages.ledger import STREAMS
from hobus.ledger_service.admission import ELSEWHERE, Earlier, StreamHead, advance, find_bar, judge
from tests.ledger_service.rig import SESSION, append, take_over, write

OWNER = "ho2/1@7"
HEAD = StreamHead("last", 3, OWNER)
WINNER = Earlier(9, "other", "ho1/1@1", "TOOL_STARTED")


def _judge(entry, *, origin=OWNER, known=None, holder=None, head=HEAD):
    return judge(entry, origin=origin, known=known, holder=holder, head=head)


def test_an_unconditional_write_to_a_named_stream_may_commit():
    for stream in STREAMS:
        assert _judge(write("a", stream)) is None


@pytest.mark.parametrize(
    "entry",
    [
        write("a", "ho4m"),
        write("a", "session/not-a-uuid"),
        write("a", SESSION + "x", prev="", tenure=1),
        write("a", SESSION.upper(), prev="", tenure=1),
        write("a", SESSION),
        write("a", SESSION, prev="last"),
        write("a", SESSION, tenure=3),
        write("a", "ho1m", prev=""),
        write("a", "ho1m", tenure=1),
        write("a", "ho1m", once=""),
        write("a", SESSION, event_type="TurnDegraded"),
        write("a", SESSION, event_type="TurnDegraded", once="turn:1", prev="last", tenure=3),
    ],
    ids=lambda entry: f"{entry.stream[:20]}-{entry.event_type}-{entry.prev}-{entry.tenure}-{entry.once}",
)
def test_a_write_that_is_not_well_formed_is_invalid(entry):
    for known in (None, Earlier(4, "a", OWNER, "E", is_same=True)):
        ack = _judge(entry, known=known, holder=WINNER)
        assert ack is not None and (ack.outcome, ack.code) == ("refused", "invalid")


def test_the_next_append_of_the_current_tenure_may_commit():
    assert _judge(append("a", "last", 3)) is None


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (append("a", "older", 3), "head_mismatch"),
        (append("a", "", 3), "head_mismatch"),
        (append("a", "last", 2), "tenure_mismatch"),
        (append("a", "last", 4), "tenure_mismatch"),
        (append("a", "older", 2), "tenure_mismatch"),
        (take_over(3, "last"), "tenure_mismatch"),
        (take_over(5, "last"), "tenure_mismatch"),
        (take_over(4, "older"), "head_mismatch"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.submission_id[:9] + str(value.tenure),
)
def test_a_write_that_does_not_continue_the_stream_learns_where_it_stands(entry, code):
    ack = _judge(entry)
    assert ack is not None
    assert (ack.outcome, ack.code, ack.head, ack.tenure, ack.sequence) == ("refused", code, "last", 3, -1)


def test_who_claims_the_current_tenure_and_did_not_open_it_learns_so():
    """Two who take over at once derive one id and one number; a take-over itself is anybody's."""
    ack = _judge(append("a", "last", 3), origin="ho2/2@8")
    assert ack is not None and (ack.code, ack.head, ack.tenure) == ("tenure_mismatch", "last", 3)
    assert _judge(take_over(4, "last"), origin="ho2/2@8") is None


def test_a_take_over_brings_the_next_tenure():
    assert _judge(take_over(1, ""), head=StreamHead()) is None
    assert _judge(take_over(4, "last")) is None
    assert advance(HEAD, take_over(4, "last"), "ho2/2@8") == StreamHead(
        take_over(4, "last").submission_id, 4, "ho2/2@8"
    )


def test_nothing_but_a_take_over_or_a_degraded_turn_begins_a_stream():
    ack = _judge(append("a", "", 0), head=StreamHead())
    assert ack is not None and ack.code == "tenure_mismatch"


def test_a_degraded_turn_is_unconditional_and_becomes_the_head():
    """So the owner's next append is refused, and the tenure stays."""
    degraded = write("TurnDegraded:i1", SESSION, event_type="TurnDegraded", once="turn:s/i1")
    assert _judge(degraded) is None
    assert advance(HEAD, degraded, "host/1@2") == StreamHead("TurnDegraded:i1", 3, OWNER)
    assert advance(StreamHead(), degraded, "host/1@2") == StreamHead("TurnDegraded:i1", 0)


def test_a_known_write_gets_its_first_number_and_another_content_is_a_conflict():
    """Before every other condition: a resubmission is answered though the stream went on."""
    known = Earlier(4, "a", "ho2/1@1", "StepStarted", is_same=True)
    ack = _judge(append("a", "older", 2, once="k"), known=known, holder=WINNER)
    assert ack is not None and (ack.outcome, ack.sequence, ack.origin) == ("known", 4, "ho2/1@1")
    ack = _judge(append("a", "last", 3), known=known._replace(is_same=False))
    assert ack is not None and (ack.outcome, ack.code) == ("refused", "conflict")


def test_a_taken_once_key_is_answered_with_its_holder():
    """Also when the write would be refused anyway: the loser learns what stands."""
    for entry in (write("a", once="k"), append("a", "last", 3, once="k"), append("a", "older", 2, once="k")):
        ack = _judge(entry, holder=WINNER)
        assert ack is not None
        assert (ack.outcome, ack.sequence, ack.submission_id, ack.origin, ack.event_type) == ("lost", *WINNER[:4])


@pytest.mark.parametrize(
    ("event_type", "once", "origin", "reason", "bar"),
    [
        ("TOOL_STARTED", "start:WO-1", "ho1/1@1", "builtin", "end:WO-1"),
        ("TOOL_STARTED", "start:WO-1/2", "ho1/1@1", "builtin", "end:WO-1"),
        ("WO_FAILED", "end:WO-1", OWNER, "execution_error", "start:WO-1"),
        ("WO_FAILED", "end:WO-1", OWNER, "cancelled", "start:WO-1"),
        ("WO_FAILED", "end:WO-1", OWNER, "unknown_outcome", None),
        ("WO_COMPLETED", "end:WO-1", OWNER, "", None),
        ("WO_FAILED", "end:WO-1", "ho1/1@1", "tool_failed", None),
        ("WO_LATE", None, "ho1/1@1", "", None),
    ],
)
def test_a_tools_start_and_a_supervisors_plain_end_exclude_each_other(event_type, once, origin, reason, bar):
    """An executor's own end follows its start; of a tool that may run again the start has another key."""
    assert find_bar(write("a", "ho1m", event_type=event_type, once=once, reason=reason), origin) == bar


def test_a_session_that_left_takes_what_comes_back_and_nothing_else():
    """No owner, no take-over and no host write behind SessionLeft; behind SessionArrived the next take-over is anybody's."""
    left = advance(HEAD, write("left", SESSION, event_type="SessionLeft", prev="last", tenure=3), OWNER)
    assert left == StreamHead("left", 3, ELSEWHERE)
    degraded = write("d", SESSION, event_type="TurnDegraded", once="turn:1")
    for entry, origin in ((append("a", "left", 3), OWNER), (take_over(4, "left"), "ho2/2@8"), (degraded, "host/1@1")):
        ack = _judge(entry, origin=origin, head=left)
        assert ack is not None and (ack.outcome, ack.code) == ("refused", "tenure_mismatch")
        assert _judge(entry, origin=ELSEWHERE, head=left) is None
    back = advance(left, write("back", SESSION, event_type="SessionArrived", prev="left", tenure=3), ELSEWHERE)
    assert _judge(take_over(4, "back"), origin="ho2/2@8", head=back) is None
    assert _judge(append("a", "back", 3), origin=OWNER, head=back) is not None
