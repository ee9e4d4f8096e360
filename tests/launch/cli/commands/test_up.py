"""What `hobus up` says of a launcher that ended before it had said how the start went."""

from pathlib import Path

import pytest

from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.launcher.starting import make_died_while_starting


@pytest.mark.parametrize(
    ("code", "said", "message"),
    [
        (-9, "of a former failure", "the launcher died while starting (signal 9)"),
        (1, "", "the launcher died while starting (exit 1)"),
        (1, "ImportError: no zmq", "the launcher died while starting (exit 1): ImportError: no zmq"),
        (0, "", "the cluster was stopped while it was starting"),
    ],
)
def test_how_the_launcher_ended_is_said_as_it_was(code, said, message):
    """Killed, failed with its own last words, or told to stop meanwhile; a crash names the command that cleans up."""
    error = make_died_while_starting(Home(Path("/x")), code, said)
    assert (error.message, error.exit_code) == (message, exit_codes.UNREACHABLE)
    assert ("hobus down --home /x" in error.hint) == (code != 0)
