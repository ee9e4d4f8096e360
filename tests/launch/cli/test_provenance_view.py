"""Which run an entry is about, so that its configuration can be named."""

import pytest

from hobus.actors.ho3_memory.records import signal_entry
from hobus.bus.messages.ids import signal_event_id
from hobus.bus.messages.ledger import Provenance
from hobus.bus.messages.memory import Signal
from hobus.launch.cli.provenance_view import run_of
from tests.launch.cli.test_entry_view import SESSION, entry


def test_a_signal_is_of_the_run_that_its_id_names():
    """Its provenance has the session alone."""
    event = signal_event_id(SESSION, 12, "domain:system")
    said = Signal(
        event_id=event,
        signal_id="domain:system",
        principal="local",
        session_id=SESSION,
        at="2026-11-25T00:00:00.000000Z",
    )
    written = signal_entry("ADMIN", said, trace="", at_us=1)
    shown = entry(
        event_type="HO3_SIGNAL",
        submission_id=written.submission_id,
        stream=written.stream,
        provenance=written.provenance,
    )
    assert run_of(shown) == (SESSION, 12)


@pytest.mark.parametrize(
    "name", ["HO3_SIGNAL:ADMIN/EVT-other-1-x", f"HO3_SIGNAL:ADMIN/EVT-{SESSION}-x-1", "HO3_SIGNAL:ADMIN/mine"]
)
def test_a_signal_of_another_form_is_of_no_run(name: str):
    """Nothing is guessed."""
    assert run_of(entry(event_type="HO3_SIGNAL", submission_id=name)) == (SESSION, 0)


def test_any_other_entry_is_of_the_run_of_its_provenance():
    """By its number."""
    assert run_of(entry(provenance=Provenance(session_id=SESSION, run_seq=3))) == (SESSION, 3)
