"""An entry of the record and its bytes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.codec import decode, encode
from hobus.bus.errors import BusError
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.failure import Failure
from hobus.bus.messages.ids import ID_MAX_CHARS
from hobus.bus.messages.ledger import Entries, Found, Part, Write, Written
from hobus.bus.record.entry import (
    HASH_BYTES,
    INTEGER_MAX,
    SCHEMA_VERSION,
    Ack,
    Entry,
    Provenance,
    WriteEntry,
    decode_stored,
    encode_stored,
    estimate_spelled_bytes,
    pack_entry,
    read_spooled_entry,
    read_written_entry,
    to_entry,
    to_stored,
)

BIG = 10**9
_text = st.text(min_size=1, max_size=12)
_count = st.integers(min_value=0, max_value=INTEGER_MAX)
_session = st.sampled_from(["", "s", "6e8d-1", "\1", "a\1", "\0", "é", "x" * 36, "x" * 37]) | _text
"""Of which many are in ids, beside characters that have a meaning in the bytes."""
_id = st.lists(
    st.sampled_from(["s", "6e8d-1", "6e8d-", "\1", "\1\1", "\2", "\3", "\0", "é", "x" * 36, "x" * 37, "/1", "WO-"]),
    min_size=1,
    max_size=5,
)
_name = _text | _id.map("".join)
_provenance = st.builds(
    Provenance,
    agent_id=_text, agent_class=_text, framework_id=_text, package_id=_text, session_id=_session,
    run_seq=_count, round_seq=_count, work_order_id=_name, tier=_text,
)  # fmt: skip
_written = st.builds(
    WriteEntry,
    submission_id=_name.map(lambda text: text[:ID_MAX_CHARS]), stream=_name.map(lambda text: text[:80]),
    event_type=st.sampled_from(["s", "E", "WO-", "\3"]) | _text, at_us=_count, decision=_text, reason=_text,
    provenance=_provenance, parents=st.lists(_name, max_size=3), trace=_name.map(lambda text: text[:200]),
    prev=st.none() | st.just("") | _name, tenure=st.none() | _count, once=st.none() | st.just("") | _name,
    bodies=st.lists(st.binary(max_size=9), max_size=3),
)  # fmt: skip
SESSION = "6e8ddbdb-2a3e-5a6f-b6ac-0f966ad7f28a"
WRITTEN = WriteEntry("id", "ho2m", "E", 5, parents=["p"], bodies=[b"abc"])
SIMPLE = to_stored(WRITTEN, "ho2/1@1", 6, [bytes(HASH_BYTES)], [3])


def stored(entry: WriteEntry, at: int) -> Entry:
    """As the ledger makes it of this entry."""
    hashes = [bytes(HASH_BYTES) for _ in entry.bodies]
    return to_stored(entry, "ho2/1@1", at, hashes, [*map(len, entry.bodies)])


@given(entry=_written)
def test_what_is_written_survives_the_way_over_the_wire(entry):
    """And the ledger has the very bytes that its writer made."""
    (got,) = decode(Write, encode(Write(entries=[entry], urgent=False, parts=[]), BIG), BIG).entries
    assert got == entry and pack_entry(got) == pack_entry(entry) and type(got.provenance) is Provenance
    assert pack_entry(got._replace(trace="x")) == pack_entry(entry._replace(trace="x"))


def with_ids(ids: object) -> bytes:
    """The bytes of an entry with other ids."""
    return pack([ids, 5, 0, 0, None])


def test_an_entry_is_little_longer_than_its_bytes():
    """However few bytes somebody makes of many ids; one that names its session more often spells it out."""
    about = Provenance(session_id=SESSION, work_order_id=SESSION)
    for count in (4, 12, 13, 60):
        entry = WriteEntry(SESSION, "ho2m", "E", 5, provenance=about, parents=[SESSION] * count, bodies=[])
        packed = pack_entry(entry)
        assert packed.count(SESSION.encode()) == 1 + max(0, count - 12)
        assert len(pack(entry[:12])) <= estimate_spelled_bytes(to_stored(entry, "o", 5, [], []), len(packed))
        assert read_written_entry((packed, [])) == entry


def test_session_order_and_type_are_spelled_once_in_the_bytes_of_an_entry():
    """However many of its ids name them; whoever reads them sees whole ids."""
    order = f"WO-{SESSION}-1.1.1"
    entry = WriteEntry(
        f"OrderEnded:{order}", f"session/{SESSION}", "OrderEnded", 5, prev=f"WO_DISPATCHED:{order}", once=f"end:{order}",
        parents=[f"PROMPT_RECEIVED:{order}#1/1", f"PROMPT_RECEIVED:{order}#2/1"], trace=f"{SESSION}-1", tenure=1,
        provenance=Provenance(session_id=SESSION, work_order_id=order),
    )  # fmt: skip
    packed = pack_entry(entry)
    assert packed.count(SESSION.encode()) == packed.count(b"1.1.1") == packed.count(b"OrderEnded") == 1
    assert len(packed) < len(pack(entry[:12])) - 7 * 30
    assert read_written_entry((packed, []))[:12] == entry[:12]


PLAIN = "\0\0E\0id\0ho2m" + "\0" * 10


@pytest.mark.parametrize(
    ("ids", "field"),
    [(PLAIN[:-1], "ids"), ("", "event_type: 0"), ("s" + PLAIN + "\1" * 9, "a mark too many"), (PLAIN + "\1", "a mark too many"),
     (PLAIN + "\2", "a mark too many"), (PLAIN + "\3" * 2, "a mark too many"), ("s\0WO-\1" + PLAIN[1:] + "\2" * 6 + "\1" * 8, "a mark too many"),
     ("s\1" + PLAIN, "a mark too many"), ("s" * 401 + PLAIN, "session_id: 401"), ("s" * 60 + PLAIN.replace("id", "\1" * 7), "submission_id: 420"),
     (PLAIN.split("\0")[:-1], "ids"), ([None, *PLAIN.split("\0")[1:]], "session_id: not a text"), ([*PLAIN.split("\0"), None], "ids: not a text"),
     (["", "", "E", "", *PLAIN.split("\0")[4:]], "submission_id: 0"), (b"id", "Expected"), ({"a": 1}, "Expected"), ([7], "Expected")],
)  # fmt: skip
def test_ids_that_no_writer_makes_are_refused(ids, field):
    """A few bytes do not become many, and each part stands where its entry has it."""
    assert read_written_entry((with_ids(PLAIN), [])) == read_written_entry((with_ids(PLAIN.split("\0")), []))._replace(
        once=None, prev=None
    )
    with pytest.raises(ValueError, match=field):
        read_written_entry((with_ids(ids), []))


@given(entry=_written, at=_count)
def test_what_is_stored_survives_the_way_through_bytes(entry, at):
    data = encode_stored(stored(entry, at))
    assert decode_stored(data) == stored(entry, at)
    assert data.startswith(b"\x92" + pack_entry(entry))


@given(found=st.lists(st.none() | st.tuples(_written, _count), max_size=3))
def test_answers_survive_the_way_over_the_wire(found):
    entries = [one and to_entry(stored(*one), 4, bytes(HASH_BYTES), [None, *one[0].bodies]) for one in found]
    answer = Found(entries=entries)
    assert decode(Found, encode(answer, BIG), BIG).entries == entries
    page = Entries(entries=[one for one in entries if one], more=True, head=7)
    assert decode(Entries, encode(page, BIG), BIG) == page
    acks = [Ack("lost", 3, one.submission_id, tenure=2) for one in page.entries]
    failures = {1: Failure(code="disk_full", retryable=False, detail="none is free")}
    written = Written(acks=acks, failures=failures)
    assert decode(Written, encode(written, BIG), BIG) == written


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"submission_id": ""}, "submission_id: 0"), ({"submission_id": "x" * (ID_MAX_CHARS + 1)}, "submission_id: 401"),
     ({"stream": "x" * 81}, "stream: 81"), ({"event_type": ""}, "event_type: 0"), ({"decision": "x" * 33}, "decision: 33"),
     ({"reason": "x" * 65}, "reason: 65"), ({"trace": "x" * 201}, "trace: 201"), ({"once": "x" * (ID_MAX_CHARS + 1)}, "once: 401"),
     ({"reason": "\0" * 65}, "reason: 65"), ({"at_us": -1}, r"\$\[1\]"), ({"at_us": True}, r"\$\[1\]"), ({"at_us": 1.0}, r"\$\[1\]"),
     ({"at_us": INTEGER_MAX + 1}, r"\$\[1\]"), ({"provenance": Provenance(run_seq=-1)}, r"\$\[2\]"),
     ({"provenance": Provenance(round_seq="1")}, r"\$\[3\]"), ({"prev": "", "tenure": "1"}, r"\$\[4\]"), ({"tenure": -1}, r"\$\[4\]")],
)  # fmt: skip
def test_a_field_of_a_write_that_is_not_as_it_should_be_is_named(changed, said):
    body = pack([[[pack_entry(WRITTEN), []], [pack_entry(WRITTEN._replace(**changed)), [b"b"]]], True, []])
    with pytest.raises(BusError, match=rf"not a ledger\.write: entries\.1\..*{said}"):
        decode(Write, body, BIG)


@pytest.mark.parametrize(
    ("parts", "said"),
    [([[0, 0]], ".*Expected"), ([[1, 1], [1, 0]], "parts.0.resting"), ([[2, -1]], ".*Expected"),
     ([[1, 0]], "parts: of 1 entries, not 2"), ([[2, 0], [1, 0]], "parts: of 3 entries, not 2"), ([2], ".*Expected"),
     ([[]], ".*Expected"), ([[2, True]], ".*Expected"), ([[2.0, 0]], ".*Expected"), ([[1, 0], [1, 0, 0]], ".*Expected")],
)  # fmt: skip
def test_writes_that_share_a_frame_are_told_apart_exactly(parts, said):
    """Every entry belongs to one of them, and something stands before what rests on it."""
    entries = [[pack_entry(WRITTEN), []]] * 2
    assert decode(Write, pack([entries, True, [[1, 0], [1, 0]]]), BIG).parts == [Part(1), Part(1)]
    with pytest.raises(BusError, match=rf"not a ledger\.write: {said}"):
        decode(Write, pack([entries, True, parts]), BIG)


@pytest.mark.parametrize("failures", [[[1]], [["1", b""]], [[1, b""]], [[1, pack({"code": "x"})]], 7, [None]])
def test_a_failure_of_one_write_that_is_none_is_refused(failures):
    with pytest.raises(BusError, match=r"not a ledger\.written"):
        decode(Written, pack([[], failures]), BIG)


@pytest.mark.parametrize(
    "body",
    [[], [[]], [[], True, []], [[[b"", []]], True, []], [[[pack_entry(WRITTEN), [1]]], True, []],
     [[pack_entry(WRITTEN)], True, []], [[[pack_entry(WRITTEN), [], 1]], True, []],
     [[[pack_entry(WRITTEN), []]], 1, []], {"entries": []}, 7, None, [[[pack_entry(WRITTEN), []]], True],
     [[[pack([PLAIN, 5, 0, 0, None, 1]), []]], True, []], [[[pack([PLAIN, 5, 0, 0]), []]], True, []],
     [[[pack_entry(WRITTEN) + b"\0", []]], True, []]],
)  # fmt: skip
def test_a_write_of_another_form_is_refused(body):
    with pytest.raises(BusError, match=r"not a ledger\.write"):
        decode(Write, pack(body), BIG)


OWN = [SCHEMA_VERSION, "ho2/1@1", 6, bytes(HASH_BYTES), [3]]


@pytest.mark.parametrize(
    ("number", "value"),
    [(0, 4), (0, "5"), (1, None), (2, -1), (2, INTEGER_MAX + 1), (2, True), (3, bytes(31)), (3, "x" * 32), (3, b""),
     (4, []), (4, [3, 3]), (4, [-1]), (4, 3)],
)  # fmt: skip
def test_a_stored_field_that_is_not_what_stands_there_is_refused(number, value):
    written = unpack(pack_entry(WRITTEN))
    assert decode_stored(pack([written, OWN])) == SIMPLE
    for fields in ([*OWN[:number], value, *OWN[number + 1 :]], OWN[:4], [*OWN, 1]):
        with pytest.raises(ValueError, match=f"not an entry of schema version {SCHEMA_VERSION}"):
            decode_stored(pack([written, fields]))


def test_an_entry_of_the_ledger_itself_may_have_a_longer_id():
    """Of one about an entry whose id is as long as can be; no writer's may."""
    long = WRITTEN._replace(submission_id="x" * (ID_MAX_CHARS + 20))
    assert decode_stored(encode_stored(stored(long, 5))) == stored(long, 5)


@pytest.mark.parametrize("frames", [5_000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_no_bytes_make_a_decoder_fail_in_any_other_way(frames):
    draw = random.Random(7)
    entry = to_entry(SIMPLE, 4, bytes(HASH_BYTES), [b"abc"])
    refusal = Failure(code="busy", retryable=True, detail="later")
    whole = [
        (Write, Write(entries=[WRITTEN, WRITTEN], urgent=True, parts=[]).to_bytes()),
        (Write, Write(entries=[WRITTEN] * 3, urgent=True, parts=[Part(2, 1), Part(1)]).to_bytes()),
        (Found, Found(entries=[entry, None]).to_bytes()),
        (Entries, Entries(entries=[entry], more=False, head=4).to_bytes()),
        (Written, Written(acks=[Ack("known", 3, "id")], failures={2: refusal}).to_bytes()),
    ]
    refused = 0
    for number in range(frames):
        cls, data = whole[number % len(whole)]
        changed = bytearray(data) if number % 5 else bytearray(draw.randbytes(draw.randrange(40)))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(changed) + 1)
            match draw.randrange(3):
                case 0:
                    del changed[at:]
                case 1:
                    changed[at : at + 1] = draw.randbytes(1)
                case _:
                    changed[at:at] = draw.randbytes(draw.randrange(1, 4))
        try:
            again = decode(cls, bytes(changed), BIG)
        except BusError:
            refused += 1
        else:
            assert decode(cls, again.to_bytes(), BIG) == again
    assert refused > frames // 2


@given(st.binary(max_size=200))
def test_garbage_is_no_stored_entry(data):
    with pytest.raises(ValueError, match=r".+"):
        decode_stored(data)


def test_positions_are_a_promise():
    """The stored order is the format: a change of it needs a new schema version, and a new version of the frame."""
    written = pack_entry(WRITTEN).hex()
    assert written == "95b7" + f"{PLAIN}\0p".encode().hex() + "050000c0"
    assert encode_stored(SIMPLE).hex() == (
        "92" + written + "9505a7686f322f31403106c420" + "00" * 32 + "9103"
    )  # fmt: skip
    of_a_session = WRITTEN._replace(provenance=Provenance(session_id="s1"), once="end:s1", prev="p", tenure=1)
    assert unpack(pack_entry(of_a_session)) == ["s1\0\0E\0id\0ho2m\0\0\0\0end:\1\0p\0\0\0\0\0\0p", 5, 0, 0, 1]


def test_a_reader_gets_the_fields_of_the_stored_entry():
    entry = to_entry(SIMPLE, 4, b"c", [b"abc"])
    assert tuple(entry[:7]) == tuple(SIMPLE[:7]) and (entry.sequence, entry.chain, entry.bodies) == (4, b"c", [b"abc"])
    (again,) = decode(Found, pack([[entry]]), BIG).entries
    assert again == entry and type(again) is Entry and type(again.provenance) is Provenance
    assert WriteEntry._fields[:12] == Entry._fields[:12]
    assert read_spooled_entry(pack([pack_entry(WRITTEN), WRITTEN.bodies])).parents == ["p"]
