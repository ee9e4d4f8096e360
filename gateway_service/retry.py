"""Whether and when a failed send is tried again. Pure."""

from __future__ import annotations

from hobus.bus.errors import GatewayError
from hobus.config.schema import GatewayConfig

_UNKNOWN_CODES = frozenset({"PROVIDER_TIMEOUT", "UNKNOWN_OUTCOME"})


def is_unknown(fault: GatewayError) -> bool:
    """Whether nobody knows if the provider worked after this fault (it may say so itself, by the fact `unknown`)."""
    return fault.code in _UNKNOWN_CODES or fault.facts.get("unknown") is True


def may_try_again(fault: GatewayError, sends: int, config: GatewayConfig) -> bool:
    """Whether another attempt may follow after `sends` sends of this request.

    A fault after which nobody knows whether the provider worked is tried again only where
    `gateway.on_unknown_outcome` says so.
    """
    if sends >= config.attempts_max or not fault.retryable:
        return False
    return not is_unknown(fault) or config.on_unknown_outcome == "resend"


def pause_s(fault: GatewayError, sends: int, config: GatewayConfig, draw: float) -> float:
    """Seconds before the next attempt: exponential, jitter in its upper half, at least the provider's retry-after."""
    step = min(config.backoff_max_ms, config.backoff_min_ms * 2 ** (sends - 1)) / 1000
    asked = fault.facts.get("retry_after_ms")
    return max(step * (0.5 + draw / 2), asked / 1000 if isinstance(asked, int) else 0.0)
