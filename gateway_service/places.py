"""How many calls a provider has at once: any number, until it says that they are too many.

A refusal for want of room (429, overload) halves what it gets at once, answers let it grow again: by a tenth a round,
and twofold as long as that stays below what it bore (AIMD with slow start). Who finds no place waits, in turns between
principals; who would wait beyond its time is refused at once, with the time to come back.

What nobody waits for (late labels, consolidations) comes behind all others, and gives its place back to them.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from msgspec import Struct

from hobus.bus.errors import GatewayError
from hobus.bus.fair import FairQueue, get_weight
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.ids import is_beside
from hobus.bus.messages.work_order import CONSOLIDATION
from hobus.bus.port import Bus
from hobus.gateway_service.limits import CALLS_MAX, FIRST_WINDOW
from hobus.gateway_service.routing import is_overload

T = TypeVar("T")
_GROWTH = 0.1
"""A round that is answered whole brings a tenth more, and one at least."""
_NEWEST_SHARE = 0.1
"""Of the mean time of a call, what the newest one says."""
_NOBODY = ""
"""Stands for the principals of calls that nobody waits for; it has no turn while anybody else waits."""


def is_awaited(prompt: Prompt) -> bool:
    """Return whether somebody waits for the prompt's answer: not for late labels, nor for consolidations."""
    return CONSOLIDATION not in prompt.domain_tags and not is_beside(prompt.work_order_id)


class Held(Struct, Generic[T], eq=False):
    """Give the value; call `on_end` with it and the exception that ends the context, if there is one.

    Without a generator, which costs each prompt nine calls more.
    """

    value: T
    on_end: Callable[[T, BaseException | None], None]

    def __enter__(self) -> T:
        return self.value

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        self.on_end(self.value, fault)


class LentPlace(Struct, eq=False):
    """What one send has; asked back from one that nobody waits for."""

    began: float
    scope: asyncio.Timeout | None = None
    """Of the send, while it is inside."""
    is_wanted: bool = False

    def ask_back(self) -> None:
        self.is_wanted = True
        if self.scope is not None and not self.scope.expired():
            self.scope.reschedule(asyncio.get_running_loop().time())

    def given_back(self) -> GatewayError | None:
        """Return how a send ends whose place was asked back; None: it was not."""
        said = "gave its place to a call that somebody waits for, and is made again after it"
        return GatewayError("CANCELLED", said, facts={"is_made_again": True}) if self.is_wanted else None


@dataclass(slots=True, eq=False, kw_only=True)
class Places:
    """The calls of one provider. `most`: at once, whatever it says (`concurrency_max`); None: any number."""

    provider_id: str
    bus: Bus
    most: int | None
    _learned: float = math.inf
    """What it bears at once; infinite as long as it has refused nothing."""
    _bore: float = math.inf
    """Below it the number doubles in a round."""
    _cut_at: float = -math.inf
    _has_answered: bool = False  # since then
    _at_work: int = 0
    _call_s: float = 0.0  # mean of those that were answered
    _waiting: FairQueue[asyncio.Future[None], asyncio.Future[None]] = field(init=False)
    _waiting_of: Counter[str] = field(default_factory=Counter[str])
    _lent: list[LentPlace] = field(default_factory=list[LentPlace])
    """To calls that nobody waits for, as long as nobody has asked them back."""

    def __post_init__(self) -> None:
        self._waiting = FairQueue(get_weight)

    @property
    def limit(self) -> float:
        """Return how many calls may be in flight, for now."""
        return min(self._learned, math.inf if self.most is None else self.most)

    def __len__(self) -> int:
        """Return how many calls wait for a place."""
        return self._waiting_of.total()

    async def enter(
        self, until: float, told: Callable[[], AbstractContextManager[None]], *, is_awaited: bool = True
    ) -> None:
        """Wait for a place, which the end of `lend` gives back. `told`: while it waits for its turn.

        Raises GatewayError(RATE_LIMITED) when there is none in time.
        """
        if self._at_work + 1 > self.limit or self._waiting:
            if is_awaited and self._lent:
                self._lent.pop().ask_back()
            with told():
                await self._wait_turn(self.bus.principal if is_awaited else _NOBODY, until)
        else:
            self._at_work += 1

    def lend(self, *, is_awaited: bool = True) -> Held[LentPlace]:
        """Hold a place for one send: how it ends says what the provider bears."""
        place = LentPlace(self.bus.clock.monotonic())
        if not is_awaited:
            self._lent.append(place)
        return Held(place, self._take_back)

    def _take_back(self, place: LentPlace, fault: BaseException | None) -> None:
        if fault is None:
            self._grow(self.bus.clock.monotonic() - place.began)
        elif isinstance(fault, GatewayError) and is_overload(fault) and place.began > self._cut_at:
            self._cut()
        if place in self._lent:
            self._lent.remove(place)
        self._at_work -= 1
        self._let_in()

    def begin_anew(self) -> None:
        """Begin small again: the provider is away, and once it is back it meets no crowd."""
        self._learned, self._bore = min(self._learned, FIRST_WINDOW), math.inf

    async def _wait_turn(self, principal: str, until: float) -> None:
        """Wait for the principal's turn."""
        left_s = until - self.bus.clock.monotonic()
        in_turns = len(self._waiting_of) - (_NOBODY in self._waiting_of)
        wait_s = self._call_s * self._waiting_of[principal] * in_turns / self.limit
        if wait_s >= left_s:
            raise self._make_no_place(wait_s)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(principal, turn, turn)
        self._waiting.hold(_NOBODY)
        self._waiting_of[principal] += 1
        try:
            async with asyncio.timeout(left_s):
                await asyncio.shield(turn)
        except BaseException as error:
            if turn.done():  # it was given its place in the same moment
                self._at_work -= 1
                self._let_in()
            else:
                self._waiting.remove(principal, turn)
                self._waits_no_more(principal)
            if isinstance(error, TimeoutError):
                raise self._make_no_place(wait_s) from None
            raise

    def _let_in(self) -> None:
        while self._at_work + 1 <= self.limit and self._waiting:
            if not self._waiting.has_turn:
                self._waiting.release(_NOBODY)
            if (taken := self._waiting.take()) is None:
                raise AssertionError("somebody waits, and nobody has a turn")
            principal, turn = taken
            self._waiting.hold(_NOBODY)
            self._waits_no_more(principal)
            self._at_work += 1
            turn.set_result(None)

    def _waits_no_more(self, principal: str) -> None:
        self._waiting_of[principal] -= 1
        if not self._waiting_of[principal]:
            del self._waiting_of[principal]

    def _cut(self) -> None:
        """Halve the limit once for all calls that were sent before; one alone was not too many."""
        if self._at_work <= 1:
            return
        self._learned = max(1.0, self._at_work // 2)
        if self._has_answered or self._bore == math.inf:
            self._bore = self._learned
        self._cut_at, self._has_answered = self.bus.clock.monotonic(), False

    def _grow(self, call_s: float) -> None:
        self._has_answered = True
        self._call_s += (call_s - self._call_s) * (_NEWEST_SHARE if self._call_s else 1.0)
        if self._at_work + 1 > self._learned:  # it is what bounds
            self._learned += 1 if self._learned < self._bore else max(1 / self._learned, _GROWTH)
        if self._learned > CALLS_MAX:
            self._learned = math.inf

    def _make_no_place(self, wait_s: float) -> GatewayError:
        setting = f" (gateway.providers.{self.provider_id}.concurrency_max)" if self.limit == self.most else ""
        return GatewayError(
            "RATE_LIMITED",
            f"no place at {self.provider_id}, which takes {self.limit:.0f} calls at once for now{setting}, becomes "
            f"free in time; ask again in {max(1.0, wait_s):.0f} s",
            facts={"no_place": True, "retry_after_ms": round(max(1.0, wait_s) * 1000)},
        )
