"""The texts of an entry that a search finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import RunId, derive_session_id
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.messages.session import TurnResult
from hobus.bus.record.catalog import KINDS, SEARCHED_STREAMS, SEARCHED_TYPES
from hobus.bus.record.journal import pack_event, pack_result
from hobus.bus.record.searched import list_searched_texts
from hobus.bus.record.session_facts import OrderEnded, RunCompleted, RunFailed, SessionEvent
from tests.journals import receipt

ID = derive_session_id("somebody", "something")
NAME = f"RunCompleted:{ID}-1"


def _entry(event_type, *bodies, stream=f"session/{ID}", name=NAME):
    return Entry(
        name, stream, event_type, 0, "", "", Provenance(session_id=ID), [], "", None, None, None, "", 0, [], [],
        bodies=list(bodies),
    )  # fmt: skip


def _completed(ref, response="a heron"):
    run = RunId(session_id=ID, run_seq=1)
    result = TurnResult(response=response, outcome="success", session_id=ID, run_id=run, input_id="i")
    event = RunCompleted(input_id="i", result_ref=f"{NAME}/1", reply_ref=ref, at="1970-01-01T00:00:00.000000Z")
    return [pack_event(SessionEvent(ID, 0, 0, event, run_id=run), NAME, 0), pack_result(result)]


def test_a_row_names_what_is_searched_among_its_texts():
    for row in KINDS:
        assert all(1 <= body.number <= len(row.texts) for body in row.searched)
    assert set(SEARCHED_STREAMS) == {row.stream for row in KINDS if row.searched} == {"session", "overlays"}
    assert set(SEARCHED_TYPES) == {row.event_type for row in KINDS if row.searched}


@pytest.mark.parametrize(
    "ref", [f"PROMPT_RECEIVED:WO-{ID}-1.2.1#1/1/1", "PROMPT_RECEIVED:WO-CONS-1#1/1/1", f"HostCommandReceived:{ID}/c/1"]
)
def test_a_reply_that_is_only_quoted_is_named_by_where_it_stands(ref):
    (found,) = list_searched_texts(_entry("RunCompleted", *_completed(ref)))
    assert (found.kind, found.ref, found.text, found.number) == ("reply", ref, "a heron", 2)
    (own,) = list_searched_texts(_entry("RunCompleted", *_completed(f"{NAME}/2"), b"a kingfisher"))
    assert (own.ref, own.text) == (f"{NAME}/2", "a kingfisher")
    assert list_searched_texts(_entry("RunCompleted", *_completed(f"{NAME}/2"), None)) == []
    assert list_searched_texts(_entry("RunCompleted", *_completed("", response=""))) == []


def test_why_an_order_or_a_run_failed_is_found():
    """A run's words, told by its fault or in its verdict; of an order that was completed nothing, whatever it says."""

    def told(event, *bodies):
        packed = pack_event(SessionEvent(ID, 0, 0, event, run_id=RunId(session_id=ID, run_seq=1)), NAME, 0)
        return [(one.number, one.kind, one.text) for one in list_searched_texts(_entry(event.kind, packed, *bodies))]

    at = "1970-01-01T00:00:00.000000Z"
    failed = RunFailed(input_id="i", code="PROVIDER_ERROR", detail_ref=f"{NAME}/1", at=at)
    run = RunId(session_id=ID, run_seq=1)
    verdict = TurnResult(response="the wire is cut", outcome="error", session_id=ID, run_id=run, input_id="i")
    assert told(failed, b"no wire") == [(1, "failure", "no wire")]
    assert told(failed, pack_result(verdict)) == [(1, "failure", "the wire is cut")]
    assert told(failed, None) == []
    call = f"WO-{ID}-1.1.1.001"
    broken = receipt(call, state="failed", error={"code": "tool_error", "message": "no such heron"})
    assert told(OrderEnded(wo_id=call, receipt=broken, at=at)) == [(0, "failure", "no such heron")]
    completed = receipt(call, output_result={"parsed": {"state": "failed"}})
    assert told(OrderEnded(wo_id=call, receipt=completed, at=at)) == []


@pytest.mark.parametrize(
    "bodies",
    [(), (b"\x90",), (None, None), (b"\x90", None), (None, b"\x80"), (b"\x90", b"\x80"), (b"\xc1", b"\xc1"), (pack([1] * 10), pack({"response": 7}))],
)  # fmt: skip
def test_what_is_erased_or_does_not_read_brings_nothing(bodies):
    for event_type in SEARCHED_TYPES:
        assert [one.text for one in list_searched_texts(_entry(event_type, *bodies)) if one.kind == "reply"] in (
            [],
            ["\ufffd"],
        )


@given(st.lists(st.none() | st.binary(max_size=40), max_size=4))
def test_any_bytes_are_texts_or_none(bodies):
    for event_type in ("RunCompleted", "RunRequested", "TurnDegraded"):
        assert all(one.text.strip() for one in list_searched_texts(_entry(event_type, *bodies)))
