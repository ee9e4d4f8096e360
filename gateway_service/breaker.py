"""The circuit breaker of one provider and model: a pure state machine.

Closed, calls pass; `failures` of them that the provider fails in a row open it (settings: `gateway.breaker`). Open,
nothing passes until `open_ms` are over. Then it is half open: `probes` calls at most pass at a time, as many that
succeed close it, one that fails opens it anew. A bad request, a bad key and a caller that gives up say nothing about
the provider. A call that ends when the breaker is no longer in the state it was let through in says nothing any more.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.errors import GatewayError
from hobus.config.sections.gateway import BreakerConfig
from hobus.gateway_service import limits

State = Literal["closed", "open", "half_open"]
Said = Literal["success", "fault", "nothing"]
"""What the end of a call says about its provider."""

_HTTP_REQUEST_TIMEOUT = 408
_CLIENT_ERRORS = range(400, 500)
_FAULTS = frozenset({"PROVIDER_ERROR", "PROVIDER_TIMEOUT"})


class BreakerState(Struct, frozen=True):
    """`failures`: in a row. `opened_at`: when it opened (any clock, that of the events); it rests from then."""

    state: State = "closed"
    failures: int = 0
    opened_at: float = 0.0
    probes: int = 0  # half open: in flight
    successes: int = 0  # half open: of probes
    era: int = 0  # rises with every change of state


def enter(breaker: BreakerState, now: float, config: BreakerConfig) -> tuple[BreakerState, float | None]:
    """Return the breaker after a call that wants to pass; and, if it may not, the seconds after which one may."""
    if breaker.state == "closed":
        return breaker, None
    if breaker.state == "open":
        if (rest_s := compute_rest(breaker, now, config)) > 0:
            return breaker, rest_s
        return replace(_change(breaker, "half_open"), probes=1), None
    if breaker.probes >= config.probes:
        return breaker, limits.PROBE_RETRY_MS / 1000
    return replace(breaker, probes=breaker.probes + 1), None


def compute_rest(breaker: BreakerState, now: float, config: BreakerConfig) -> float:
    """Return for how many seconds nothing passes, by the settings of now; 0: a probe may, or it is not open."""
    if breaker.state != "open":
        return 0.0
    return max(0.0, breaker.opened_at + config.open_ms / 1000 - now)


def end_call(breaker: BreakerState, era: int, said: Said, now: float, config: BreakerConfig) -> BreakerState:
    """Return the breaker after the end of a call that it let through in this era."""
    if era != breaker.era:
        return breaker
    if breaker.state == "closed":
        if said == "success":
            return replace(breaker, failures=0) if breaker.failures else breaker
        if said == "nothing":
            return breaker
        failed = replace(breaker, failures=breaker.failures + 1)
        return failed if failed.failures < config.failures else _open(failed, now)
    if said == "fault":
        failed = replace(breaker, failures=breaker.failures + 1)
        return _open(failed, now) if failed.failures >= config.failures else _change(failed, "closed")
    successes = breaker.successes + (said == "success")
    if successes >= config.probes:
        return replace(_change(breaker, "closed"), failures=0)
    return replace(breaker, probes=breaker.probes - 1, successes=successes)


def _open(breaker: BreakerState, now: float) -> BreakerState:
    return replace(_change(breaker, "open"), opened_at=now)


def _change(breaker: BreakerState, state: State) -> BreakerState:
    return replace(breaker, state=state, probes=0, successes=0, era=breaker.era + 1)


def judge_end(fault: GatewayError | None) -> Said:
    """Return what a call that ended so says about its provider; None: it was answered.

    A provider's answer with a client's error (fact `status`, 4xx) is about the request.
    """
    if fault is None:
        return "success"
    status = fault.facts.get("status")
    if isinstance(status, int) and status in _CLIENT_ERRORS and status != _HTTP_REQUEST_TIMEOUT:
        return "nothing"
    return "fault" if fault.code in _FAULTS else "nothing"
