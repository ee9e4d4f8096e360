"""The bytes of every kind of payload: what changes one of them changes the record, and needs another format number."""

# ruff: noqa: FBT003 - fields of payloads stand in their order

from __future__ import annotations

from typing import Any, get_type_hints

from hobus.bus.messages.base import find_metas, pack
from hobus.bus.messages.memory import GateResult
from hobus.bus.messages.work_order import Cost, ToolCall, WorkOrder
from hobus.bus.record.catalog import KINDS, SESSION
from hobus.bus.record.payload import pack_payload, unpack_payload
from hobus.bus.record.payloads.governance import (
    BatchSetAside,
    BodiesClosed,
    BodiesRead,
    Degradation,
    Denied,
    HttpKeyCreated,
    HttpKeyRevoked,
    KeyEnrolled,
    KeyRefused,
    KeyRevoked,
    OperatorCommand,
    TokenMade,
    TranscriptDelivered,
    TurnImage,
    WriteConflict,
)
from hobus.bus.record.payloads.memory import (
    ConsolidationFailed,
    OverlayChange,
    OverlayWritten,
    SignalLogged,
)
from hobus.bus.record.payloads.orders import (
    ConsolidationDispatched,
    ContextAssembled,
    Escalation,
    FragmentTrace,
    LeftOut,
    OrderEnd,
    OwnersSettled,
    QualityGate,
    RunBudget,
    SignalsNamed,
    StageTrace,
    ToolStarted,
)
from hobus.bus.record.payloads.projection import ProjectionComputed, ShadowCompare
from hobus.bus.record.payloads.prompts import (
    AnswerCalls,
    BreakerChanged,
    BudgetAllocated,
    BudgetCrossed,
    BudgetReleased,
    BudgetSnapshot,
    PromptFailed,
    PromptReceived,
    PromptRejected,
    PromptSent,
    ScopeFigures,
    SentMessage,
    SentRequest,
    SentText,
)

CALL = ToolCall(call_id="001", provider_call_id="c1", tool_id="list_packages", arguments={"n": 1})
USED = Cost(input_tokens=10, output_tokens=2, total_tokens=12, llm_calls=1, elapsed_ms=3, cost_usd=None)
GATE = GateResult(
    signal_id="s:x", crossed=True, count=5, session_count=3, already_consolidated=False, reason="crossed", evidence=0.0
)
TEXTS = (3, SentText("history", "RunCompleted:r/1"), SentText("user_input", None, "hi"))
RUN = "11111111-2222-5333-8444-555555555555"
ORDER = WorkOrder.model_validate({
    "wo_id": "WO-CONS-1", "session_id": "0" * 8, "agent_id": "A", "wo_type": "consolidate", "state": "dispatched",
    "fence": {"run_id": {"session_id": RUN, "run_seq": 1}, "session_epoch": 0, "step_epoch": 0}, "created_by": "ho2",
    "planned_at": "2026-01-01T00:00:00.000000Z", "config_digest": "",
    "constraints": {"token_budget": 1, "timeout_seconds": 1.0, "budget_mode": "warn"},
})  # fmt: skip
SAMPLES: tuple[tuple[Any, str], ...] = (
    (
        PromptSent(
            "offline", "m", "PRC-A-001", "PRM-A-001", b"\1\2", 9, 0.5, "warn", 19, 10, 400, ("a",), degraded=True
        ),
        "dc0011a76f66666c696e65a16da95052432d412d303031a950524d2d412d303031c402010209cb3fe0000000000000a47761726e130acd019091a16190c2c0c0c3",
    ),
    (
        SentRequest(b"\1\2", b"\3", (SentMessage("user", TEXTS), SentMessage("tool", (), (CALL,), "001"))),
        "93c4020102c401039294a475736572930393a7686973746f7279b052756e436f6d706c657465643a722f31a093aa757365725f696e707574c0a2686990a094a4746f6f6c909194a3303031a26331ad6c6973745f7061636b6167657381a16e01a3303031",
    ),
    (
        PromptReceived("offline", "m", 10, 2, 0.25, None, 7, "stop"),
        "98a76f66666c696e65a16d0a02cb3fd0000000000000c007a473746f70",
    ),
    (AnswerCalls((CALL,)), "919194a3303031a26331ad6c6973745f7061636b6167657381a16e01"),
    (
        PromptFailed(
            "offline", "m", "broken", retryable=True, tokens=19, cost_usd=None, is_unknown=True, was_sent=True
        ),
        "98a76f66666c696e65a16da662726f6b656ec313c0c3c3",
    ),
    (PromptRejected("PRC-A-001", "no", "REJECTED"), "93a95052432d412d303031a26e6fa852454a4543544544"),
    (BudgetAllocated("session:s", 200_000), "92a973657373696f6e3a73ce00030d40"),
    (BudgetReleased(19, ("session:s", "agent:a")), "921392a973657373696f6e3a73a76167656e743a61"),
    (BudgetCrossed("session:s", 100, 90, 19), "94a973657373696f6e3a73645a13"),
    (
        BudgetSnapshot(41, {"session:s": ScopeFigures(100, 90)}, ("WO-1#1/1",)),
        "932981a973657373696f6e3a7397645a0000cb000000000000000000c291a8574f2d3123312f31",
    ),
    (
        BreakerChanged("offline", "m", "closed", "open", 5, 1_000_000),
        "96a76f66666c696e65a16da6636c6f736564a46f70656e05ce000f4240",
    ),
    (ToolStarted("charge", idempotent=False, number=1), "93a6636861726765c201"),
    (
        OrderEnd(0, 37, USED, text="answer", text_name="answer", finish_reason="stop", tool_calls=(CALL,)),
        "9800259a0a020c000001009003c0c0a6616e73776572a6616e73776572a473746f709194a3303031a26331ad6c6973745f7061636b6167657381a16e01",
    ),
    (
        OrderEnd(0, 37, USED, failure="no", executed_by="ho1/1@a", completed_at_us=5),
        "9e00259a0a020c000001009003c0a26e6fa0a0a090c0c29090a7686f312f31406105",
    ),
    (
        OrderEnd(0, 37, USED, failure="no", said=("printed", "traceback")),
        "9f00259a0a020c000001009003c0a26e6fa0a0a090c0c29090a00092a77072696e746564a974726163656261636b",
    ),
    (
        OrderEnd(0, 37, USED, tools_withheld=("pay",)),
        "dc001000259a0a020c000001009003c0c0a0a0a090c0c29090a0009091a3706179",
    ),
    (QualityGate(("blank",)), "9191a5626c616e6b"),
    (Escalation("WO-1", ("blank",)), "92a4574f2d3191a5626c616e6b"),
    (RunBudget(90, 100), "925a64"),
    (SignalsNamed(("domain:system",)), "9191ad646f6d61696e3a73797374656d"),
    (OwnersSettled(41, ("ho2/1@a",)), "922991a7686f322f314061"),
    (
        ConsolidationDispatched(ORDER, {"crossed": True}, "2026-01-01T00:00:00.000000Z"),
        "93dc0015a9574f2d434f4e532d31a83030303030303030a141a0a0a09392d92431313131313131312d323232322d353333332d383434342d353535353535353535353535010000c0ab636f6e736f6c6964617465a3686f31aa64697370617463686564bb323032362d30312d30315430303a30303a30302e3030303030305aa3686f32c090c090c0dc0011a001cb3ff00000000000009090a46175746fc09000a47761726ec0c0c0c0c0c09080a081a763726f73736564c3bb323032362d30312d30315430303a30303a30302e3030303030305a",
    ),
    (
        ContextAssembled("t", 7, 3, 2000, 9, ("ART-1",), scores=(0.5,), left_out=(LeftOut("ART-2", "words"),)),
        "dc001ca1740703cd07d00991a54152542d319090a0a0c400c40000000000a090a09090c2a973656c6563746f7273a090a091cb3fe00000000000009192a54152542d32a5776f726473",
    ),
    (
        ContextAssembled("2026-01-01T00:00:00.000000Z", 41, 3, 2000, 9, ("ART-1",)),
        "96bb323032362d30312d30315430303a30303a30302e3030303030305a2903cd07d00991a54152542d31",
    ),
    (
        ContextAssembled(
            "t",
            None,
            0,
            2000,
            0,
            template_id="ATT-A-001",
            template_version="1.0.0",
            template_hash=b"\1",
            context_hash=b"\2",
            max_context_tokens=10,
            tokens_assembled=3,
            queries_executed=1,
            elapsed_ms=5,
            stopped_by="completion",
            stages=(StageTrace("said", "history", 1, 3, 5, "ok"),),
            warnings=("a: b",),
            fragments=(FragmentTrace("search", "x/1", 3, 0.5),),
        ),
        "dc0015a174c000cd07d000909090a94154542d412d303031a5312e302e30c40101c401020a030105aa636f6d706c6574696f6e9196a473616964a7686973746f7279010305a26f6ba091a4613a20629194a6736561726368a3782f3103cb3fe0000000000000",
    ),
    (
        ProjectionComputed(
            "enforce", "2026-01-01T00:00:00.000000Z", 100, 5, 2, b"\1" * 32, "sha256:00", ("001",), (), ("1.2.1",)
        ),
        (
            "9aa7656e666f726365bb323032362d30312d30315430303a30303a30302e3030303030305a640502c4200101010101010101"
            "010101010101010101010101010101010101010101010101a97368613235363a303091a33030319091a5312e322e31"
        ),
    ),
    (
        ShadowCompare(b"\1" * 32, b"\2" * 32, 4, 5, (), ("INT-1",)),
        (
            "96c4200101010101010101010101010101010101010101010101010101010101010101c42002020202020202020202020202"
            "0202020202020202020202020202020202020204059091a5494e542d31"
        ),
    ),
    (
        SignalLogged("domain:system", "local", "2026-01-01T00:00:00.000000Z", {"n": 1, "s": "x"}),
        "94ad646f6d61696e3a73797374656da56c6f63616cbb323032362d30312d30315430303a30303a30302e3030303030305a82a16e01a173a178",
    ),
    (
        OverlayWritten(
            "ART-1",
            None,
            "PREFERENCE_BIAS",
            ("system",),
            (),
            0.5,
            1.0,
            "agent",
            None,
            True,
            "t",
            None,
            ("s:x",),
            ("EVT-1",),
            GATE,
            "m",
            "1.0.0",
            "t",
            "t",
            "t",
        ),
        "dc0014a54152542d31c0af505245464552454e43455f4249415391a673797374656d90cb3fe0000000000000cb3ff0000000000000a56167656e74c0c3a174c091a3733a7891a54556542d3199a3733a78c30503c2a763726f73736564cb0000000000000000c000a16da5312e302e30a174a174a174",
    ),
    (
        OverlayChange("ART-1", "2026-01-01T00:00:00.000000Z", "key/bob", "http/1@a", 0.5),
        "95a54152542d31bb323032362d30312d30315430303a30303a30302e3030303030305aa76b65792f626f62a8687474702f314061cb3fe0000000000000",
    ),
    (
        OverlayChange("ART-1", "2026-01-01T00:00:00.000000Z", "local", "operator/1@a", None),
        "95a54152542d31bb323032362d30312d30315430303a30303a30302e3030303030305aa56c6f63616cac6f70657261746f722f314061c0",
    ),
    (
        ConsolidationFailed("s:x", "key/bob", "expired", "2026-01-01T00:00:00.000000Z"),
        "94a3733a78a76b65792f626f62a765787069726564bb323032362d30312d30315430303a30303a30302e3030303030305a",
    ),
    (Degradation("in-1"), "91a4696e2d31"),
    (
        Denied("ho1/1@a", 3, 5, "ledger.write", event_type="WO_COMPLETED", stream="ho1m"),
        "98a7686f312f3140610305ac6c65646765722e7772697465a0a0ac574f5f434f4d504c45544544a4686f316d",
    ),
    (TokenMade("t1", "ho1", 2, 5, 9), "95a27431a3686f31020509"),
    (
        KeyEnrolled("key:1", "ho1/remote-1", "ho1", "t1", "there", "0.1.0", 5),
        "97a56b65793a31ac686f312f72656d6f74652d31a3686f31a27431a57468657265a5302e312e3005",
    ),
    (KeyRevoked("key:1", "ho1/remote-1", "t1"), "93a56b65793a31ac686f312f72656d6f74652d31a27431"),
    (KeyRefused("key:1", 3, 5, "10.0.0.66"), "94a56b65793a310305a931302e302e302e3636"),
    (BodiesRead("L", ("type=wo.*",), 60.0), "93a14c91a9747970653d776f2e2acb404e000000000000"),
    (
        BodiesRead("L", ("turn=SES-1a2b3c4d-1",), None, "ada"),
        "94a14c91b37475726e3d5345532d31613262336334642d31c0a3616461",
    ),
    (BodiesClosed("L", 4, 2500), "93a14c04cd09c4"),
    (TranscriptDelivered("in-1"), "91a4696e2d31"),
    (TurnImage("image/png"), "91a9696d6167652f706e67"),
    (HttpKeyCreated("key:1", "alice", 5, None, "use"), "95a56b65793a31a5616c69636505c0a3757365"),
    (HttpKeyRevoked("key:1", "alice", 7), "93a56b65793a31a5616c69636507"),
    (OperatorCommand("{}", "local", "ana", "control/7"), "94a27b7da56c6f63616ca3616e61a9636f6e74726f6c2f37"),
    (BatchSetAside("0.seg", 100, 50, "0.aside", "torn"), "95a5302e7365676432a7302e6173696465a4746f726e"),
    (
        WriteConflict("WO_COMPLETED:x", "ho1/1@a", 7, "ho1/2@a"),
        "94ae574f5f434f4d504c455445443a78a7686f312f31406107a7686f312f324061",
    ),
)


def test_a_payload_has_these_bytes_and_reads_back():
    packed = [(sample, pack_payload(sample).hex()) for sample, _ in SAMPLES]
    assert [now for now, before in zip(packed, SAMPLES, strict=True) if now != before] == []
    read = [(sample, unpack_payload(type(sample), bytes.fromhex(golden))) for sample, golden in SAMPLES]
    assert [(sample, back) for sample, back in read if back != sample or type(back) is not type(sample)] == []


def test_every_kind_of_entry_has_a_class_and_a_sample():
    rows = [row for row in KINDS if row.stream != SESSION]
    assert [row.event_type for row in rows if row.payload is None] == ["CONFIG_SNAPSHOT"]
    classes = {cls for row in rows for cls in (row.payload, *row.behind) if cls is not None}
    assert classes == {type(sample) for sample, _ in SAMPLES}


def test_every_field_says_what_it_is():
    for sample, _ in SAMPLES:
        for name, hint in get_type_hints(type(sample), include_extras=True).items():
            assert any(meta.description for meta in find_metas(hint)), f"{type(sample).__name__}.{name}"


def test_what_is_no_such_payload_is_refused_by_its_name():
    taken = []
    for sample, _ in SAMPLES:
        cls = type(sample)
        for body in (pack([*sample, None]), pack([]), pack(sample._asdict()), b"\xc1"):
            try:
                taken.append((cls.__name__, body, unpack_payload(cls, body)))
            except ValueError as refused:
                if not str(refused).startswith(cls.__name__):
                    taken.append((cls.__name__, body, str(refused)))
    assert taken == []


def test_a_call_that_says_more_has_more_fields_and_the_rest_their_old_bytes():
    """What the record of an earlier version holds is read, and hashed, as it was."""
    old = pack([["001", "c1", "list_packages", {"n": 1}]])
    assert pack([CALL]) == old
    for more in ({"fault": "no JSON"}, {"given_back": {"model": "m"}}):
        call = CALL.model_copy(update=more)
        assert unpack_payload(AnswerCalls, pack_payload(AnswerCalls((call, CALL)))) == AnswerCalls((call, CALL))
