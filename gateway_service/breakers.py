"""The circuit breakers of this gateway, one per provider and model: asked before each send, told how it ended.

The rules are in `breaker.py`. Each change of state is recorded (BREAKER_CHANGED); a gateway that starts takes up the
newest of each from the record, so that a restart sends no crowd to a provider that is down.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Breaker as Row
from hobus.bus.messages.ledger import Entry
from hobus.bus.port import Bus
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.prompts import BreakerChanged
from hobus.bus.spool import RecordKeeper
from hobus.config.sections.gateway import BreakerConfig, Route
from hobus.gateway_service import breaker, records
from hobus.gateway_service.breaker import BreakerState, Said

_log = structlog.get_logger("gateway")
_CLOSED = BreakerState()


@dataclass(eq=False, repr=False)
class BreakerDesk:
    """Breakers by (provider, model); one that nobody asked for is closed."""

    bus: Bus
    keeper: RecordKeeper
    config: BreakerConfig
    _breakers: dict[tuple[str, str], BreakerState] = field(default_factory=dict[tuple[str, str], BreakerState])
    _said: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """What the newest fault of each said."""
    _changes: int = 0

    def restore(self, newest_first: Iterable[Entry]) -> None:
        """Each breaker as the newest of these BREAKER_CHANGED leaves it; what cannot be read leaves it closed.

        An open one stays open until it was to be tried, never longer than if it had opened now.
        """
        now, wall = self.bus.clock.monotonic(), self.bus.now()
        for entry in newest_first:
            try:
                said = payload_in(BreakerChanged, entry)
            except ValueError as fault:
                _log.error("breaker_unreadable", submission_id=entry.submission_id, detail=str(fault))
                continue
            if said is None or (key := (said.provider_id, said.model_id)) in self._breakers:
                continue
            left_s = min(max(0.0, said.until_us / 1_000_000 - wall), self.config.open_ms / 1000)
            # Half open, it was asked by nobody who could still tell.
            is_closed = said.after == "closed"
            self._breakers[key] = _CLOSED if is_closed else BreakerState("open", said.failures, until=now + left_s)

    def is_open(self, route: Route) -> bool:
        """Whether nothing passes now."""
        found = self._breakers.get(_key(route))
        return found is not None and found.state == "open" and self.bus.clock.monotonic() < found.until

    @contextmanager
    def passing(self, route: Route) -> Generator[Passage]:
        """For the time of one send. Raises GatewayError(CIRCUIT_OPEN) if it may not be made.

        Left without a word, the call says nothing about its provider.
        """
        key, now = _key(route), self.bus.clock.monotonic()
        before = self._breakers.get(key, _CLOSED)
        after, retry_after_s = breaker.entered(before, now, self.config)
        self._become(key, after, code="")
        if retry_after_s is not None:
            said = self._said.get(key, "")
            raise GatewayError(
                "CIRCUIT_OPEN",
                f"{route.provider_id}/{route.model_id} failed {before.failures} times in a row and is left alone for "
                f"{self.config.open_ms / 1000:g} s (gateway.breaker.open_ms){said and f'. It failed with: {said}'}",
                retryable=False,
                facts={"retry_after_ms": round(retry_after_s * 1000)},
            )
        passage = Passage(after.era)
        try:
            yield passage
        finally:
            if passage.said == "fault":
                self._said[key] = passage.detail
            before, now = self._breakers[key], self.bus.clock.monotonic()
            self._become(key, breaker.ended(before, passage.era, passage.said, now, self.config), code=passage.code)

    def rows(self) -> list[Row]:
        """One row per breaker that was ever asked, sorted by provider and model."""
        return [
            Row(provider_id=provider_id, model_id=model_id, state=one.state, failures=one.failures)
            for (provider_id, model_id), one in sorted(self._breakers.items())
        ]

    def _become(self, key: tuple[str, str], after: BreakerState, *, code: str) -> None:
        before = self._breakers.get(key, _CLOSED)
        self._breakers[key] = after
        if after.state != before.state:
            self._note(key, before, after, code)

    def _note(self, key: tuple[str, str], before: BreakerState, after: BreakerState, code: str) -> None:
        self._changes += 1
        _log.warning("breaker_changed", provider=key[0], model=key[1], before=before.state, after=after.state)
        wall, now = self.bus.now(), self.bus.clock.monotonic()
        until_us = round((wall + max(0.0, after.until - now)) * 1_000_000)
        payload = BreakerChanged(*key, before.state, after.state, after.failures, until_us)
        about, decision = f"{self.bus.instance}.{self._changes}", after.state.upper()
        entry = records.entry("BREAKER_CHANGED", about, payload=payload, decision=decision, reason=code, at=wall)
        self.keeper.submit(entry, keep=False)


class Passage:
    """One send that a breaker let through."""

    def __init__(self, era: int) -> None:
        self.era = era
        self.said: Said = "nothing"
        self.code = self.detail = ""

    def ended(self, fault: GatewayError | None) -> None:
        """How it ended."""
        self.said = breaker.said_by(fault)
        self.code, self.detail = ("", "") if fault is None else (fault.code, fault.detail)


def _key(route: Route) -> tuple[str, str]:
    return route.provider_id, route.model_id
