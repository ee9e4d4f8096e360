"""Calls by idempotency key: a completed one answers again, one in flight is joined.

What stands here is a window over the record, never its replacement: a key that has left it is found in the ledger by
its once keys. A call runs in a task of its own, kept here, so that one waiter's end does not end the others'.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from itertools import islice

from msgspec import Struct, field

from hobus.bus.dispatch import Call
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.streaming import Draft
from hobus.config.sections.gateway import Route
from hobus.gateway_service.limits import TOLD_AFTER_S
from hobus.gateway_service.pricing import TOKENS_MAX


class Failed(Struct):
    """What the sends of a call used that did not answer it; money is unknown as soon as that of one of them is."""

    sends: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, fault: GatewayError, cost_usd: float | None) -> None:
        self.sends += 1
        self.input_tokens = _add_tokens(self.input_tokens, fault.facts.get("input_tokens"))
        self.output_tokens = _add_tokens(self.output_tokens, fault.facts.get("output_tokens"))
        self.cost_usd = None if self.cost_usd is None or cost_usd is None else round(self.cost_usd + cost_usd, 9)


class InFlight(Struct, eq=False):
    """One running call. `deadline` (monotonic) is the latest of all who wait for it."""

    key: str
    digest: bytes
    deadline: float
    draft: Draft
    task: asyncio.Task[PromptResponse] | None = None
    waiters: int = 0
    was_sent: bool = False  # a provider was called for it, whatever came of that
    provider_fault: GatewayError | None = None  # of its newest send, if one that others are asked after
    failed: Failed = field(default_factory=Failed)
    counted: set[Route] = field(default_factory=set[Route])
    """Models whose breakers were told that they failed it."""

    @contextmanager
    def tell_waiting(self) -> Generator[None]:
        """Tell who listens, within this context, that the call waits for its provider, if it does for long."""
        telling = asyncio.get_running_loop().call_later(TOLD_AFTER_S, self.draft.wait, "Provider")
        try:
            yield
        finally:
            telling.cancel()
            self.draft.wait(None)


NOTHING_SENT = b""
"""The digest of no request."""


class _Recent(Struct):
    digest: bytes
    attempts: int = 0
    response: PromptResponse | None = None


class Calls:
    """Running calls, and the most recent ones with their attempt numbers and answers."""

    def __init__(self, recent_max: int) -> None:
        self._recent_max = recent_max
        self._running: dict[str, InFlight] = {}
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    @property
    def running_count(self) -> int:
        return len(self._running)

    async def answer(
        self,
        key: str,
        digest: bytes,
        deadline: float,
        run: Callable[[InFlight], Coroutine[None, None, PromptResponse]],
        *,
        asked_by: Call,
    ) -> PromptResponse:
        """Return the remembered answer of this key, or that of its running call, or that of a new one made by `run`.

        Who asked is told what the running call says, from its beginning; who comes in its place, again. Raises
        GatewayError(INVALID_INPUT) when the key stands for another request. Cancelling the last waiter cancels the
        call.
        """
        recent = self._recent.get(key)
        if recent is not None and recent.digest not in (digest, NOTHING_SENT):
            raise make_key_conflict(key)
        if recent is not None and recent.response is not None:
            self._recent.move_to_end(key)
            return recent.response
        call = self._running.get(key)
        if call is None:
            call = self._start(key, digest, deadline, run)
        call.deadline = max(call.deadline, deadline)
        asked_by.on_attached(call.draft.repeat)
        with call.draft.watched(asked_by.stream):
            return await self._wait(call)

    def count_attempt(self, key: str) -> int:
        """Return the number of the next attempt; no number is given twice while the key is in the window."""
        recent = self._recent[key]
        recent.attempts += 1
        return recent.attempts

    def remember(self, key: str, response: PromptResponse) -> None:
        """Remember the answer of the key."""
        if (recent := self._recent.get(key)) is not None:
            recent.response = response

    def take_back(self, key: str) -> None:
        """Forget that nothing was, or will be, sent under this key for this request: another one may come."""
        if (recent := self._recent.get(key)) is not None:
            recent.digest = NOTHING_SENT

    def forget(self, key: str) -> None:
        """Forget the key, of which the record decided otherwise: its next request reads it there."""
        if key not in self._running:
            self._recent.pop(key, None)

    async def drain(self) -> None:
        """Wait until every running call has ended."""
        tasks = [call.task for call in self._running.values() if call.task is not None]
        await asyncio.gather(*(asyncio.shield(task) for task in tasks), return_exceptions=True)

    def _start(
        self, key: str, digest: bytes, deadline: float, run: Callable[[InFlight], Coroutine[None, None, PromptResponse]]
    ) -> InFlight:
        call = self._running[key] = InFlight(key, digest, deadline, Draft())
        if key in self._recent:
            self._recent.move_to_end(key)
            self._recent[key].digest = digest
        else:
            self._recent[key] = _Recent(digest)
            self._evict()
        call.task = asyncio.get_running_loop().create_task(run(call))
        call.task.add_done_callback(lambda _task: self._on_end(call))
        return call

    async def _wait(self, call: InFlight) -> PromptResponse:
        assert call.task is not None  # noqa: S101 - set where the call was made
        call.waiters += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiters -= 1
            if not call.waiters and not call.task.done():
                self._on_end(call)
                call.task.cancel()

    def _on_end(self, call: InFlight) -> None:
        if self._running.get(call.key) is call:
            del self._running[call.key]

    def _evict(self) -> None:
        excess = len(self._recent) - self._recent_max
        if excess <= 0:
            return
        ended = (key for key in self._recent if key not in self._running)
        for key in list(islice(ended, excess)):
            del self._recent[key]


def make_key_conflict(key: str) -> GatewayError:
    """Return the refusal of a key that stands for another request."""
    return GatewayError("INVALID_INPUT", f"idempotency key {key[:120]} stands for a different request; use a new key")


def _add_tokens(tokens: int, more: object) -> int:
    """Add tokens; what a provider tells may be no number, or one that no message holds."""
    return min(tokens + more, TOKENS_MAX) if isinstance(more, int) and more > 0 else tokens
