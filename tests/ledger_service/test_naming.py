"""Nobody takes an id or a once key that another entry will need, and every rightful one passes."""

import pytest

from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.record.catalog import find_kind, may_write_entry, read_body
from hobus.bus.sim.disk import SimDisk
from tests.ledger_service.rig import SESSION, medium, running, write

SID = SESSION.removeprefix("session/")
OTHER = "11111111-1c1b-5b0e-9a59-7b0e4d1c6f21"
ORDER, WORKER = f"WO-{SID}-1.1.1", "ho1/remote-2@aaaaaaaa"

RIGHTFUL = [
    ("ho2/1@9", SESSION, "TookOver", f"{SID}/2", None),
    ("ho2/1@9", SESSION, "SESSION_START", f"{SID}/1.2", None),
    ("ho2/1@9", SESSION, "RunRequested", f"{SID}/in-1", None),
    ("ho2/1@9", SESSION, "WO_DISPATCHED", f"WO-{SID}-1.1.1.001", None),
    ("ho2/1@9", SESSION, "OrderEnded", ORDER, None),
    ("ho2/1@9", SESSION, "RunCompleted", f"{SID}-1", f"turn:{SID}/in-1"),
    ("ho2/1@9", SESSION, "RunFailed", f"{SID}/1.9", f"turn:{SID}/in-1"),
    ("ho2/1@9", SESSION, "RunFailed", f"{SID}/1.9", None),
    ("ho2/1@9", SESSION, "RunCancelled", f"{SID}/1.9", f"turn:{SID}/in-1"),
    ("ho2/1@9", "ho2m", "WO_QUALITY_GATE", "ho2/1@9/7", None),
    ("ho2/1@9", "ho2m", "WO_DISPATCHED", "WO-CONS-0a1b-1", None),
    ("ho2/1@9", "ho2_context_authority", "CONTEXT_ASSEMBLED", "ho2/1@9/8", None),
    ("ho2/1@9", "ho1m", "WO_FAILED", f"{ORDER}/ho2/1@9", f"end:{ORDER}"),
    (WORKER, "ho1m", "TOOL_STARTED", f"{ORDER}/{WORKER}", f"start:{ORDER}"),
    (WORKER, "ho1m", "TOOL_STARTED", f"{ORDER}/{WORKER}", f"start:{ORDER}/2"),
    (WORKER, "ho1m", "WO_COMPLETED", f"{ORDER}/{WORKER}", f"end:{ORDER}"),
    (WORKER, "ho1m", "WO_FAILED", f"{ORDER}/{WORKER}", f"end:{ORDER}"),
    (WORKER, "ho1m", "WO_LATE", f"{ORDER}/{WORKER}", None),
    ("gateway/1@9", "prompts", "PROMPT_SENT", f"{ORDER}#1/1", f"sent:{ORDER}#1/1"),
    ("gateway/1@9", "prompts", "PROMPT_RECEIVED", f"{ORDER}#1/1", f"got:{ORDER}#1/1"),
    ("gateway/1@9", "prompts", "PROMPT_FAILED", f"{ORDER}#1/1", f"got:{ORDER}#1/1"),
    ("gateway/1@9", "prompts", "BUDGET_ALLOCATED", "session:x/100", None),
    ("ho3/1@9", "signals", "HO3_SIGNAL", f"ADMIN/EVT-{SID}-1-domain:x", None),
    ("ho3/1@9", "overlays", "HO3_OVERLAY", "OVL-1/2", None),
    ("host/1@9", SESSION, "TurnDegraded", f"{SID}/in-1", f"turn:{SID}/in-1"),
    ("host/1@9", SESSION, "TurnDegraded", f"{SID}/in-1/delivered", f"delivered:{SID}/in-1"),
    ("host/1@9", "governance", "DEGRADATION", f"{SID}/in-1", None),
    ("launcher/1@9", "governance", "CONFIG_SNAPSHOT", "sha256:1", None),
    ("broker/1@9", "governance", "KEY_ENROLLED", "key:1", None),
    ("operator/1@9", "governance", "TAP_BODIES_READ", "look-1", None),
    ("http/1@9", "governance", "TRANSCRIPT_DELIVERED", f"alice/{'0' * 64}", None),
    ("http/1@9", "governance", "HTTP_KEY_CREATED", f"alice/{'0' * 16}", None),
    ("http/1@9", "governance", "HTTP_KEY_REVOKED", f"alice/{'0' * 16}", None),
]


def _entry(stream: str, event_type: str, submission_id: str, once: str | None) -> WriteEntry:
    return write(submission_id, stream, event_type=event_type, once=once)


def _may(sender: str, entry: WriteEntry) -> bool:
    return may_write_entry(sender.partition("/")[0], entry, sender)


@pytest.mark.parametrize(("sender", "stream", "event_type", "about", "once"), RIGHTFUL)
def test_a_rightful_entry_passes_and_its_neighbours_do_not(sender, stream, event_type, about, once):
    own = f"{event_type}:{about}"
    assert _may(sender, _entry(stream, event_type, own, once))
    for name in ("x1", "", about, f":{about}", f"TookOverX:{about}", f"PROMPT_SENTX:{about}", f"{event_type}:"):
        entry = _entry(stream, event_type, "x", once)._replace(submission_id=name)
        assert not _may(sender, entry), name
    for key in (
        "turn:s/in-1", f"turn:{OTHER}/in-1", f"turn:{SID}", f"end:WO-{OTHER}-1.1.1", f"start:{ORDER}/x", "k", "sent:x",
        "got:x", f"delivered:{SID}/in-2",
    ):  # fmt: skip
        assert not _may(sender, _entry(stream, event_type, own, key)), key


@pytest.mark.parametrize(
    ("sender", "stream", "event_type", "name"),
    [
        (WORKER, "ho1m", "WO_COMPLETED", f"TookOver:{SID}/2"),
        (WORKER, "ho1m", "WO_COMPLETED", f"WO_DISPATCHED:{ORDER}"),
        (WORKER, "ho1m", "WO_COMPLETED", f"PROMPT_SENT:{ORDER}#1/1"),
        (WORKER, "ho1m", "WO_COMPLETED", f"WO_COMPLETED:{ORDER}/ho1/1@bbbbbbbb"),
        (WORKER, "ho1m", "WO_COMPLETED", f"WO_FAILED:{ORDER}/{WORKER}"),
        (WORKER, "ho1m", "WO_COMPLETED", f"WO_COMPLETED:free text/{WORKER}"),
        (WORKER, "ho1m", "WO_COMPLETED", f"WO_COMPLETED:{WORKER}"),
        ("ho2/1@9", SESSION, "TookOver", f"TookOver:{OTHER}/2"),
        ("ho2/1@9", SESSION, "RunCompleted", f"RunCompleted:{OTHER}-1"),
        ("ho2/1@9", SESSION, "OrderEnded", f"OrderEnded:WO-{OTHER}-1.1.1"),
        ("ho2/1@9", "ho2m", "WO_DISPATCHED", f"WO_DISPATCHED:{ORDER}"),
        ("ho2/1@9", "ho2m", "ESCALATION", "ESCALATION:ho2/2@8/1"),
        ("ho2/1@9", "ho2m", "ESCALATION", "ESCALATION:ho2/1@9/one"),
        ("host/1@9", SESSION, "TurnDegraded", f"TurnDegraded:{OTHER}/in-1"),
        ("broker/1@9", "governance", "DENIED", "broker/2@8/1"),
        ("broker/1@9", "governance", "DENIED", "CONFIG_SNAPSHOT:sha256:1"),
    ],
)
def test_no_entry_stands_under_an_id_that_is_anothers(sender, stream, event_type, name):
    assert find_kind(sender.partition("/")[0], stream, event_type) is not None
    assert not _may(sender, _entry(stream, event_type, name, None))


def test_an_end_is_about_the_order_of_its_provenance():
    entry = _entry("ho1m", "WO_COMPLETED", f"WO_COMPLETED:{ORDER}/{WORKER}", f"end:{ORDER}")
    assert _may(WORKER, entry._replace(provenance=Provenance(work_order_id=ORDER)))
    assert not _may(WORKER, entry._replace(provenance=Provenance(work_order_id="WO-9")))


def test_what_the_broker_counts_has_no_type_before_it():
    """The one exception to `<event type>:`; still under its own instance."""
    for event_type in ("DENIED", "DEAD_LETTER", "KEY_REFUSED"):
        assert _may("broker/1@9", _entry("governance", event_type, "broker/1@9/3", None))


async def test_an_enrolled_worker_breaks_no_session_and_takes_no_turn():
    """The ids and keys that a session is about to need: refused, recorded as denied, and free for their owner."""
    stolen = [
        _entry("ho1m", "WO_COMPLETED", "evil1", f"turn:{SID}/in-1"),
        _entry("ho1m", "WO_COMPLETED", f"WO_COMPLETED:{ORDER}/{WORKER}", f"turn:{SID}/in-1"),
        _entry("ho1m", "WO_COMPLETED", f"TookOver:{SID}/1", None),
        _entry("ho1m", "WO_COMPLETED", f"RunCompleted:{SID}-1", None),
    ]
    taken = write(f"TookOver:{SID}/1", SESSION, event_type="TookOver", prev="", tenure=1)
    answer = write(
        f"RunCompleted:{SID}-1", SESSION, event_type="RunCompleted", prev=taken.submission_id, tenure=1,
        once=f"turn:{SID}/in-1",
    )  # fmt: skip
    async with running(SimDisk(medium())) as ledger:
        acks = await ledger.write(*stolen, sender=WORKER)
        assert [(ack.outcome, ack.code) for ack in acks] == [("refused", "denied")] * 4
        acks = await ledger.write(taken, answer, sender="ho2/1@9")
        assert [ack.outcome for ack in acks] == ["committed"] * 2
        await ledger.bus.release()
        (denied,) = [e for e in await ledger.read("governance", with_bodies=True) if e.event_type == "DENIED"]
        said = read_body(denied)
        assert (said.sender, said.event_type, said.times) == (WORKER, "WO_COMPLETED", 4)
