"""The one answer that is not a reply: a closed code, whether a retry may help, and facts for a person."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field, structs

from hobus.bus.messages.base import Message, pack
from hobus.bus.text import cut

FAILURE_CODES = (
    # the bus
    "no_route", "busy", "denied", "expired", "peer_lost", "malformed", "internal", "cancelled",
    # anything that is asked for and not there, or not allowed in this state
    "not_found", "rejected", "too_large", "unavailable", "erased",
    # verdicts on an input or a session
    "input_conflict", "run_active", "session_closed", "invalid_input", "agent_mismatch", "unreadable", "moved",
    "session_left",
    # the ledger
    "fenced", "disk_full", "damaged",
    # the gateway
    "history_unknown",
)  # fmt: skip

DETAIL_MAX_CHARS, FACTS_MAX_BYTES = 4000, 4096


class Failure(Message, wire="bus.failure"):
    """Sent instead of a reply, exactly once per request."""

    code: Annotated[str, Meta(max_length=64, description="of the list below, a work order's or the gateway's")]
    retryable: Annotated[bool, Meta(description="the same request may succeed later")]
    detail: Annotated[
        str,
        Meta(
            description="what was tried, which id, which limit, the fix; no prompt text, no secret; cut to "
            f"{DETAIL_MAX_CHARS} characters"
        ),
    ]
    retry_after_ms: Annotated[int, Meta(ge=0, description="busy: not sooner")] | None = None
    facts: Annotated[
        dict[str, Any],
        Meta(description=f"machine-readable; of more than {FACTS_MAX_BYTES} bytes only their number"),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Bound the texts where they are made and read; a failure is told also without its facts."""
        if len(self.detail) > DETAIL_MAX_CHARS:
            structs.force_setattr(self, "detail", cut(self.detail, DETAIL_MAX_CHARS))
        if self.facts and (size := len(pack(self.facts))) > FACTS_MAX_BYTES:
            structs.force_setattr(self, "facts", {"facts_dropped_bytes": size})
