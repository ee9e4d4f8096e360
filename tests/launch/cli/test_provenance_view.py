"""Which run an entry is about, so that its configuration can be named."""

from hobus.actors.ho3_memory.records import signal_entry
from hobus.bus.messages.ids import signal_event_id
from hobus.bus.messages.memory import Signal
from hobus.launch.cli.provenance_view import run_of
from tests.launch.cli.test_entry_view import SESSION, entry


def test_a_signal_is_of_the_run_that_its_id_names():
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
