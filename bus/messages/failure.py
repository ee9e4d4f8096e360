"""The one answer that is not a reply: a closed code, whether a retry may help, and facts for a person."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from hobus.bus.messages.base import Message, cut_to, pack

FAILURE_CODES = (
    # the bus
    "no_route", "busy", "denied", "expired", "peer_lost", "malformed", "internal", "cancelled",
    # anything that is asked for and not there, or not allowed in this state
    "not_found", "rejected", "too_large", "unavailable", "erased",
    # verdicts on an input or a session
    "input_conflict", "run_active", "session_closed", "invalid_input", "agent_mismatch", "unreadable", "moved",
    # the ledger
    "fenced", "disk_full", "damaged",
    # the gateway
    "history_unknown",
)  # fmt: skip

FACTS_MAX_BYTES = 4096


def _bounded(facts: Any) -> Any:
    """Where they are made and where they are read; a failure is told also without them."""
    size = len(pack(facts)) if facts else 0
    return facts if size <= FACTS_MAX_BYTES else {"facts_dropped_bytes": size}


class Failure(Message, wire="bus.failure"):
    """Sent instead of a reply, exactly once per request."""

    code: str = Field(max_length=64, description="of the list below, a work order's or the gateway's")
    retryable: bool = Field(description="the same request may succeed later")
    detail: Annotated[str, cut_to(4000), Field(max_length=4000)] = Field(
        description="what was tried, which id, which limit, the fix; no prompt text, no secret"
    )
    retry_after_ms: int | None = Field(default=None, ge=0, description="busy: not sooner")
    facts: Annotated[dict[str, Any], BeforeValidator(_bounded)] = Field(
        default_factory=dict,
        description=f"machine-readable; of more than {FACTS_MAX_BYTES} bytes only the number stands there",
    )
