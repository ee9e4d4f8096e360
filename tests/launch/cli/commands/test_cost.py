"""Spending by the record: sums, groups, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.prompts import BudgetCrossed, PromptFailed, PromptReceived, PromptRejected, PromptSent
from hobus.launch.cli.commands.cost import parse_since_us, report, sum_total

DAY_US = 86_400_000_000


def entry(kind: str, name: str, payload: Any, *, at_us: int = 0, session: str = "s1") -> Entry:
    body = None if payload is None else pack_payload(payload)
    return Entry(
        sequence=0, submission_id=f"{kind}:{name}", origin="gateway/1@a", stream="prompts", event_type=kind, decision="",
        reason="", provenance=Provenance(agent_id="ADMIN", session_id=session), parents=[], trace="", at_us=at_us,
        ledger_at_us=at_us, body_hashes=[], body_lengths=[], prev=None, tenure=None, once=None, chain=b"", bodies=[body],
    )  # fmt: skip


SENT = PromptSent("p", "m", "PRC-X-001", "PRM-X-001", "", 10, 0.0, "warn", 20, 10, None)
REJECTED = PromptRejected("PRC-X-001", "no", "REJECTED")


def answered(tokens: int, cost_usd: float | None) -> PromptReceived:
    return PromptReceived("p", "m", tokens - 10, 10, cost_usd, None, 1, "stop")


def failed(tokens: int, cost_usd: float | None, *, is_unknown: bool = False, was_sent: bool = True) -> PromptFailed:
    return PromptFailed("p", "m", "broken", False, tokens, cost_usd, is_unknown, was_sent)  # noqa: FBT003 - its fields


def test_calls_are_summed_by_group_and_all_together():
    """By session, by day, by model and by agent; the order of the keys is the caller's."""
    entries = [
        entry("PROMPT_RECEIVED", "a/1", answered(100, 0.5)),
        entry("PROMPT_RECEIVED", "b/1", answered(50, 0.25), at_us=DAY_US),
        entry("PROMPT_RECEIVED", "c/1", answered(30, 0.0), session="s2"),
    ]
    by_session = report(entries, ["session"])
    assert {group: (spent.calls, spent.tokens, spent.cost_usd) for group, spent in by_session.items()} == {
        ("s1",): (2, 150, 0.75),
        ("s2",): (1, 30, 0.0),
    }
    assert list(report(entries, ["day", "model", "agent"])) == [
        ("1970-01-01", "p/m", "ADMIN"),
        ("1970-01-02", "p/m", "ADMIN"),
    ]
    whole = sum_total(by_session.values())
    assert (whole.calls, whole.input_tokens, whole.output_tokens, whole.cost_is_known) == (3, 150, 30, True)


def test_calls_are_summed_by_whose_session_they_were_and_what_was_cached_is_told():
    """Vectors are asked for outside a session: their own record says whose they are; others are of nobody known."""
    vectors = PromptSent("p", "m", "PRC-X-001", "PRM-X-001", "", 10, 0.0, "warn", 20, 10, None, principal="key/b/eve")
    entries = [
        entry("PROMPT_RECEIVED", "a/1", PromptReceived("p", "m", 90, 10, 0.5, None, 1, "stop", cached_tokens=64)),
        entry("PROMPT_RECEIVED", "b/1", answered(50, 0.25), session="s2"),
        entry("PROMPT_SENT", "c/1", vectors, session="s3"),
        entry("PROMPT_RECEIVED", "c/1", answered(30, 0.0), session="s3"),
        entry("PROMPT_SENT", "d/1", SENT, session="s4"),
    ]
    groups = report(entries, ["principal"], owners={"s1": "key/a", "s2": "local"})
    assert {group: (one.calls, one.tokens, one.cached_tokens) for group, one in groups.items()} == {
        ("-",): (0, 0, 0), ("key/a",): (1, 100, 64), ("key/b/eve",): (1, 30, 0), ("local",): (1, 50, 0),
    }  # fmt: skip


def test_what_is_unknown_is_counted_apart():
    """A price nobody configured, an outcome nobody knows, an erased end, a call without end: none of them is nothing."""
    entries = [
        entry("PROMPT_RECEIVED", "a/1", answered(100, None)),
        entry("PROMPT_SENT", "b/1", SENT),
        entry("PROMPT_FAILED", "b/1", failed(40, None, is_unknown=True)),
        entry("PROMPT_FAILED", "c/1", failed(0, 0.0, was_sent=False)),
        entry("PROMPT_RECEIVED", "d/1", None),
        entry("PROMPT_SENT", "e/1", SENT),
        entry("PROMPT_REJECTED", "f/1", REJECTED),
        entry("BUDGET_WARNING", "a/1", BudgetCrossed("agent:ADMIN", 1, 1, 1)),
    ]
    (spent,) = report(entries, ["agent"]).values()
    assert (spent.calls, spent.failed, spent.rejected, spent.open_calls) == (3, 1, 1, 1)
    assert (spent.unknown_prices, spent.unknown_outcomes, spent.unknown_tokens) == (3, 2, 40)
    assert (spent.tokens, spent.cost_usd, spent.cost_is_known) == (140, 0.0, False)


def test_since_counts_what_ended_since():
    entries = [entry("PROMPT_RECEIVED", f"{at}/1", answered(1, 0.0), at_us=at) for at in (9, 10, 11)]
    (spent,) = report(entries, ["agent"], since_us=10).values()
    assert spent.calls == 2
    assert report(entries, ["agent"], since_us=12) == {}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 910.0),
        ("10m", 400.0),
        ("1m30s", 910.0),
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_since_is_a_length_of_time_or_a_moment(text, seconds):
    assert parse_since_us(text, 1000.0) == round(seconds * 1_000_000)


def test_an_entry_that_cannot_be_read_is_named_and_nothing_is_added_up():
    forged = entry("PROMPT_RECEIVED", "a/1", answered(100, 0.5))._replace(bodies=[b"\xc1"], sequence=7)
    with pytest.raises(ValueError, match=r"#7 PROMPT_RECEIVED:a/1 of gateway/1@a: PromptReceived"):
        report([forged], ["agent"])
