"""How the gateway's drills judge, and that the committed tables are the committed figures."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from bench.gateway import secrets
from bench.gateway.audit import compared
from bench.gateway.parts import Call
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.prompts import PromptFailed

ROOT = Path(__file__).parents[2]
KEY = "WO-a#1"
SAID = "answer 1 to WO-a#1"


def entry(event_type: str, *, attempt: int = 1, reason: str = "", was_sent: bool = True, content: str = SAID) -> Entry:
    """One record of the attempt."""
    failed = PromptFailed("p", "m", "broken", False, 0, None, False, was_sent)  # noqa: FBT003 - its fields
    bodies: list[bytes | None] = [pack_payload(failed)]
    if event_type == "PROMPT_RECEIVED":
        bodies.append(content.encode())
    return Entry(
        sequence=0, submission_id=f"{event_type}:{KEY}/{attempt}", origin="gateway/1@1", stream="prompts",
        event_type=event_type, decision="", reason=reason, provenance=Provenance(), parents=[], trace="", at_us=0,
        ledger_at_us=0, body_hashes=[], body_lengths=[], prev=None, tenure=None, once=None, chain=b"", bodies=bodies,
    )  # fmt: skip


SENT, RECEIVED = entry("PROMPT_SENT"), entry("PROMPT_RECEIVED")
UNKNOWN = entry("PROMPT_FAILED", reason="UNKNOWN_OUTCOME")
WHOLE = Call(KEY, 1, "whole", SAID, is_whole=True)


@pytest.mark.parametrize(
    ("entries", "calls", "told"),
    [
        ([SENT, RECEIVED], [WHOLE], {KEY: SAID}),
        ([SENT, UNKNOWN], [], {}),
        ([SENT, UNKNOWN], [WHOLE], {}),
        ([SENT, UNKNOWN], [WHOLE], {KEY: SAID}),
        ([SENT, entry("PROMPT_FAILED", was_sent=False)], [], {}),
        ([SENT, entry("PROMPT_FAILED", reason="CANCELLED")], [], {}),
    ],
)
def test_both_sides_agree(entries, calls, told):
    """On a call with its answer, on one of unknown outcome that arrived or did not, and on one that never left."""
    found = compared(entries, calls, told)
    assert not found.faults, found


@pytest.mark.parametrize(
    ("entries", "calls", "told"),
    [
        ([], [WHOLE], {}),
        ([SENT], [WHOLE], {}),
        ([SENT, RECEIVED, UNKNOWN], [WHOLE], {}),
        ([RECEIVED], [WHOLE], {}),
        ([SENT, RECEIVED], [WHOLE, Call(KEY, 2, "whole")], {}),
        ([SENT, entry("PROMPT_FAILED", was_sent=False)], [WHOLE], {}),
        ([SENT, entry("PROMPT_FAILED", reason="PROVIDER_ERROR")], [], {}),
        ([SENT, entry("PROMPT_RECEIVED", content="other words")], [WHOLE], {}),
        ([SENT, RECEIVED], [WHOLE], {KEY: "other words"}),
        ([SENT, entry("PROMPT_FAILED", reason="PROVIDER_ERROR")], [Call(KEY, 1, "half")], {KEY: SAID}),
    ],
)
def test_each_difference_is_one(entries, calls, told):
    """A call nobody recorded, an end too few or too many, a send that was none, words that were never said or told."""
    assert compared(entries, calls, told).faults


@pytest.mark.parametrize("secret", ["sk-2f1c9a7be04d4e3c", bytes(range(100, 132))])
def test_a_secret_is_found_in_whatever_form_it_was_written(secret):
    """Whole, in halves, in capitals, as base64 and hex; and a part of it that is no half is none."""
    data = secret.encode() if isinstance(secret, str) else secret
    half = len(data) // 2
    for form in (data, data[:half], data[half:], data.upper(), base64.b64encode(data), data.hex().encode()):
        search = secrets._Search({"it": secret})
        search.look("logs", "a line", b"before " + form + b" behind")
        assert search.found.hits == {"it": {"logs": ["a line"]}}, form
        assert len(search.found.faults) == 1
    search.look("logs", "a line", data[: half - 1])
    assert len(search.found.faults) == 1
