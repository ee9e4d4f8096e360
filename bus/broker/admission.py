"""What may enter: which hello is acceptable, which frame the policy allows. Values in, verdict out.

Deny by default: what stands in no row of `bus/catalog.py` goes nowhere.
"""

from __future__ import annotations

from hobus.bus.catalog import CLIENT_ROLES, EVERY_ROLE, ROLES, Row, row_of
from hobus.bus.codec import HEADER_MAX_BYTES
from hobus.bus.envelope import HEADER_VERSION, Header, Kind
from hobus.bus.lanes import INSTANCE_PATTERN
from hobus.bus.messages import control
from hobus.bus.messages.control import Hello, Refused
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


def refusal_of(hello: Hello) -> Refused | None:
    """Why this hello cannot be accepted whatever its token says; None if it may be authenticated."""
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


def row_for(service: str, frame: Header) -> Row | None:
    """The catalog's row for this message to this service."""
    if frame.type == _PROBE:
        return PROBE_ROW
    return row_of(service, frame.type)


def denial_of(row: Row | None, role: str, frame: Header) -> str:
    """The reason code for which the policy does not let this pass; '' if it may."""
    if row is None:
        return "unknown_type"
    if role not in row.senders:
        return "sender_not_allowed"
    if (row.reply is None) != (frame.kind == _POST):
        return "wrong_kind"
    return ""


def malformation_of(frame: Header, header_bytes: int) -> str:
    """What is wrong with a well-typed header; '' if nothing."""
    if header_bytes > HEADER_MAX_BYTES - HEADER_ROOM_BYTES:
        return f"a header of {header_bytes} bytes; at most {HEADER_MAX_BYTES - HEADER_ROOM_BYTES}"
    if not 0 < len(frame.message_id) <= ID_MAX_CHARS:
        return f"the message id must have 1 to {ID_MAX_CHARS} characters"
    if max(len(frame.key), len(frame.trace), len(frame.principal)) > ID_MAX_CHARS:
        return f"key, trace and principal may have {ID_MAX_CHARS} characters"
    if not 0 < frame.attempt <= ATTEMPT_MAX:
        return f"the attempt must be 1 to {ATTEMPT_MAX}"
    return ""
