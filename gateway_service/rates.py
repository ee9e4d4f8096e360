"""Rate limits of this gateway: requests and tokens per minute, per provider and per session, as token buckets.

Who comes takes its share at once and waits until it is there, within its time, or is refused with the time to come back
(`gateway.on_rate_limit`): so they go on in the order in which they came. A call that is larger than the bucket waits
until that is full, and its excess is paid by those behind it. What it reserved counts until it ends, then what it used;
a call that was never sent counts for nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.errors import GatewayError
from hobus.bus.port import Bus
from hobus.bus.record.payloads.prompts import name_session_scope
from hobus.config.sections.gateway import GatewayConfig, RateConfig
from hobus.gateway_service.limits import RECENT_CALLS_MAX
from hobus.gateway_service.records import Attempt


class Bucket(Struct, frozen=True):
    """`level` at the moment `at`: negative while calls wait for what they took."""

    level: float
    at: float
    per_s: float
    burst: float

    def refill(self, now: float) -> Bucket:
        """Return the bucket at a later moment; never above its burst."""
        level = self.level + max(0.0, now - self.at) * self.per_s
        return replace(self, level=min(self.burst, level), at=max(self.at, now))

    def wait_s(self, cost: float, now: float) -> float:
        """Return how long a call of this cost would wait now."""
        lacking = min(cost, self.burst) - self.refill(now).level
        return max(0.0, lacking / self.per_s)

    def taken(self, cost: float, now: float) -> Bucket:
        """Return the bucket after a call of this cost; a negative cost gives back."""
        bucket = self.refill(now)
        return replace(bucket, level=min(self.burst, bucket.level - cost))


_PER_MINUTE = 60


class _Share(NamedTuple):
    """What a call takes of one bucket. `setting`: which one, for who is refused."""

    bucket: tuple[str, str]
    cost: int
    setting: str


class Rates:
    """Buckets by (scope, requests or tokens); those of sessions as many as calls are remembered."""

    def __init__(self, bus: Bus, config: GatewayConfig) -> None:
        self._bus = bus
        self._config = config
        self._is_bounded = bool(config.provider_rates or config.session_rate)
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def pass_through(self, attempt: Attempt, until: float) -> AbstractAsyncContextManager[None]:
        """Pass for the time of one send. Raises GatewayError(RATE_LIMITED) if it may not be made in its time."""
        shares = self._list_shares(attempt) if self._is_bounded else []
        return self._pass(attempt, shares, until) if shares else nullcontext()

    @asynccontextmanager
    async def _pass(self, attempt: Attempt, shares: list[_Share], until: float) -> AsyncGenerator[None]:
        wait_s = self._enter(shares, until)
        try:  # whoever is cancelled while it waits gives back, too: those behind it go on sooner
            if wait_s > 0:
                await self._bus.sleep(wait_s)
            yield
        finally:
            settled = attempt.settlement
            was_sent = settled is not None and settled.was_sent
            for share in shares:
                used = 0 if settled is None or not was_sent else settled.tokens if share.bucket[1] == "tokens" else 1
                self._take(share.bucket, used - share.cost)

    def _enter(self, shares: list[_Share], until: float) -> float:
        """Take the shares; return how long to wait for them. Raises GatewayError(RATE_LIMITED)."""
        now = self._bus.clock.monotonic()
        wait_s, slowest = max((self._buckets[share.bucket].wait_s(share.cost, now), share.setting) for share in shares)
        if wait_s > 0 and (self._config.on_rate_limit == "refuse" or now + wait_s >= until):
            raise GatewayError(
                "RATE_LIMITED",
                f"{slowest} is used up; there is room in {wait_s:.1f} s",
                facts={"retry_after_ms": round(wait_s * 1000)},
            )
        for share in shares:
            self._take(share.bucket, share.cost)
        return wait_s

    def _list_shares(self, attempt: Attempt) -> list[_Share]:
        config, ask = self._config, attempt.ask
        provider_id = ask.route.provider_id
        of_provider = f"gateway.provider_rates.{provider_id}"
        limits = (
            (f"provider:{provider_id}", config.provider_rates.get(provider_id), of_provider),
            (name_session_scope(ask.prompt.session_id), config.session_rate, "gateway.session_rate"),
        )
        shares: list[_Share] = []
        for scope, rate, setting in limits:
            for kind, cost in (("requests", 1), ("tokens", attempt.reservation.tokens)):
                if rate is not None and self._ensure((scope, kind), rate):
                    shares.append(_Share((scope, kind), cost, f"{setting}.{kind}_per_minute"))
        while len(self._buckets) > max(RECENT_CALLS_MAX, len(shares)):  # never one of this very call
            self._buckets.popitem(last=False)
        return shares

    def _ensure(self, key: tuple[str, str], rate: RateConfig) -> bool:
        """Return whether there is such a limit; its bucket is there then, full at first."""
        of_requests = rate.requests_per_minute, rate.requests_burst
        of_tokens = rate.tokens_per_minute, rate.tokens_burst
        per_minute, burst = of_requests if key[1] == "requests" else of_tokens
        if per_minute is None:
            return False
        if key not in self._buckets:
            self._buckets[key] = Bucket(burst, self._bus.clock.monotonic(), per_minute / _PER_MINUTE, burst)
        self._buckets.move_to_end(key)
        return True

    def _take(self, key: tuple[str, str], cost: int) -> None:
        if key in self._buckets:
            self._buckets[key] = self._buckets[key].taken(cost, self._bus.clock.monotonic())
