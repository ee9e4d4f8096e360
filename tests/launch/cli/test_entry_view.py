"""How entries of the record are shown."""

import pytest

from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.prompts import PromptRejected, SentMessage, SentRequest, SentText
from hobus.bus.record.text_parts import TextPart, pack_body
from hobus.launch.cli.entry_view import make_entry_document, make_readable

SESSION = "0a1b2c3d-0000-5000-8000-000000000000"


def entry(**fields):
    values = {
        "sequence": 7, "submission_id": "RunStarted:x", "origin": "ho2/1@a", "stream": f"session/{SESSION}",
        "event_type": "RunStarted", "decision": "", "reason": "", "provenance": Provenance(session_id=SESSION),
        "parents": [], "trace": "", "at_us": 1, "ledger_at_us": 2, "body_hashes": [b"\x01"], "body_lengths": [3],
        "prev": None, "tenure": 1, "once": None, "chain": b"\xff" * 32, "bodies": [],
    }  # fmt: skip
    return Entry(**(values | fields))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (pack({"a": b"\x00", "b": [1]}), {"a": "00", "b": [1]}),
        (b"hello", "hello"),
        (b"\xff\xfe", "fffe"),
        (None, None),
        (b"", ""),
        (
            pack_body([TextPart(None, "user: "), TextPart("a/1", "hello")]),
            {"parts": [{"text": "user: "}, {"ref": "a/1"}]},
        ),
    ],
)
def test_a_body_is_shown_as_what_it_is(body, shown):
    """MessagePack as JSON, text as text, anything else in hexadecimal, an erased one as null."""
    assert make_readable(body) == shown


def test_what_stands_in_a_payload_is_shown_by_name():
    """Those of the class that its kind has; one that is not as its class has it, as it is; an erased one as null."""
    sent = SentRequest(b"\1", b"\2", (SentMessage("user", (3, SentText("history", "a/1"))),))
    rejected = {"stream": "prompts", "event_type": "PROMPT_REJECTED"}
    whole = make_entry_document(entry(**rejected, bodies=[pack_payload(PromptRejected("PRC-A-001", "no", "REJECTED"))]))
    assert whole["bodies"] == [{"contract_id": "PRC-A-001", "message": "no", "outcome": "REJECTED", "degraded": False}]
    assert make_entry_document(entry(**rejected, bodies=[pack(["odd"])]))["bodies"] == [["odd"]]
    prompt = make_entry_document(entry(stream="prompts", event_type="PROMPT_SENT", bodies=[None, pack_payload(sent)]))
    parts = [3, {"name": "history", "ref": "a/1", "text": ""}]
    assert prompt["bodies"][0] is None and prompt["bodies"][1]["messages"][0]["parts"] == parts
    assert prompt["bodies"][1]["sha256"] == "01"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (pack({"agents/A.json": b"{}", "b.txt": b"\xff"}), {"agents/A.json": "{}", "b.txt": "ff"}),
        (b"odd", "odd"),
        (None, None),
    ],
)
def test_the_files_beside_a_configuration_are_shown_as_text(body, shown):
    found = entry(stream="governance", event_type="CONFIG_SNAPSHOT", bodies=[pack({"config": {}}), body])
    assert make_entry_document(found)["bodies"] == [{"config": {}}, shown]
