"""What may enter: which hello, which frame, and how much one message or announcement may say. Values in, verdict out.

Deny by default: what stands in no row of `bus/catalog.py` goes nowhere. Shapes of names and reasons stand in the
message types; here is what the operator decides (section `bus`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hobus.bus import limits
from hobus.bus.catalog import CLIENT_ROLES, EVERY_ROLE, ROLES, Row, find_row
from hobus.bus.codec import HEADER_MAX_BYTES
from hobus.bus.envelope import HEADER_VERSION, Header, Kind
from hobus.bus.errors import BusError
from hobus.bus.json_text import is_object
from hobus.bus.lanes import INSTANCE_PATTERN
from hobus.bus.messages import control
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import LIMITED_BY, SOURCES_MAX, AnnounceTools, Hello, Refused, ToolSource, ToolWord
from hobus.bus.messages.ids import ID_MAX_CHARS

HEADER_ROOM_BYTES = 512
"""What forwarding may add to a header: two instance names and counters."""
ATTEMPT_MAX = 1_000_000
DEADLINE_MAX_MS = 2**31

PROBE_ROW = Row(control.Probe, "", control.Probed, EVERY_ROLE)
"""Anyone may ask any actor for its readiness; the shell answers."""

_POST = int(Kind.POST)
_PROBE = control.Probe.TYPE
_OFFERABLE = {role for role in ROLES if role != "broker" and role not in CLIENT_ROLES}


def find_refusal(hello: Hello) -> Refused | None:
    """Return why this hello cannot be accepted whatever its token; None if it may be authenticated."""
    if hello.protocol != HEADER_VERSION:
        return Refused(
            code="bad_protocol",
            detail=f"protocol {hello.protocol}; this broker speaks {HEADER_VERSION}: use one version",
        )
    match = INSTANCE_PATTERN.fullmatch(hello.instance)
    if match is None:
        return Refused(code="malformed", detail="the instance is not `<role>/<n>@<epoch>`")
    if match["role"] != hello.role or hello.role not in ROLES or hello.role == "broker":
        return Refused(code="role_mismatch", detail=f"instance {hello.instance} cannot have the role it claims")
    if hello.offers and (hello.offers != [hello.role] or hello.role not in _OFFERABLE):
        return Refused(code="role_mismatch", detail=f"{hello.instance} may offer its own service only")
    return None


def find_frame_row(service: str, frame: Header) -> Row | None:
    if frame.type == _PROBE:
        return PROBE_ROW
    return find_row(service, frame.type)


def find_denial(row: Row | None, role: str, frame: Header) -> str:
    """Return the reason code for which the policy denies this frame; '' if the frame may pass."""
    if row is None:
        return "unknown_type"
    if role not in row.senders:
        return "sender_not_allowed"
    if (row.reply is None) != (frame.kind == _POST):
        return "wrong_kind"
    return ""


def find_malformation(frame: Header, header_bytes: int) -> str:
    """Return what is wrong with a well-typed header; '' if nothing."""
    if header_bytes > HEADER_MAX_BYTES - HEADER_ROOM_BYTES:
        return f"a header of {header_bytes} bytes; at most {HEADER_MAX_BYTES - HEADER_ROOM_BYTES}"
    is_long = header_bytes > ID_MAX_CHARS  # else nothing in it can be too long
    if not frame.message_id or (is_long and len(frame.message_id) > ID_MAX_CHARS):
        return f"the message id must have 1 to {ID_MAX_CHARS} characters"
    if is_long and max(len(frame.key), len(frame.trace), len(frame.principal)) > ID_MAX_CHARS:
        return f"key, trace and principal may have {ID_MAX_CHARS} characters"
    if not 0 < frame.attempt <= ATTEMPT_MAX:
        return f"the attempt must be 1 to {ATTEMPT_MAX}"
    return ""


def find_excess(message: Message) -> str:
    """Return in words which field of the message exceeds its limit; '' if none does."""
    cls = type(message)
    for field in cls.__struct_fields__:
        limit = LIMITED_BY.get((cls, field))
        if limit is not None and (count := len(getattr(message, field))) > (most := getattr(limits, limit.upper())):
            return f"{cls.TYPE}: {count} {field}; at most {most}"
    return ""


class Announced(NamedTuple):
    """Everything that a worker announced of its tools."""

    tools: dict[str, ToolWord]
    sources: dict[str, ToolSource]


class Announcement:
    """The parts of an announcement that have arrived so far."""

    def __init__(self) -> None:
        self._part = 0
        self._bytes = 0
        self._tools: list[ToolWord] = []
        self._sources: list[ToolSource] = []

    def add(self, said: AnnounceTools, size: int) -> Announced | None:
        """Add a part; return the whole with its last part. Raises BusError for an invalid part, and begins anew."""
        try:
            if said.part == 1:
                self._clear()
            self._check(said, size)
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

    def _check(self, said: AnnounceTools, size: int) -> None:
        if said.part != self._part + 1 or said.part > said.parts:
            raise BusError(
                "malformed", f"{said.TYPE}: part {said.part} of {said.parts} where part {self._part + 1} is due"
            )
        if self._bytes + size > limits.ANNOUNCEMENT_MAX_BYTES:
            limit = limits.ANNOUNCEMENT_MAX_BYTES
            raise BusError("too_large", f"{said.TYPE}: more than {limit} bytes")
        count = len(self._tools) + len(said.tools)
        if count > limits.TOOLS_MAX:
            raise BusError("too_large", f"{said.TYPE}: {count} tools; at most {limits.TOOLS_MAX}")
        if len(self._sources) + len(said.sources) > SOURCES_MAX:
            raise BusError("too_large", f"{said.TYPE}: more than {SOURCES_MAX} sources")
        large = find_oversized(said.tools, limits.TOOL_MAX_BYTES)
        if large:
            raise BusError(
                "too_large",
                f"{said.TYPE}: description and parameters of {large} are too large; at most "
                f"{limits.TOOL_MAX_BYTES} bytes",
            )

        for word in said.tools:
            if not is_object(word.parameters):
                raise BusError(
                    "malformed", f"{said.TYPE}: parameters of {word.tool_id} are no JSON object, or nested too deeply"
                )

    def _clear(self) -> None:
        self._part = self._bytes = 0
        self._tools, self._sources = [], []


def find_oversized(words: Iterable[ToolWord], max_bytes: int) -> str:
    """Return the first tool whose description exceeds `max_bytes`; '' if none does."""
    for word in words:
        if (
            len(word.description.encode("utf-8", "replace")) + len(word.parameters.encode("utf-8", "replace"))
            > max_bytes
        ):
            return word.tool_id
    return ""
