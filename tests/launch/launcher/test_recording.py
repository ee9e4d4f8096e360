"""What the launcher records."""

from hobus.bus.record.catalog import may_write_entry, read_body
from hobus.bus.record.payloads.governance import OperatorCommand
from hobus.launch.launcher.recording import make_command_entry


def test_an_operators_command_says_what_was_said_by_whom_and_from_where():
    """The launcher may write it, under its own name and number; it reads back."""
    said = OperatorCommand('{"command":"scale"}', "local", "ana", "control/4711")
    entry = make_command_entry(said, 2.0, instance="launcher/1@a", number=3)
    assert entry.submission_id == "OPERATOR_COMMAND:launcher/1@a/3"
    assert may_write_entry("launcher", entry, "launcher/1@a") and not may_write_entry("operator", entry, "operator/1@a")
    assert read_body(entry) == said
