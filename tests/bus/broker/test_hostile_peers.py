"""Whatever peers say and ask, the core goes on: nothing raises, every request has one answer, all that is kept is bounded."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hobus.bus import limits as engineering
from hobus.bus.broker.admission import Announcement
from hobus.bus.broker.events import FrameReceived
from hobus.bus.catalog import CLASSES, ROWS
from hobus.bus.codec import decode, encode, pack_header
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.errors import BusError
from hobus.bus.messages import control
from hobus.bus.messages.base import Record
from hobus.bus.messages.control import AnnounceTools, Beat, Hello, Peers, ReadPeers, ReadTools, Ready, Tools, ToolWord
from hobus.bus.messages.failure import Failure
from tests.bus.broker.rig import BIG, Rig

TIGHT = {
    "PAGE_MAX_BYTES": 2000, "TOOLS_MAX": 6, "TOOL_MAX_BYTES": 300, "COUNTERS_MAX": 3, "ANNOUNCEMENT_MAX_BYTES": 3000,
    "HELLO_IDS_MAX": 5, "DEDUPE_WINDOW": 6, "QUEUE_MAX": 4, "MAILBOX_MAX": 4, "REFUSED_KEYS_MAX": 2,
}  # fmt: skip
CONTROL = {
    Kind.HELLO: control.Hello, Kind.READY: control.Ready, Kind.BEAT: control.Beat, Kind.CREDIT: control.Credit,
    Kind.BYE: control.Bye, Kind.JOIN: control.Join, Kind.TOOLS: control.AnnounceTools,
}  # fmt: skip
TO_THE_BROKER = sorted({row.cls.TYPE for row in ROWS if row.service == "broker"} | {control.Probe.TYPE})
QUESTIONS: tuple[Any, ...] = (
    control.ReadPeers, control.ReadPeer, control.ReadTools, control.ReadQueues, control.Drain, control.CreateToken,
    control.Probe,
)  # fmt: skip
WHO = ("ho1/6@x", "gateway/6@x", "operator/6@x", "launcher/1@x", "stranger")

TEXTS = st.one_of(
    st.sampled_from(["", "a", "ready", "ho1", "ho1/1@a", "ho1/6@x", "WO-1", "x" * 128, "x" * 129, "\u20ac" * 401, "\x1b[2J"]),
    st.sampled_from([500, 1001, 30_000]).map(lambda count: "y" * count),
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, 2, 3, 7, 2**31, 2**64 - 1, -1])


def value_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Something that this type takes, or takes just not."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return value_of(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*map(value_of, arguments))
    if origin is list:
        return st.lists(value_of(arguments[0]), max_size=8)
    if origin is dict:
        return st.dictionaries(TEXTS, value_of(arguments[1]), max_size=5)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return body_of(annotation)
    simple = {str: TEXTS, int: NUMBERS, bool: st.booleans(), bytes: st.binary(max_size=40), float: st.floats()}
    return simple.get(annotation, st.none())


def hints_of(cls: type[Record]) -> dict[str, Any]:
    """The types of its fields."""
    hints = get_type_hints(cls)
    return {name: hints[name] for name in cls.__struct_fields__}


def body_of(cls: type[Record]) -> st.SearchStrategy[dict[str, Any]]:
    """A body of this class, mostly of its shape; sometimes with a field too many, of any length."""
    fields = {name: value_of(hint) for name, hint in hints_of(cls).items()}
    return st.builds(
        lambda known, extra: known | extra,
        st.fixed_dictionaries(fields),
        st.one_of(st.just({}), st.just({}), st.just({}), st.dictionaries(TEXTS, NUMBERS, max_size=1)),
    )


def small(cls: type[Record]) -> st.SearchStrategy[dict[str, Any]]:
    """One that is right more often, so that what it does is seen too."""
    plain = {
        "instance": st.sampled_from(["ho1/6@x", "gateway/6@x", "ho1/1@a", "nobody/1@x"]), "token": st.just("t"),
        "role": st.sampled_from(["ho1", "gateway"]), "offers": st.sampled_from([[], ["ho1"], ["gateway"]]),
        "version": st.just("1"), "protocol": st.just(HEADER_VERSION), "host": st.just("h"), "config_digest": st.just(""),
        "after": TEXTS, "part": st.integers(1, 2), "parts": st.integers(1, 2),
    }  # fmt: skip
    fields = {name: plain.get(name, value_of(hint)) for name, hint in hints_of(cls).items()}
    return st.fixed_dictionaries(fields)


def frames() -> st.SearchStrategy[tuple[str, Any, bytes]]:
    """(who, header, body)."""
    bodies = {cls.TYPE: st.one_of(body_of(cls), small(cls)) for cls in (*CLASSES.values(), *CONTROL.values())}
    said = [
        st.tuples(
            st.just(make_header(kind, "c1", type=cls.TYPE)), st.one_of(body_of(cls), small(cls)).map(msgpack.packb)
        )
        for kind, cls in CONTROL.items()
    ]
    asked = [
        st.tuples(
            st.builds(
                lambda kind, number, type_name, to, key: make_header(
                    kind, f"Q-{number}", type=type_name, destination=to, key=key, deadline_ms=5000
                ),
                st.sampled_from([Kind.REQUEST, Kind.POST, Kind.CANCEL, Kind.REPLY, Kind.FAILURE, Kind.STREAM]),
                st.integers(0, 30),
                st.just(type_name),
                st.sampled_from(["broker", "broker/1@e1", "ho1", "ho1/6@x", "gateway", "launcher"]),
                st.sampled_from(["", "t", "k" * 400]),
            ),
            bodies[type_name].map(msgpack.packb) if type_name in bodies else st.just(b"\x80"),
        )
        for type_name in (*TO_THE_BROKER, "wo.execute", "at most")
    ]
    return st.tuples(st.sampled_from(WHO), st.one_of(*said, *asked)).map(lambda drawn: (drawn[0], *drawn[1]))


DRAINED = [
    ("ho1/6@x", make_header(Kind.BYE, "c1", type="at most"), b"\x80"),
    (
        "operator/6@x",
        make_header(Kind.REQUEST, "Q-0", type="broker.drain", destination="broker", deadline_ms=5000),
        msgpack.packb({"instance": "ho1/1@a"}),
    ),
]
"""An operator lets the honest worker drain, as he may."""
LOST = [
    (
        "launcher/1@x",
        make_header(Kind.POST, "Q-0", type="broker.instance_lost", destination="broker"),
        msgpack.packb({"instance": "ho1/1@a", "exit": ""}),
    ),
]
"""The launcher says that the honest worker is dead, as it may."""


@pytest.mark.slow
def test_hostile_peers_get_answers_and_harm_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every type of control and question at and over its bounds, in any order; then every question of an operator."""
    law = given(said=st.lists(frames(), max_size=16), is_starting=st.booleans())(check_answers)
    for said in (DRAINED, LOST):
        law = example(said=said, is_starting=False)(law)
    for name, value in TIGHT.items():
        monkeypatch.setattr(engineering, name, value)
    settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])(law)()


def check_answers(said: list[tuple[str, Any, bytes]], is_starting: bool) -> None:
    """Whatever evil peers said: every question is answered, the honest pair is served, nothing is kept beyond its bound."""
    rig = Rig(reannounce_grace_ms=300 if is_starting else 0)
    evil = {name: rig.worker(name, slots=2) for name in WHO[:2]}
    evil |= {name: rig.client(name) for name in WHO[2:4]} | {"stranger": b"?"}
    operator, ho2, ho1 = (
        rig.client("operator/1@a"),
        rig.client("ho2/1@a"),
        rig.worker("ho1/1@a", slots=1, tools=["mine"]),
    )
    for who, head, body in said:
        rig.step(FrameReceived(evil[who], pack_header(head), body))
    rig.advance(1.0)
    rig.inbox.clear()
    for number, cls in enumerate(QUESTIONS):
        body = {"instance": "ho1/6@x"} if "instance" in cls.__struct_fields__ else {}
        rig.ask(operator, f"operator/1@a:{number}", "broker", cls.TYPE, body=msgpack.packb(body))
    assert len(rig.answers(operator)) == len(QUESTIONS)
    rig.order(ho2, "WO-1", key="mine")
    rig.advance(0.5)
    worker = rig.core._state.find("ho1/1@a")
    if worker is None:  # the launcher has said that it is dead: another one is waited for
        rig.advance(rig.settings.service_grace_ms / 1000)
    if worker is None or not worker.is_leaving:  # an operator may have said that it is to drain: then the order waits
        if worker is not None:
            rig.reply(ho1, "WO-1")
        assert len(rig.answers(ho2)) == 1
    check_bounded(rig)


def check_bounded(rig: Rig) -> None:
    """What the core keeps of peers, against the limits."""
    state = rig.core._state
    assert len(state.gone) <= engineering.DEDUPE_WINDOW
    assert all(len(name) <= 200 and len(why) <= 300 for name, why in state.gone.items())
    assert len(rig.core._operations._held) <= engineering.QUEUE_MAX
    assert len(rig.core._records._notes) <= engineering.RECORDS_MAX
    assert len(state.deadlines) <= 200
    for service in state.services.values():
        assert service.waiting.count <= engineering.QUEUE_MAX
        assert len(service.early_cancels) <= engineering.DEDUPE_WINDOW
        assert len(service.failed) <= 20
    for peer in state.names.values():
        assert peer.used >= 0 and peer.immediate >= 0
        assert len(peer.tools) <= engineering.TOOLS_MAX
        assert len(peer.counters) <= engineering.COUNTERS_MAX
        assert len(peer.late) <= engineering.DEDUPE_WINDOW
        assert len(peer.reason) <= 400
        assert len(peer.host) + len(peer.version) + len(peer.config_digest) <= 500


def test_a_request_sent_again_and_again_costs_no_memory() -> None:
    """Its deadline is looked at once at a time; a later one still counts."""
    rig = Rig(service_grace_ms=60_000)
    ho2 = rig.client("ho2/1@a")
    for _ in range(500):
        rig.order(ho2, "WO-1", deadline_ms=4000)
        rig.advance(0.001)
    assert len(rig.core._state.deadlines) == 1
    rig.advance(3.7)  # the first one's time is over, the last one's is not
    assert rig.answers(ho2) == []
    rig.advance(1.0)
    assert rig.answers(ho2) == [("WO-1", "expired")]


def words(count: int, size: int = 2) -> list[ToolWord]:
    """So many tools of so many bytes each."""
    return [
        ToolWord(
            tool_id=f"t{number:04}",
            source="s",
            description="d" * (size - 2),
            parameters="{}",
            idempotent=True,
            writes=False,
        )
        for number in range(count)
    ]


OVER = {
    "hello.tools": (Kind.HELLO, "at most"),
    "hello.keys": (Kind.HELLO, "at most"),
    "hello.in_progress": (Kind.HELLO, "at most"),
    "hello.answered": (Kind.HELLO, "at most"),
    "beat.counters": (Kind.BEAT, "at most"),
    "tools.count": (Kind.TOOLS, "at most"),
    "tools.bytes": (Kind.TOOLS, "100 bytes"),
    "tools.all": (Kind.TOOLS, "more than"),
    "ready.reason": (Kind.READY, "reason"),
}


def over_bound(what: str, *, by: int) -> Any:
    """A message that holds `by` more than the bound of `what` allows (0: exactly the bound)."""
    field = what.partition(".")[2]
    if what.startswith("hello"):
        limit = engineering.TOOLS_MAX if field == "tools" else engineering.HELLO_IDS_MAX
        names = [f"n{number}" for number in range(limit + by)]
        return Hello.model_validate(
            {
                "instance": "ho1/1@a",
                "token": "t",
                "role": "ho1",
                "offers": ["ho1"],
                "slots": 1,
                "version": "1",
                "protocol": HEADER_VERSION,
            }
            | {field: names}
        )
    if what == "beat.counters":
        return Beat(counters={f"c{number}": number for number in range(engineering.COUNTERS_MAX + by)})
    if what == "ready.reason":
        return Ready(state="degraded", reason="r" * (400 + by))
    if what == "tools.count":
        return AnnounceTools(tools=words(engineering.TOOLS_MAX + by), sources=[])
    if what == "tools.bytes":
        return AnnounceTools(tools=words(1, engineering.TOOL_MAX_BYTES + by), sources=[])
    empty = len(encode(AnnounceTools(tools=words(2, 2), sources=[]), BIG))
    said = AnnounceTools(tools=words(2, 2), sources=[])
    assert empty == engineering.ANNOUNCEMENT_MAX_BYTES, "set by the test"
    return said if not by else AnnounceTools(tools=words(2, 3), sources=[])


@pytest.mark.parametrize("what", OVER)
def test_what_is_over_its_bound_is_refused_with_field_and_limit(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Exactly the bound passes; one more changes nothing, is counted, and its sender is told field and limit."""
    kind, setting = OVER[what]
    whole = len(encode(AnnounceTools(tools=words(2, 2), sources=[]), BIG))
    monkeypatch.setattr(engineering, "TOOLS_MAX", 4)
    monkeypatch.setattr(engineering, "HELLO_IDS_MAX", 4)
    monkeypatch.setattr(engineering, "COUNTERS_MAX", 4)
    monkeypatch.setattr(engineering, "TOOL_MAX_BYTES", 100)
    rig = Rig()
    if what == "tools.all":
        monkeypatch.setattr(engineering, "ANNOUNCEMENT_MAX_BYTES", whole)
        rig = Rig()
    worker = rig.worker("ho1/1@a", tools=["t0000"])
    other = rig.worker("ho1/2@a")
    rig.control(worker, kind, over_bound(what, by=0))
    assert "malformed" not in rig.core.counts and "refused_malformed" not in rig.core.counts
    rig.got(worker)
    before = peer_row(rig, "ho1/1@a")
    rig.control(worker, kind, over_bound(what, by=1))
    (told,) = rig.got(worker)
    assert told.header.kind == Kind.WELCOME
    detail = decode(control.Refused if kind == Kind.HELLO else Failure, told.body, BIG).detail
    assert setting in detail
    assert rig.core.counts.get("malformed", 0) + rig.core.counts.get("refused_malformed", 0) == 1
    after = peer_row(rig, "ho1/1@a")
    assert (after.tools, after.counters, after.reason) == (before.tools, before.counters, before.reason)
    assert rig.got(other) == []


@pytest.mark.parametrize("parameters", ["{", "", "1", "[]", "null", "[" * 30_000,
                                        '{"a":' * 300 + "1" + "}" * 300, '"\\ud800"',
                                        '{"a": "\\ud800"}'])  # fmt: skip
def test_a_word_that_can_be_no_tool_is_refused_where_it_comes_in(parameters: str) -> None:
    rig = Rig()
    worker = rig.worker("ho1/1@a", tools=["t"])
    rig.control(worker, Kind.TOOLS, AnnounceTools(tools=words(1), sources=[]))
    bad = words(2)[1].model_copy(update={"parameters": parameters})
    rig.control(worker, Kind.TOOLS, AnnounceTools(tools=[*words(1), bad], sources=[]))
    (told,) = rig.got(worker)
    failure = decode(Failure, told.body, BIG)
    assert failure.code == "malformed"
    assert "parameters of t0001" in failure.detail
    assert peer_row(rig, "ho1/1@a").tools == ["t0000"]


def peer_row(rig: Rig, instance: str) -> control.PeerRow:
    return next(row for row in rig.core._operations._read_peers(ReadPeers()).peers if row.instance == instance)


def test_an_announcement_counts_when_its_last_part_is_there() -> None:
    first, second = words(2), words(4)[2:]
    whole = Announcement()
    assert whole.add(AnnounceTools(tools=first, sources=[], part=1, parts=2), 10) is None
    said = whole.add(AnnounceTools(tools=second, sources=[], part=2, parts=2), 10)
    assert said is not None and list(said.tools) == ["t0000", "t0001", "t0002", "t0003"]
    for part, parts, tools in ((2, 2, second), (1, 1, first + first), (3, 2, first)):
        with pytest.raises(BusError):
            Announcement().add(AnnounceTools(tools=tools, sources=[], part=part, parts=parts), 10)
    assert whole.add(AnnounceTools(tools=first, sources=[]), 10) is not None


def test_an_announcement_in_parts_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("TOOLS_MAX", 3), ("ANNOUNCEMENT_MAX_BYTES", 25)):
        monkeypatch.undo()
        monkeypatch.setattr(engineering, limit, value)
        whole = Announcement()
        whole.add(AnnounceTools(tools=words(2), sources=[], part=1, parts=9), 10)
        with pytest.raises(BusError, match=f"(at most|more than) {value}"):
            whole.add(AnnounceTools(tools=words(4)[2:], sources=[], part=2, parts=9), 20)
        assert (whole._tools, whole._bytes) == ([], 0)


@pytest.mark.parametrize("body_of_tools", [8_380_000])
def test_the_announcement_and_the_reason_that_ended_the_broker_do_so_no_more(body_of_tools: int) -> None:
    """As it was found: a legal announcement or reason as large as a body, then any question about it."""
    rig = Rig()
    operator = rig.client("operator/1@a")
    worker = rig.worker("ho1/1@a")
    word = {
        "tool_id": "t", "source": "s", "description": "d" * body_of_tools, "parameters": "{}", "idempotent": True,
        "writes": False,
    }  # fmt: skip
    evil = {
        Kind.TOOLS: {"tools": [word], "sources": []}, Kind.READY: {"state": "ready", "reason": "r" * body_of_tools},
        Kind.BEAT: {"counters": {"c" * body_of_tools: 1}}, Kind.HELLO: {"h" * body_of_tools: 1},
    }  # fmt: skip
    for kind, body in evil.items():
        rig.frame(worker, make_header(kind, "c", type=control.Beat.TYPE), msgpack.packb(body))
        assert all(len(got.body) < 2000 for got in rig.got(worker))
        for number, question in enumerate((ReadTools(), ReadPeers())):
            got = rig.call(operator, f"{kind}.{number}", question)
            assert got.header.kind == Kind.REPLY and len(got.body) < 10_000


def test_an_unknown_field_of_any_length_is_named_shortly() -> None:
    with pytest.raises(BusError) as caught:
        decode(Beat, msgpack.packb({"x" * 1_000_000: {"y": 1}}), BIG)
    assert len(caught.value.detail) < 300


def test_everybody_is_read_once_over_pages_also_when_some_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of peers that are there all the time: each exactly once, whatever happens between two pages."""
    monkeypatch.setattr(engineering, "PAGE_MAX_BYTES", 1500)
    rig = Rig()
    operator = rig.client("operator/1@a")
    there = [rig.worker(f"ho1/{number:03}@a") for number in range(40)]
    seen: list[str] = []
    after, pages = "", 0
    while True:
        page = decode(Peers, rig.call(operator, f"q{pages}", ReadPeers(after=after)).body, BIG)
        seen += [row.instance for row in page.peers]
        rig.say_bye(there[-1 - pages])
        rig.worker(f"ho1/000-{pages}@a")  # before the page, read or not: nobody's harm
        after, pages = page.next, pages + 1
        if not after:
            break
    assert pages > 3
    stayed = [f"ho1/{number:03}@a" for number in range(40 - pages)]
    assert [name for name in seen if name in stayed] == stayed
    assert len(seen) == len(set(seen))


def test_many_workers_with_many_large_tools_are_listed_whole() -> None:
    rig = Rig()
    operator = rig.client("operator/1@a")
    tools = words(256, 32_768)
    parts = [
        AnnounceTools(tools=tools[part * 16 : part * 16 + 16], sources=[], part=part + 1, parts=16)
        for part in range(16)
    ]
    for number in range(8):
        worker = rig.worker(f"ho1/{number}@a")
        for said in parts:
            rig.control(worker, Kind.TOOLS, said)
    kept = {
        id(word)
        for peer in rig.core._state.names.values()
        if (said := peer.announced_tools)
        for word in said.tools.values()
    }
    assert len(kept) == 256
    rows: list[str] = []
    after, pages = "", 0
    while True:
        got = rig.call(operator, f"q{pages}", ReadTools(after=after))
        assert len(got.body) < engineering.BODY_MAX_BYTES / 4
        page = decode(Tools, got.body, BIG)
        rows += [row.tool_id for row in page.tools if row.worker_count == 8]
        after, pages = page.next, pages + 1
        if not after:
            break
    assert rows == [f"t{number:04}" for number in range(256)]


def test_a_defect_costs_the_sender_its_connection_and_nobody_else_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """`step` raises, so that tests see it; `survive` answers `internal`, loses the sender, and the core goes on."""
    rig = Rig()
    operator, ho2, ho1 = rig.client("operator/1@a"), rig.client("ho2/1@a"), rig.worker("ho1/1@a")
    monkeypatch.setitem(rig.core._operations._answers, ReadPeers.TYPE, (ReadPeers, lambda _: 1 / 0))
    head = make_header(Kind.REQUEST, "q", type=ReadPeers.TYPE, destination="broker", deadline_ms=1000)
    event = FrameReceived(operator, pack_header(head), b"\x80")
    with pytest.raises(ZeroDivisionError):
        rig.core.step(event, rig.now)
    monkeypatch.setattr(rig.core, "step", rig.core.survive)
    rig.step(event)
    assert rig.answers(operator) == [("q", "internal")]
    monkeypatch.undo()
    assert "operator/1@a" not in rig.core.peers and rig.core.counts["internal_errors"] == 1
    rig.order(ho2, "WO-1")
    rig.reply(ho1, "WO-1")
    assert rig.answers(ho2) == [("WO-1", "")]
    rig.hello("operator/1@a")
    assert "operator/1@a" in rig.core.peers


def test_a_defect_in_losing_a_peer_leaves_no_trace_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is taken out of the tables by hand; others are served."""
    rig = Rig()
    ho2, ho1, bad = rig.client("ho2/1@a"), rig.worker("ho1/1@a"), rig.worker("ho1/2@a")
    monkeypatch.setattr(rig.core._membership, "lose", lambda *_args, **_fields: 1 / 0)
    rig.core.survive(FrameReceived(bad, b"", b""), rig.now)
    monkeypatch.undo()
    assert rig.core.peers == ["ho2/1@a", "ho1/1@a"]
    rig.order(ho2, "WO-1")
    assert rig.requests(ho1) == ["WO-1"]


def test_what_is_held_while_a_broker_collects_is_the_question_alone() -> None:
    """A question of eight megabytes (a map with one key, over and over) is kept as the few bytes that it means."""
    rig = Rig(reannounce_grace_ms=300)
    operator = rig.client("operator/1@a")
    body = b"\xde\xff\xff" + msgpack.packb("after") * 0
    body += (msgpack.packb("after") + msgpack.packb("")) * 0xFFFF
    rig.ask(operator, "q", "broker", ReadPeers.TYPE, body=body)
    ((_, _, message),) = rig.core._operations._held
    assert message == ReadPeers()
    rig.advance(0.5)
    assert rig.answers(operator) == [("q", "")]
