"""Which entries of the record are meant."""

from __future__ import annotations

import pytest

from hobus.bus.messages.ledger import Entry, Provenance
from hobus.launch.filters.ledger_fields import FIELDS, LedgerRow, make_ledger_filter
from hobus.launch.filters.syntax import FilterError
from tests.launch.filters.frames import SESSION

ORDER = f"WO-{SESSION}-2.1.1"


def entry(**fields) -> Entry:
    """WO_COMPLETED of the second run of SESSION, by ho1/2, with these fields changed."""
    values = {
        "sequence": 7, "submission_id": f"WO_COMPLETED:{ORDER}", "origin": "ho1/2@b", "stream": "ho1m",
        "event_type": "WO_COMPLETED", "decision": "COMPLETED", "reason": "",
        "provenance": Provenance(session_id=SESSION, run_seq=2, work_order_id=ORDER, agent_id="ADMIN"),
        "parents": [], "trace": "", "at_us": 0, "ledger_at_us": 100_000_000, "body_hashes": [], "body_lengths": [500, 600],
        "prev": None, "tenure": None, "once": None, "chain": b"",
    }  # fmt: skip
    return Entry(**(values | fields))


def accepts(text: str, **fields) -> bool:
    return make_ledger_filter((text,))(LedgerRow(entry(**fields), now=160.0))


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("type=WO_*", True),
        ("event=WO_COMPLETED", True),
        ("event=WO_FAILED", False),
        ("stream=ho1m", True),
        ("stream=session", False),
        ("actor=ho1", True),
        ("origin=ho1/2", True),
        ("origin!=ho1/2", False),
        ("decision=COMPLETED & reason=", True),
        (f"wo={ORDER}", True),
        ("wo=WO-*-2.*", True),
        ("session=SES-1a2b3c4d", True),
        ("turn=SES-1a2b3c4d-2", True),
        ("turn=SES-1a2b3c4d-1", False),
        (f"turn={ORDER}", True),
        ("agent=ADMIN", True),
        ("sequence>=7", True),
        ("size>1k", True),
        ("size>2k", False),
        ("age<2m", True),
        ("age<30s", False),
    ],
)
def test_an_entry_is_meant(text, is_meant):
    assert accepts(text) == is_meant


OTHERS = {"type": "WO_LATE", "event": "WO_LATE", "actor": "ho3", "origin": "ho3"}
"""Of fields with known values one that no entry here has."""


@pytest.mark.parametrize(
    "text", ["type=WO_COMPLETE", "event=", "type!=X*", "actor=ho9", "origin=", "turn=SES-1", "turn=a"]
)
def test_what_no_entry_can_have_is_refused(text):
    with pytest.raises(FilterError):
        make_ledger_filter((text,))


def test_every_field_answers_for_every_entry():
    for name, field in FIELDS.items():
        value = "1" if "Number" in type(field).__name__ else OTHERS.get(name, SESSION)
        assert accepts(f"{name}!={value}", provenance=Provenance(), submission_id="s", parents=[], body_lengths=[]), (
            name
        )
