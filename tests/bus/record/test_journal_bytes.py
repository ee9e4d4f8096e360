"""The exact bytes of each session event's payload, and what reading them gives back.

`journal_bytes.txt` holds them, one sample a line. A difference means that homes of earlier versions no longer read: the
record's format number rises with it (`python -m tests.bus.record.test_journal_bytes` writes the file anew).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.session import ToolCallSummary, TurnResult
from hobus.bus.messages.work_order import Cost
from hobus.bus.record.journal import TOLD_WITH, pack_event, pack_result, read_event, read_recorded, unpack_result
from tests.bus.record.journal_samples import ALL_KINDS, SAMPLES, SESSION, entry, enveloped

FILE = Path(__file__).parent / "journal_bytes.txt"


def known() -> dict[str, bytes]:
    """Name of a sample -> its payload."""
    lines = (line.rsplit(" ", 1) for line in FILE.read_text("ascii").splitlines())
    return {name: bytes.fromhex(packed) for name, packed in lines}


def test_every_kind_of_event_has_its_bytes() -> None:
    assert {event.kind for event in SAMPLES.values()} == ALL_KINDS
    assert list(known()) == list(SAMPLES)


def test_an_event_has_the_bytes_that_it_always_had() -> None:
    """Whatever is done to the code: a record that was written before still reads."""
    now = {name: entry(name).bodies[0].hex() for name in SAMPLES}
    assert {name: hexed for name, hexed in now.items() if hexed != known()[name].hex()} == {}


def test_its_bytes_give_the_event_back() -> None:
    taken = {name: read_recorded(entry(name)._replace(bodies=[body, b"text"])) for name, body in known().items()}
    assert {
        name: one
        for name, one in taken.items()
        if one is None or (one.event, one.bodies[1]) != (enveloped(name), b"text")
    } == {}


WRONG = {
    "array": lambda fields: fields[:-1],
    "run": lambda fields: ["7", *fields[1:]],
    "step_epoch": lambda fields: [*fields[:4], True, *fields[5:]],
    "at": lambda fields: [*fields[:5], None, *fields[6:]],
    "tool_batch_id": lambda fields: [*fields[:6], [1], *fields[7:]],
    "call_id": lambda fields: [*fields[:7], 1, *fields[8:]],
    "status": lambda fields: [*fields[:8], "Pending", *fields[9:]],
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_that_is_not_what_an_event_has_there_is_named(field: str) -> None:
    """Nothing is coerced, nothing is guessed, and replay is told that there is no event."""
    right = entry("ToolReceipt")
    wrong = right._replace(bodies=[pack(WRONG[field](unpack(right.bodies[0])))])
    with pytest.raises(ValueError, match=field):
        read_event(wrong)
    assert read_recorded(wrong) is None


TOLD = [enveloped(cls.kind) for cls in TOLD_WITH]


def told_before(name: str) -> WriteEntry:
    """The sample, whose entry tells every event that may stand there before it."""
    given = entry(name)
    return given._replace(bodies=[pack_event(enveloped(name), given.submission_id, given.at_us, TOLD), b"text"])


@pytest.mark.parametrize("name", ["OrderDispatched", "RunCompleted", "StepStarted"])
def test_an_entry_tells_earlier_events_before_its_own(name: str) -> None:
    taken = read_recorded(told_before(name))
    assert taken is not None
    assert (list(taken.earlier), taken.event) == (TOLD, enveloped(name))
    assert [fact.kind for fact in taken.facts] == [*[cls.kind for cls in TOLD_WITH], name]


@pytest.mark.parametrize("wrong", [[], ["StepStarted"], [-1, 7, 1, 1, 0, 1, 0], [99], [True], [0], [0, *[7] * 40]])
def test_an_earlier_event_that_is_none_is_refused(wrong: list[Any]) -> None:
    right = told_before("OrderDispatched")
    _, *rest = unpack(right.bodies[0] or b"")
    assert read_recorded(right._replace(bodies=[pack([wrong, *rest])])) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["ref", "text", "exchanges", "results", "planned_at", "like"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(name=st.sampled_from(list(SAMPLES)), data=st.data())
def test_junk_is_no_event_and_harms_nobody(name: str, data: st.DataObject) -> None:
    right = entry(name)
    fields = unpack(right.bodies[0])
    fields[data.draw(st.integers(0, len(fields) - 1))] = data.draw(VALUES)
    for payload in (pack(fields), data.draw(st.binary(max_size=40)), pack(data.draw(VALUES))):
        taken = read_recorded(right._replace(bodies=[payload]))
        assert taken is None or taken.event.session_id == SESSION


JUNK = (None, True, -1, 2**63, 0.5, "", "x", "-1.2", b"", b"\xff" * 16, [], [None], ["x"], [[]], {}, {"ref": 1})


def list_changed(value: Any) -> Iterator[Any]:
    """Give the value with one part of it, at any depth, another, missing, or one too many."""
    yield from JUNK
    if isinstance(value, list):
        yield from (value[:-1], [*value, None])
        for at, part in enumerate(value):
            yield from ([*value[:at], new, *value[at + 1 :]] for new in list_changed(part))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: new} for new in list_changed(part))


@pytest.mark.parametrize("name", SAMPLES)
def test_an_event_with_junk_at_any_one_place_is_read_or_refused(name: str) -> None:
    right = entry(name)
    for fields in list_changed(unpack(right.bodies[0])):
        taken = read_recorded(right._replace(bodies=[pack(fields)]))
        assert taken is None or taken.event.session_id == SESSION


ANSWER = TurnResult(
    response="done", outcome="success", session_id=SESSION, run_id=RunId(session_id=SESSION, run_seq=7), input_id="in-1",
    tool_calls=[ToolCallSummary(tool_id="t", status="Succeeded")],
    exchange_entry_ids=[f"PROMPT_RECEIVED:WO-{SESSION}-7.1.1#1/1", "elsewhere/1"], quality_gate_passed=True,
    cost=Cost(input_tokens=7, total_tokens=7, tool_ids_used=["t"], cost_usd=None),
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"run_id": None},
        {"run_id": RunId(session_id="0" * 8 + "-0000-0000-0000-" + "0" * 12, run_seq=1)},
        {"exchange_entry_ids": [f"a~{SESSION}/1"], "cost": Cost()},
    ],
)
def test_an_answer_is_read_as_it_was_packed(changes: dict[str, Any]) -> None:
    answer = ANSWER.model_copy(update=changes)
    assert unpack_result(pack_result(answer)) == answer


def test_an_answer_spells_its_session_once() -> None:
    assert pack_result(ANSWER).count(SESSION.encode()) == 1


@pytest.mark.parametrize(
    "spoilt",
    [
        [],
        {},
        {"session_id": 1},
        {"cost": {}},
        {"cost": [1]},
        {"cost": None},
        {"run_id": "7"},
        {"exchange_entry_ids": 1},
    ],
)
def test_what_is_no_answer_is_refused(spoilt: Any) -> None:
    fields = unpack(pack_result(ANSWER))
    named = dict(zip(TurnResult.__struct_fields__, fields, strict=True))
    value = [*(named | spoilt).values()] if spoilt and isinstance(spoilt, dict) else spoilt
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's own is one
        unpack_result(pack(value))
    with pytest.raises(ValueError, match="not an answer"):
        unpack_result(pack([*fields, None]))


if __name__ == "__main__":
    FILE.write_text("".join(f"{name} {entry(name).bodies[0].hex()}\n" for name in SAMPLES), "ascii")
