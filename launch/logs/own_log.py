"""What a command's own process logs of its connection: for who looks into the command itself, on standard error.

A person is told in the command's own sentences; a line of a log between them, or in the middle of a chat, tells nothing
that calls for an act. With --debug they come, as `hobus logs` would show them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, NoReturn

from hobus.bus.log import configure_with


def configure() -> None:
    """Unless this process is one that has a log file."""
    configure_with(_configure)


def _configure() -> None:
    # With the first line alone.
    import structlog  # noqa: PLC0415

    from hobus.bus.clock import SystemClock  # noqa: PLC0415
    from hobus.launch.console.output import clock_time, note, styled, wants_debug  # noqa: PLC0415
    from hobus.launch.logs.lines import LogLine, shown  # noqa: PLC0415

    if structlog.is_configured():
        return

    def note_or_drop(_logger: object, _method: str, record: MutableMapping[str, Any]) -> NoReturn:
        """The line's end, printed or not."""
        if wants_debug():
            line = LogLine("hobus", SystemClock().now(), "", dict(record))
            note(shown(line, clock_time, lambda text, colour: styled(text, colour or None, to_stderr=True)))
        raise structlog.DropEvent

    processors = [structlog.processors.add_log_level, structlog.processors.format_exc_info, note_or_drop]
    structlog.configure(processors=processors)
