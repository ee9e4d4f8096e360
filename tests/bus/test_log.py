"""Loggers that load structlog with their first line."""

import subprocess
import sys

SCRIPT = """
import sys
from hobus.bus.log import Logger, configure_with
logger = Logger("bus")
configured = []
configure_with(lambda: configured.append("structlog" in sys.modules))
before = "structlog" in sys.modules, list(configured)
logger.info("one_thing_happened", count=1)
logger.info("another_thing_happened")
configure_with(lambda: configured.append("at once"))
print(before, configured)
"""


def test_structlog_is_loaded_and_configured_once_with_the_first_line() -> None:
    """Nobody who logs nothing pays for it, and no line leaves before its form is known."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    assert len(lines) == 2 and "one_thing_happened" in lines[0] and "another_thing_happened" in lines[1]
    assert last == "(False, []) [True, 'at once']"
