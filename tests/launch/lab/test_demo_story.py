"""The demo's account: what it tells stands in the evidence, and what is not so is not told."""

from types import SimpleNamespace

import pytest

from hobus.launch.lab.demo_story import Evidence, Kill, Unproved, deliveries_of, short, timeline, verdicts

SESSION = "1a2b3c4d-0000-4000-8000-000000000000"
WO = f"WO-{SESSION}-3.1.1"
KILL = Kill("ho1/1", "ho1/1@a", 41, 1000.007, WO)


def entry(sequence, event_type, at_ms, origin, wo_id=""):
    """One entry, as far as the account looks at it."""
    provenance = SimpleNamespace(work_order_id=wo_id, session_id=SESSION, run_seq=3)
    return SimpleNamespace(
        sequence=sequence, event_type=event_type, ledger_at_us=1_000_000_000 + at_ms * 1000, origin=origin,
        provenance=provenance, reason="",
    )  # fmt: skip


def delivery(worker, at_ms, attempt, **changed):
    """One tapped frame."""
    fields = {"type": "wo.execute", "message_id": WO, "verdict": "delivered", "kind": "request"} | changed
    return SimpleNamespace(worker=worker, at=1000 + at_ms / 1000, attempt=attempt, **fields)


ENTRIES = [
    entry(80, "RunRequested", 0, "ho2/1@x"),
    entry(83, "WO_DISPATCHED", 0, "ho2/1@x", WO),
    entry(84, "PROMPT_SENT", 4, "gateway/1@x", WO),
    entry(85, "PROMPT_RECEIVED", 261, "gateway/1@x", WO),
    entry(86, "WO_COMPLETED", 262, "ho1/1@b", WO),
    entry(90, "WO_COMPLETED", 400, "ho1/1@b", f"WO-{SESSION}-3.2.1"),
    entry(109, "RunCompleted", 812, "ho2/1@x"),
]
DELIVERIES = [delivery("ho1/1@a", 2, 1), delivery("ho1/1@b", 58, 2)]


def test_the_story_is_told_in_the_order_of_time():
    """Milliseconds since the question; the second delivery is called what it is."""
    told = timeline(KILL, Evidence(ENTRIES, DELIVERIES))
    assert [at for at, _text in told] == [0, 0, 2, 4, 7, 58, 261, 262, 812]
    assert "SIGKILL to pid 41" in told[4][1] and "the same order again, attempt 2" in told[5][1]
    assert told[7][1] == "ho1/1@b ends order 3.1.1 (#86)"
    ended, asked, answered = verdicts(KILL, Evidence(ENTRIES, DELIVERIES))
    assert "delivered 2 times and ended once, by ho1/1@b" in ended
    assert "called once" in asked and "one answer" in answered


@pytest.mark.parametrize(
    ("entries", "deliveries"),
    [
        ([one for one in ENTRIES if one.event_type != "RunCompleted"], DELIVERIES),
        ([*ENTRIES, entry(110, "TurnDegraded", 900, "host/1@x")], DELIVERIES),
        ([*ENTRIES, entry(110, "WO_FAILED", 900, "ho1/1@c", WO)], DELIVERIES),
        (ENTRIES, DELIVERIES[:1]),
        ([one for one in ENTRIES if one.sequence != 86] + [entry(86, "WO_COMPLETED", 5, "ho1/1@a", WO)], DELIVERIES),
    ],
    ids=["no answer", "two answers", "two ends", "never redelivered", "ended by the dead"],
)
def test_what_the_evidence_does_not_show_is_not_claimed(entries, deliveries):
    """The demo fails instead."""
    evidence = Evidence(entries, deliveries)
    with pytest.raises(Unproved):
        assert timeline(KILL, evidence) and verdicts(KILL, evidence)


def test_only_deliveries_of_the_order_count():
    """No other order, no reply, nothing that waited or was refused."""
    others = [
        delivery("ho1/1@a", 1, 1, message_id=f"WO-{SESSION}-3.2.1"),
        delivery("ho1/1@a", 1, 1, verdict="queued"),
        delivery("ho1/1@a", 1, 1, kind="reply"),
        delivery("ho1/1@a", 1, 1, type="gateway.prompt"),
    ]
    assert deliveries_of(WO, [*others, *DELIVERIES]) == DELIVERIES
    assert short(WO) == "3.1.1"
