"""The circuit breakers of this gateway, one per provider and model: asked before each send, told how it ended.

The rules are in `breaker.py`. Each change of state is recorded (BREAKER_CHANGED). A gateway that starts has them
closed: what it sends in vain fails no call that can wait, and opens them again. A provider that says when it may be
asked again (Retry-After) is left alone until then, for a minute at most, or until another call of it is answered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import structlog
from msgspec import Struct

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Breaker as Row
from hobus.bus.port import Bus
from hobus.bus.record.payloads.prompts import BreakerChanged
from hobus.bus.spool import RecordKeeper
from hobus.config.sections.gateway import BreakerConfig, Route
from hobus.gateway_service import breaker, limits, records
from hobus.gateway_service.breaker import BreakerState, Said, compute_rest
from hobus.gateway_service.places import Held

_log = structlog.get_logger("gateway")
_CLOSED = BreakerState()
_NOTHING: Said = "nothing"


@dataclass(eq=False, repr=False)
class BreakerDesk:
    """Breakers by (provider, model); one that nobody asked for is closed."""

    bus: Bus
    keeper: RecordKeeper
    config: BreakerConfig
    _breakers: dict[tuple[str, str], BreakerState] = field(default_factory=dict[tuple[str, str], BreakerState])
    _said: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """What the newest fault of each said."""
    _rests: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """Until when each asked to be left alone (monotonic)."""
    _changes: int = 0
    _lines: defaultdict[tuple[str, str], _Line] = field(default_factory=lambda: defaultdict(_Line))

    def rest_s(self, route: Route) -> float | None:
        """Return when a call that finds no passage now may ask again; None: it passes."""
        key = route.provider_id, route.model_id
        before, now = self._breakers.get(key, _CLOSED), self.bus.clock.monotonic()
        rests = (self._rests.get(key, now) - now, breaker.enter(before, now, self.config)[1] or 0.0)
        return max(rests) if max(rests) > 0 else None

    def demand(self, route: Route) -> BreakerState:
        """Return the breaker after a call that passes now. Raises GatewayError(CIRCUIT_OPEN) where nothing passes."""
        key = route.provider_id, route.model_id
        before, now = self._breakers.get(key, _CLOSED), self.bus.clock.monotonic()
        if (rest_s := self.rest_s(route)) is not None:
            said, rest = self._said.get(key, ""), f"{max(round(rest_s, 1), 0.1):g} s"
            why, by = "asked to be left alone", "Retry-After"
            if before.state != "closed":
                why, by = f"failed {before.failures} times in a row", "gateway.breaker.open_ms"
            raise GatewayError(
                "CIRCUIT_OPEN",
                f"{route.provider_id}/{route.model_id} {why} and is not called for {rest} ({by})"
                f"{said and f'. It failed with: {said}'}",
                retryable=False,
                facts={"retry_after_ms": round(rest_s * 1000)},
            )
        after, _ = breaker.enter(before, now, self.config)
        return after

    async def wait_passable(self, route: Route) -> None:
        """Wait until a call may pass. Of those who wait only the first one looks, so that no crowd meets a probe."""
        line, turn = self._lines[route.provider_id, route.model_id], asyncio.get_running_loop().create_future()
        line.turns.append(turn)
        try:
            if line.turns[0] is not turn:
                await turn
            while (rest_s := self.rest_s(route)) is not None:
                line.has_moved.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(rest_s):
                        await line.has_moved.wait()
        finally:
            line.turns.remove(turn)
            if line.turns and not line.turns[0].done():
                line.turns[0].set_result(None)

    def pass_through(self, route: Route, counted: set[Route]) -> Held[Passage]:
        """Pass for the time of one send. Raises GatewayError(CIRCUIT_OPEN) if it may not be made.

        Left without a word, the call says nothing about its provider. `counted`: the models that failed this call
        before; each counts once.
        """
        after = self.demand(route)
        self._become((route.provider_id, route.model_id), after, code="")
        return Held(Passage(route, counted, after.era), self._leave)

    def _leave(self, passage: Passage, _fault: BaseException | None) -> None:
        route, said = passage.route, passage.said
        key = route.provider_id, route.model_id
        before, now = self._breakers[key], self.bus.clock.monotonic()
        if passage.said == "success" and self._rests.pop(key, None) is not None and key in self._lines:
            self._lines[key].has_moved.set()
        elif passage.rest_s:
            self._rests[key], self._said[key] = now + passage.rest_s, passage.detail
        if passage.said == "fault":
            self._said[key] = passage.detail
            said = _NOTHING if before.state == "closed" and route in passage.counted else said
            passage.counted.add(route)
        self._become(key, breaker.end_call(before, passage.era, said, now, self.config), code=passage.code)

    def rows(self) -> list[Row]:
        """Return one row per breaker that was ever asked, sorted by provider and model; a model that rests is open."""
        now = self.bus.clock.monotonic()
        return [
            Row(
                provider_id=key[0],
                model_id=key[1],
                state="open" if one.state == "closed" and self._rests.get(key, now) > now else one.state,
                failures=one.failures,
            )
            for key, one in sorted(self._breakers.items())
        ]

    def _become(self, key: tuple[str, str], after: BreakerState, *, code: str) -> None:
        before = self._breakers.get(key, _CLOSED)
        self._breakers[key] = after
        if after != before and key in self._lines:
            self._lines[key].has_moved.set()
        if after.state == before.state:
            return
        self._changes += 1
        _log.warning("breaker_changed", provider=key[0], model=key[1], before=before.state, after=after.state)
        wall, now = self.bus.now(), self.bus.clock.monotonic()
        until_us = round((wall + compute_rest(after, now, self.config)) * 1_000_000)
        payload = BreakerChanged(*key, before.state, after.state, after.failures, until_us)
        about, decision = f"{self.bus.instance}.{self._changes}", after.state.upper()
        entry = records.make_entry("BREAKER_CHANGED", about, payload=payload, decision=decision, reason=code, at=wall)
        self.keeper.submit(entry, keep=False)


class _Line(Struct, eq=False):
    """Those who wait for one model to be tried."""

    turns: deque[asyncio.Future[None]] = msgspec.field(default_factory=deque[asyncio.Future[None]])
    has_moved: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Passage(Struct, eq=False):
    """One send that a breaker let through."""

    route: Route
    counted: set[Route]
    era: int
    said: Said = "nothing"
    code: str = ""
    detail: str = ""
    rest_s: float = 0.0
    """For how long the provider asked to be left alone."""

    def ended(self, fault: GatewayError | None) -> None:
        self.said = breaker.judge_end(fault)
        self.code, self.detail = ("", "") if fault is None else (fault.code, fault.detail)
        asked_ms = fault.facts.get("retry_after_ms") if fault is not None and fault.retryable else None
        self.rest_s = min(asked_ms / 1000, limits.REST_MAX_S) if isinstance(asked_ms, int) else 0.0
