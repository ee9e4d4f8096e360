"""The gateway: where prompts arrive. Each runs through the pipeline of the configuration that it names (`pipeline.py`).

What the record says wins over what this process remembers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping

import structlog

from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import ConfigError, GatewayError, RuntimeFault
from hobus.bus.limits import SPOOL_RETRY_MS
from hobus.bus.messages.gateway import (
    Breakers,
    Budget,
    DegradedPrompt,
    Embed,
    Prompt,
    PromptResponse,
    ReadBreakers,
    ReadBudget,
)
from hobus.bus.port import Bus, Disk, Provider
from hobus.bus.spool import RecordKeeper, Spool
from hobus.bus.window import remember
from hobus.config import limits as config_limits
from hobus.config.recorded import Snapshots
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from hobus.gateway_service import limits, routing, vectors
from hobus.gateway_service.account import BudgetAccount
from hobus.gateway_service.breakers import BreakerDesk
from hobus.gateway_service.budget import BudgetState
from hobus.gateway_service.calls import Calls
from hobus.gateway_service.histories import Histories, SharedParts
from hobus.gateway_service.pipeline import Pipeline, Shared, refuse
from hobus.gateway_service.places import Places
from hobus.gateway_service.rates import Rates
from hobus.gateway_service.records import number_texts
from hobus.gateway_service.recovery import OwnLedger, Recovery
from hobus.gateway_service.sending import Sender, make_unavailable

_log = structlog.get_logger("gateway")

SPOOL_FILE = "prompts.spool"
_RATES = ("provider_rates", "session_rate", "on_rate_limit")
ProvidersOf = Callable[[Snapshot], Awaitable[Mapping[str, Provider]]]


class GatewayService(Actor):
    """The one process that calls models."""

    service = "gateway"
    needs = ("ledger",)

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        providers: Mapping[str, Provider],
        spool: Disk,
        providers_of: ProvidersOf | None = None,
    ) -> None:
        """Build. `providers_of`: makes those of another configuration; None: the same as under the first one."""
        self._snapshot = snapshot
        self._config = snapshot.config  # of this process, as it started
        self._first = providers
        self._providers_of = providers_of
        self._spool = Spool(spool, SPOOL_FILE)
        self._calls = Calls(limits.RECENT_CALLS_MAX)
        self._last_faults = routing.LastFaults(limits.RECENT_CALLS_MAX)
        self._places: dict[str, Places] = {}  # by provider
        self._open = asyncio.Event()
        self._pipelines: OrderedDict[str, Pipeline] = OrderedDict()  # by digest, the last few
        self._snapshot_task: asyncio.Task[None] | None = None
        self._preparing: list[asyncio.Task[None]] = []
        self._counts = Counter(sent=0, failed=0)

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, bus: Bus) -> None:
        """Read the spool; everything else waits for the ledger, in `ready`."""
        config = self._config
        self._bus = bus
        self._ledger = OwnLedger(bus, config.ledger)
        self._snapshots = Snapshots(self._snapshot, self._ledger, kept_max=config_limits.SNAPSHOTS_KEPT)
        self._spool.open()
        self._begin_preparing(self._first)
        self._keeper = RecordKeeper(
            self._ledger,
            self._spool,
            spool_after_s=limits.SPOOL_AFTER_MS / 1000,
            retry_s=SPOOL_RETRY_MS / 1000,
        )
        self._breakers = BreakerDesk(bus, self._keeper, config.gateway.breaker)
        self._recovery = Recovery(bus, self._ledger, self._spool, heard_s=config.bus.peer_timeout_ms / 1000)
        self._shared = Shared(
            bus=bus, keeper=self._keeper, calls=self._calls, breakers=self._breakers, last_faults=self._last_faults,
            histories=Histories(chars_max=limits.HISTORIES_MAX_CHARS), parts=SharedParts(),
            on_call_over=self._take_snapshot_sometimes,
        )  # fmt: skip

    async def ready(self) -> str:
        """Report ready once budgets stand as the record has them and no PROMPT_SENT is without an end."""
        if self._open.is_set():
            return ""
        try:
            self._state = await self._recovery.run()
        except RuntimeFault as fault:
            return f"ledger: {fault.code}"
        self._current = self._take(self._make(self._snapshot, self._first, self._state))
        self._open.set()
        return ""

    async def reconfigure(self, digest: str) -> None:
        """Tell budgets and judge breakers by this configuration; each prompt names its own."""
        if not self._open.is_set():
            raise GatewayError("UNAVAILABLE", "the gateway has not rebuilt its budgets yet", retryable=True)
        self._current = self._pipelines.get(digest) or await self._fetch(digest)
        self._breakers.config = self._current.config.gateway.breaker

    def _begin_preparing(self, providers: Mapping[str, Provider]) -> None:
        loop = asyncio.get_running_loop()
        self._preparing = [loop.create_task(self._prepare(each)) for each in providers.values()]

    async def _prepare(self, provider: Provider) -> None:
        """Prepare a provider beside the start: the first call finds it loaded, and an operator a fault in the log."""
        try:
            await provider.prepare()
        except GatewayError as fault:
            _log.warning("provider_unusable", provider=provider.provider_id, code=fault.code, detail=fault.detail)

    async def drain(self) -> None:
        """Wait until calls in flight have ended and their records are in the ledger, or on disk."""
        await self._calls.drain()
        if self._snapshot_task is not None:
            self._snapshot_task.cancel()
        await self._ledger.flush()

    def counters(self) -> dict[str, int]:
        counts = {
            "calls": self._calls.running_count,
            "rejected": self._shared.rejections,
            "spooled": self._keeper.spooled,
            "places_waiting": sum(map(len, self._places.values())),
        }
        if self._open.is_set():
            counts |= self._counts
            states = [row.state for row in self._breakers.rows()]
            counts |= {"breakers_open": states.count("open"), "breakers_half_open": states.count("half_open")}
        return counts

    # --- messages ---------------------------------------------------------------------------------------------------

    async def on_prompt(self, message: Prompt, call: Call) -> PromptResponse:
        return await self._answer(message, call, is_degraded=False)

    async def on_degraded_prompt(self, message: DegradedPrompt, call: Call) -> PromptResponse:
        """Answer the session host's last resort."""
        return await self._answer(message.prompt, call, is_degraded=True)

    async def on_embed(self, message: Embed, call: Call) -> PromptResponse:
        return await self._answer(vectors.make_prompt(message), call, is_degraded=False)

    async def on_read_budget(self, message: ReadBudget, call: Call) -> Budget:
        await self._wait_open(self._compute_deadline(call), is_degraded=False)
        return self._current.account.report(message.session_id)

    async def on_read_breakers(self, message: ReadBreakers, call: Call) -> Breakers:  # noqa: ARG002 - a handler's shape
        return Breakers(breakers=self._breakers.rows())

    # --- pipelines --------------------------------------------------------------------------------------------------

    async def _answer(self, prompt: Prompt, call: Call, *, is_degraded: bool) -> PromptResponse:
        try:
            await self._wait_open(self._compute_deadline(call), is_degraded=is_degraded)
            pipeline = await self._find_pipeline(prompt, is_degraded=is_degraded)
        except GatewayError as refusal:
            return refuse(self._shared, prompt, refusal, trace=call.trace, is_degraded=is_degraded)
        return await pipeline.answer(prompt, call, self._compute_deadline(call), is_degraded=is_degraded)

    async def _find_pipeline(self, prompt: Prompt, *, is_degraded: bool) -> Pipeline:
        """Return the pipeline of the prompt's configuration; the current one where it names none that is whole.

        The last resort waits for no record. Raises GatewayError(UNAVAILABLE) while the ledger is away.
        """
        digest = prompt.config_digest
        known = self._pipelines.get(digest) if digest else self._current
        if known is not None:
            return known
        try:
            return await self._fetch(digest)
        except ConfigError as fault:
            _log.warning("configuration_lost", digest=digest, detail=fault.detail)
        except RuntimeFault as fault:
            if not is_degraded:
                raise make_unavailable(fault) from None
        return self._current

    async def _fetch(self, digest: str) -> Pipeline:
        """Return the pipeline of a recorded configuration. Raises ConfigError, or the record's retryable fault."""
        snapshot = await self._snapshots.get(digest)
        providers = self._first if self._providers_of is None else await self._providers_of(snapshot)
        # Another one may have been a moment earlier: calls of one configuration share one.
        known = self._pipelines.get(digest)
        if known is not None:
            return known
        if providers is not self._first:
            self._begin_preparing(providers)
        return self._take(self._make(snapshot, providers, self._state))

    def _take(self, pipeline: Pipeline) -> Pipeline:
        """Keep the pipeline among the last few; calls under one that is kept no more end in it."""
        remember(self._pipelines, pipeline.snapshot.digest, pipeline, at_most=config_limits.SNAPSHOTS_KEPT)
        return pipeline

    def _make(self, snapshot: Snapshot, providers: Mapping[str, Provider], state: BudgetState) -> Pipeline:
        config = snapshot.config
        account = BudgetAccount(self._bus, self._keeper, snapshot, state)
        sender = Sender(
            bus=self._bus, ledger=self._ledger, keeper=self._keeper, account=account, providers=providers,
            config=config, packs=number_texts(snapshot.digest, snapshot.pack_texts()), last_faults=self._last_faults,
            on_lost=self._calls.forget, counts=self._counts,
        )  # fmt: skip
        return Pipeline(
            self._shared, snapshot, config, providers, account, sender, self._make_rates(config),
            self._make_places(config), snapshot.map_output_schemas(),
        )  # fmt: skip

    def _make_rates(self, config: AdminConfig) -> Rates:
        """Return rates that go on with another pipeline's buckets where the limits are the same."""
        for other in reversed(self._pipelines.values()):
            if all(getattr(other.config.gateway, name) == getattr(config.gateway, name) for name in _RATES):
                return other.rates
        return Rates(self._bus, config.gateway)

    def _make_places(self, config: AdminConfig) -> dict[str, Places]:
        """Return places, shared by all pipelines; a provider has as many as the newest call's configuration says."""
        for name in config.gateway.providers:
            self._places.setdefault(name, Places(provider_id=name, bus=self._bus, most=None))
        return self._places

    def _take_snapshot_sometimes(self) -> None:
        """Take a snapshot beside the calls, every `limits.SNAPSHOT_ENTRIES` entries, where the next start begins."""
        if self._recovery.is_due and (self._snapshot_task is None or self._snapshot_task.done()):
            self._snapshot_task = asyncio.get_running_loop().create_task(self._write_snapshot_beside())

    async def _write_snapshot_beside(self) -> None:
        try:
            await self._recovery.take_snapshot()
        except RuntimeFault as fault:  # the next one covers it
            _log.info("snapshot_put_off", code=fault.code)

    async def _wait_open(self, deadline: float, *, is_degraded: bool) -> None:
        """Wait until budgets are rebuilt. Raises GatewayError(UNAVAILABLE) when they cannot be in time."""
        if self._open.is_set():
            return
        config = self._config
        wait_ms = limits.SPOOL_AFTER_MS if is_degraded else config.ledger.outage_wait_ms
        try:
            async with asyncio.timeout(min(wait_ms / 1000, deadline - self._bus.clock.monotonic())):
                await self._open.wait()
        except TimeoutError:
            raise GatewayError(
                "UNAVAILABLE", "the gateway has not rebuilt its budgets from the ledger yet; ask again", retryable=True
            ) from None

    def _compute_deadline(self, call: Call) -> float:
        """Return the caller's deadline less what recording and answering take."""
        now = self._bus.clock.monotonic()
        return now + call.remaining_s(now, reserve_s=limits.REPLY_RESERVE_MS / 1000)
