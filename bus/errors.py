"""Expected faults: typed, handled, recorded. Anything else is a programming error and ends the handler.

RuntimeFault                 code, retryable, detail, facts; retry_after_ms and pause_s: when to ask again
├── BusError                 no_route (retryable), busy (retryable), denied, expired (retryable), peer_lost (retryable),
│                            malformed, internal, cancelled, history_unknown (retryable)
├── MessageTooLarge          too_large: names size, limit and the setting
├── LedgerError              conflict, fenced (retryable), disk_full, unavailable (retryable), damaged,
│                            other_format, erased
├── GatewayError             code of bus.messages.gateway.ERROR_CODES
├── WorkOrderFault           code of bus.messages.work_order.ERROR_CODES
├── MemoryFault              unknown_artifact, unknown_events, invalid_overlay, event_conflict, invalid_time (nothing is
│                            appended)
├── SessionFault             input_conflict, run_active, session_closed, session_left, invalid_input, agent_mismatch,
│                            unreadable (verdicts: never degrade); moved (retryable): the session is changing hands,
│                            ask again
└── ConfigError              names the path of the setting and the fix

Across the wire there is one shape, `Failure(code, retryable, detail)`; `fault_of` turns it back into a class above.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from hobus.bus.messages.failure import Failure

VERDICT_CODES = frozenset(
    {
        "input_conflict", "run_active", "session_closed", "session_left", "invalid_input", "agent_mismatch",
        "unreadable", "denied", "too_large", "rejected", "cancelled",
    }
)  # fmt: skip
"""Refusals on purpose: a client sees them as outcome `error`; the host never degrades because of one."""


GATEWAY_REFUSALS = frozenset(
    {"BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED", "TURN_LIMIT", "NOT_ALLOCATED", "FORBIDDEN", "AUTH_ERROR"}
)
"""Codes by which the gateway refuses a call on purpose; they end a turn, and whoever asked is told so."""

OUT_OF_TIME_CODES = frozenset({"deadline_exceeded", "expired"})
"""Faults that say that time ran out, and not whom it went to."""


_WORDS = {
    "no_route": "nobody who could answer is there",
    "peer_lost": "whoever worked on it was lost",
    "expired": "no answer came in time",
    "unavailable": "the record cannot be reached",
}
"""Of faults whose details name frames and instances, which say nothing to people."""


def put_plainly(fault: RuntimeFault) -> str:
    return _WORDS.get(fault.code, fault.detail)


class RuntimeFault(Exception):
    """An expected fault, with `code`, `retryable` and `detail`."""

    retryable_codes: frozenset[str] = frozenset()

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.retryable = code in self.retryable_codes if retryable is None else retryable
        self.retry_after_ms = retry_after_ms  # None: nobody said
        self.facts: dict[str, Any] = facts or {}

    def as_failure(self) -> Failure:
        return Failure(
            code=self.code,
            retryable=self.retryable,
            detail=self.detail,
            retry_after_ms=self.retry_after_ms,
            facts=self.facts,
        )

    def pause_s(self, usual_s: float, draw: float) -> float:
        """Return how long to wait before asking again: what was said, and up to half of it more by a draw of 0..1.

        So that all who were told the same do not come back at the same moment.
        """
        return usual_s if self.retry_after_ms is None else self.retry_after_ms / 1000 * (1 + draw / 2)


class BusError(RuntimeFault):
    """A request did not get its reply."""

    retryable_codes = frozenset({"no_route", "busy", "expired", "peer_lost"})


class MessageTooLarge(RuntimeFault):
    """A body is over `limits.BODY_MAX_BYTES`; it was never sent."""


class LedgerError(RuntimeFault):
    """The record refused, or is away."""

    retryable_codes = frozenset({"fenced", "unavailable"})


class GatewayError(RuntimeFault):
    """The gateway refused or could not."""


class WorkOrderFault(RuntimeFault):
    """An order could not be executed."""


class SessionFault(RuntimeFault):
    """A verdict about an input or a session, which never degrades; or `moved`: its owner is changing, ask again."""

    retryable_codes = frozenset({"moved"})


class MemoryFault(RuntimeFault):
    """HO3 refuses an id that nobody logged, or an overlay that may not stand; asking again brings the same."""


class ConfigError(RuntimeFault):
    """A setting is missing, unknown or out of range; `detail` names its path and the fix."""

    def __init__(self, detail: str, *, facts: dict[str, Any] | None = None) -> None:
        super().__init__("config_invalid", detail, facts=facts)


_BY_CODE: dict[str, type[RuntimeFault]] = {
    **dict.fromkeys(("fenced", "disk_full", "damaged", "erased", "unavailable", "conflict"), LedgerError),
    **dict.fromkeys(
        (
            "input_conflict",
            "run_active",
            "session_closed",
            "session_left",
            "invalid_input",
            "agent_mismatch",
            "unreadable",
            "moved",
            "PROVIDER_NOT_FOUND",
            "MODEL_NOT_FOUND",
            "FORBIDDEN",
        ),
        SessionFault,
    ),
    **dict.fromkeys(
        ("unknown_artifact", "unknown_events", "invalid_overlay", "event_conflict", "invalid_time"), MemoryFault
    ),
    "too_large": MessageTooLarge,
}


def make_fault(failure: Failure) -> RuntimeFault:
    """Return the typed fault behind a Failure that came over the wire."""
    kind = _BY_CODE.get(failure.code, BusError)
    return kind(
        failure.code,
        failure.detail,
        retryable=failure.retryable,
        retry_after_ms=failure.retry_after_ms,
        facts=dict(failure.facts),
    )


STEPS_KEPT = "steps_kept"
"""The fact of a turn that ran out of time after so many steps: asked again it goes on, so nothing stands in for it."""
IN_DOUBT = "whether it was applied is not known: ask again"
_UNANSWERED = OUT_OF_TIME_CODES | {"peer_lost"}


@contextmanager
def mark_in_doubt() -> Generator[None]:
    """Mark faults in the request for a change that nobody answered: it may have been applied."""
    try:
        yield
    except RuntimeFault as fault:
        if fault.code not in _UNANSWERED:
            raise
        said = fault.as_failure().model_copy(update={"detail": f"{fault.detail}; {IN_DOUBT}"})
        raise make_fault(said) from None
