"""How much a peer may say: what one message, and one announcement in all its parts, holds at most. Plain rules.

Shapes of names and reasons stand in the message types; here is what the operator decides (section `bus`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hobus.bus.errors import BusError
from hobus.bus.json_text import is_object
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import LIMITED_BY, SOURCES_MAX, AnnounceTools, ToolSource, ToolWord
from hobus.bus.settings import BusSettings


def excess_of(message: Message, settings: BusSettings) -> str:
    """Which field holds more than its setting allows, in words; '' if none does."""
    cls = type(message)
    for field in cls.model_fields:
        setting = LIMITED_BY.get((cls, field))
        if setting is not None and len(getattr(message, field)) > getattr(settings, setting):
            count = len(getattr(message, field))
            return f"{cls.TYPE}: {count} {field}; at most {getattr(settings, setting)} (bus.{setting})"
    return ""


class Announced(NamedTuple):
    """All that a worker tells of its tools."""

    tools: dict[str, ToolWord]
    sources: dict[str, ToolSource]


class Announcement:
    """The parts of one, as far as they have come."""

    def __init__(self) -> None:
        self._part = 0
        self._bytes = 0
        self._tools: list[ToolWord] = []
        self._sources: list[ToolSource] = []

    def add(self, said: AnnounceTools, size: int, settings: BusSettings) -> Announced | None:
        """All of it once its last part is there. Raises BusError for a part that may not be; then it begins anew."""
        try:
            if said.part == 1:
                self._clear()
            self._check(said, size, settings)
        except BusError:
            self._clear()
            raise
        self._part, self._bytes = said.part, self._bytes + size
        self._tools += said.tools
        self._sources += said.sources
        if said.part < said.parts:
            return None
        whole = Announced({word.tool_id: word for word in self._tools}, {one.name: one for one in self._sources})
        is_doubled = len(whole.tools) < len(self._tools) or len(whole.sources) < len(self._sources)
        self._clear()
        if is_doubled:
            raise BusError(
                "malformed", f"{AnnounceTools.TYPE}: an id in tools, or a name in sources, stands there twice"
            )
        return whole

    def _check(self, said: AnnounceTools, size: int, settings: BusSettings) -> None:
        if said.part != self._part + 1 or said.part > said.parts:
            raise BusError(
                "malformed", f"{said.TYPE}: part {said.part} of {said.parts} where part {self._part + 1} is due"
            )
        if self._bytes + size > settings.announcement_max_bytes:
            limit = settings.announcement_max_bytes
            raise BusError("too_large", f"{said.TYPE}: more than {limit} bytes (bus.announcement_max_bytes)")
        count = len(self._tools) + len(said.tools)
        if count > settings.tools_max:
            raise BusError("too_large", f"{said.TYPE}: {count} tools; at most {settings.tools_max} (bus.tools_max)")
        if len(self._sources) + len(said.sources) > SOURCES_MAX:
            raise BusError("too_large", f"{said.TYPE}: more than {SOURCES_MAX} sources")
        large = oversized(said.tools, settings.tool_max_bytes)
        if large:
            raise BusError(
                "too_large",
                f"{said.TYPE}: description and parameters of {large} are too large; at most "
                f"{settings.tool_max_bytes} bytes (bus.tool_max_bytes)",
            )

        for word in said.tools:
            if not is_object(word.parameters):
                raise BusError(
                    "malformed", f"{said.TYPE}: parameters of {word.tool_id} are no JSON object, or nested too deeply"
                )

    def _clear(self) -> None:
        self._part = self._bytes = 0
        self._tools, self._sources = [], []


def oversized(words: Iterable[ToolWord], max_bytes: int) -> str:
    """The first tool that says more of itself than that; '' if none does."""
    for word in words:
        if (
            len(word.description.encode("utf-8", "replace")) + len(word.parameters.encode("utf-8", "replace"))
            > max_bytes
        ):
            return word.tool_id
    return ""
