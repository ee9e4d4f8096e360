"""What the launcher records."""

from bench.builders import shipped_snapshot
from hobus.bus.messages.base import unpack
from hobus.bus.record.catalog import may_write_entry, read_body
from hobus.bus.record.payloads.governance import OperatorCommand
from hobus.config.snapshot import Snapshot
from hobus.launch.launcher.recording import command_entry, snapshot_entry


def test_the_entry_of_a_snapshot_is_named_by_its_digest_and_holds_it():
    """A worker elsewhere can fetch the body and has the same snapshot."""
    snapshot = shipped_snapshot()
    entry = snapshot_entry(snapshot, 1.5)
    assert entry.submission_id == f"CONFIG_SNAPSHOT:{snapshot.digest}"
    assert (entry.stream, entry.event_type, entry.at_us) == ("governance", "CONFIG_SNAPSHOT", 1_500_000)
    assert Snapshot.from_bytes(entry.bodies[0]).digest == snapshot.digest
    assert isinstance(unpack(entry.bodies[0]), dict)


def test_an_operators_command_says_what_was_said_by_whom_and_from_where():
    """The launcher may write it, under its own name and number; it reads back."""
    said = OperatorCommand('{"command":"scale"}', "local", "ana", "control/4711")
    entry = command_entry(said, 2.0, instance="launcher/1@a", number=3)
    assert entry.submission_id == "OPERATOR_COMMAND:launcher/1@a/3"
    assert may_write_entry("launcher", entry, "launcher/1@a") and not may_write_entry("operator", entry, "operator/1@a")
    assert read_body(entry) == said
