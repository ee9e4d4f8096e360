"""One seed, from its plan to its verdict. Same arguments, same bytes, on any machine and hash seed."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.gateway import Breakers, Budget, ReadBreakers, ReadBudget
from hobus.bus.port import Bus
from hobus.bus.sim.clock import make_draw
from hobus.bus.sim.weather import Weather
from hobus.bus.sim.world import SimulationFailed, World
from hobus.config.files import SHIPPED_ALONE, Layers
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.launch.lab.simulated import SimulatedCluster
from hobus.launch.lab.simulation.conversation import ASK_S, Clients
from hobus.launch.lab.simulation.outside import Model, Outside, with_tools
from hobus.launch.lab.simulation.plan import SeedPlan
from hobus.launch.lab.simulation.record import Broken, answer_text, list_answers, must
from hobus.launch.lab.simulation.strikes import Striker
from hobus.launch.lab.simulation.watch import EventWatch

REST_S = 120.0
"""By then everything that was begun has its end in the record."""
MISSED_S = ASK_S
"""A single frame that was lost is missed only at its request's deadline; until then its connection is as if away."""
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedVerdict:
    """What came of one seed."""

    seed: int
    holds: bool
    broken: str  # the invariant; empty if all held
    stopped: bool  # by `until`, before the end
    event: int  # the one at which it ended
    events: int
    entries: int
    strikes: int
    virtual_s: float
    answers: dict[str, str]  # input -> outcome, or what it was told in the end
    digest: str
    story: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    last: list[str] = field(default_factory=list[str])


def simulate(
    plan: SeedPlan,
    *,
    layers: Layers = SHIPPED_ALONE,
    until: int | None = None,
    trace: Callable[[str], None] | None = None,
) -> SeedVerdict:
    """Run the plan to its end, to the first broken invariant, or to event `until`.

    `layers`: where its governed files are beside those that are shipped. Raises ConfigError.
    """
    return _Run(plan, layers, until, trace).run()


class _Run:
    def __init__(self, plan: SeedPlan, layers: Layers, until: int | None, trace: Callable[[str], None] | None) -> None:
        self._plan = plan
        self._layers = layers
        self._until = until
        self._trace = trace
        self._draw = make_draw(plan.seed, "weather")
        self._watch: EventWatch
        self._striker: Striker | None = None
        self._conversation: Clients | None = None
        self._models: list[Model] = []
        self._outside = Outside(self._report)

    def run(self) -> SeedVerdict:
        plan, tools = self._plan, self._outside.tools()
        snapshot = with_tools(_make_snapshot(self._layers, plan.token_limit, beside=plan.labels_s is not None), *tools)
        self._models = [
            Model(
                OfflineProvider(
                    provider_id=provider_id,
                    latency_ms=plan.thinking_ms,
                    chars_per_token=snapshot.config.attention.chars_per_token,
                    sleep=asyncio.sleep,
                ),
                self._draw,
                errors=plan.faults.get("provider-error", 0.0),
                slow_s=plan.faults.get("slow-provider", 0.0),
                labels_s=plan.labels_s or 0.0,
                is_sent=self._is_sent,
                report=self._report,
            )
            for provider_id in sorted(snapshot.config.gateway.providers)
        ]
        world: World | None = None

        def prepare(made: World) -> None:
            nonlocal world
            world = made
            self._watch = EventWatch(made, until=self._until, trace=self._trace)
            made.on_ended = self._note_end

        broken = ""
        collects = gc.isenabled()
        gc.disable()  # a run is short; and what is collected when must not depend on what ran before
        try:
            with SimulatedCluster(
                snapshot,
                seed=plan.seed,
                ho1=plan.ho1,
                ho2=plan.ho2,
                providers={model.provider_id: model for model in self._models},
                tools={**BUILTIN, **{tool.tool_id: tool for tool in tools}},
                prepare=prepare,
            ) as cluster:
                cluster.world.run(self._run_live(cluster))
                must(cluster.verify().ok, "the record does not verify")
        except Broken as found:
            broken = str(found)
        except SimulationFailed as failed:
            broken = "" if self._watch.is_stopped else str(self._watch.broken or failed)
        except BaseExceptionGroup as group:
            found = _find_broken(group)
            if found is None:
                raise
            broken = str(found)
        finally:
            if collects:
                gc.enable()
        assert world is not None  # noqa: S101 - the cluster was made
        return self._make_verdict(world, broken)

    async def _run_live(self, cluster: SimulatedCluster) -> None:
        plan, world = self._plan, cluster.world
        self._striker = striker = Striker(cluster, self._watch, self._draw, plan.strikes)
        self._conversation = conversation = Clients(cluster, self._watch, striker.asked)
        world.network.weather = self._make_weather()
        await conversation.hold(plan.sessions)
        while world.loop.time() < striker.healed_at:  # noqa: ASYNC110 - waiting costs nothing in virtual time
            await asyncio.sleep(striker.healed_at - world.loop.time() + _LOOK_S)
        self._watch.note("fair weather: nothing more goes wrong")
        striker.heal()
        for model in self._models:
            model.errors = 0.0
        if plan.faults.get("frame-loss"):
            await asyncio.sleep(MISSED_S)
        await world.settled()
        operator = cluster.world.client("operator", lanes=())
        await _wait_models_asked(operator, cluster.snapshot.config)
        await conversation.again(plan.sessions)
        await self._wait_rest(world, operator, conversation)
        self._compare_answers(conversation)
        self._outside.compare(conversation.told.values())
        self._watch.tail.check_kept()
        self._watch.record.finish()

    async def _wait_rest(self, world: World, operator: Bus, conversation: Clients) -> None:
        """Wait until whatever was begun ends, what was told is recorded, and the gateway's figures are the record's.

        Nobody may be left alone with any of it.
        """
        deadline = world.loop.time() + REST_S
        while True:
            while unended := self._list_unended(conversation):
                must(world.loop.time() < deadline, f"after {REST_S:g} s of fair weather nothing has ended {unended[0]}")
                await asyncio.sleep(_LOOK_S)
            try:
                budget = await operator.request("gateway", ReadBudget(), expect=Budget, timeout_s=10)
                self._watch.budgets.compare(budget.scopes)
            except (Broken, RuntimeFault) as fault:  # a call of a background order, or a gateway that comes back
                if world.loop.time() >= deadline:
                    raise Broken(f"after {REST_S:g} s of fair weather: {fault}") from None
            else:
                if not self._list_unended(
                    conversation
                ):  # a background order may call while the figures are on their way
                    return
            await asyncio.sleep(_LOOK_S)

    def _list_unended(self, conversation: Clients) -> list[str]:
        """Return what was begun, and answers that only the host's own disk has until the ledger is asked again."""
        return [*self._watch.record.list_unended(), *self._list_unlike(conversation)]

    def _list_unlike(self, conversation: Clients) -> list[str]:
        return [
            f"{input_id}: told {told.response[:80]!r}, recorded {recorded!r}"
            for input_id, told in conversation.told.items()
            if (recorded := answer_text(self._watch.entries, input_id)) != told.response
        ]

    def _compare_answers(self, conversation: Clients) -> None:
        for input_id in conversation.told:
            found = list_answers(self._watch.entries, input_id)
            must(len(found) <= 1, f"{input_id} has {len(found)} answers in the record: {', '.join(found)}")
        must(not (unlike := self._list_unlike(conversation)), "; ".join(unlike))

    def _make_weather(self) -> Weather:
        faults = self._plan.faults
        slow = {} if self._plan.slow_link is None else {self._plan.slow_link: faults["slow-link"]}
        return Weather(
            draw=self._draw,
            loss=faults.get("loss", 0.0),
            frame_loss=faults.get("frame-loss", 0.0),
            duplicate=faults.get("duplicate", 0.0),
            delay_s=faults.get("delay", 0.0),
            reorder=faults.get("reorder", 0.0),
            slow=slow,
        )

    def _is_sent(self, call_key: str, calls: int) -> bool:
        return self._watch.is_sent(call_key, calls)

    def _report(self, broken: Broken) -> None:
        self._watch.report(broken)

    def _note_end(self, instance: str, reason: BaseException) -> None:
        if self._striker is None:
            self._watch.report(Broken(f"{instance} did not start: {reason!r}"))
        else:
            self._striker.ended(instance, reason)

    def _make_verdict(self, world: World, broken: str) -> SeedVerdict:
        watch, conversation = self._watch, self._conversation
        answers = {} if conversation is None else dict(conversation.faults)
        answers |= {} if conversation is None else {name: told.outcome for name, told in conversation.told.items()}
        told = [] if conversation is None else [f"{name} {one.response}" for name, one in conversation.told.items()]
        digest = hashlib.sha256("\n".join([world.trace_digest(), watch.tail.chain, *told]).encode()).hexdigest()
        return SeedVerdict(
            seed=self._plan.seed,
            holds=not broken,
            broken=broken,
            stopped=watch.is_stopped,
            event=watch.events,
            events=watch.events,
            entries=watch.tail.entries,
            strikes=0 if self._striker is None else self._striker.struck,
            virtual_s=round(world.loop.time(), 6),
            answers=dict(sorted(answers.items())),
            digest=digest,
            story=watch.story,
            last=watch.last(),
        )


async def _wait_models_asked(operator: Bus, config: AdminConfig) -> None:
    """Wait until a circuit breaker that faults have opened lets its model be asked again."""
    try:
        breakers = (await operator.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=10)).breakers
        is_open = any(one.state == "open" for one in breakers)
    except RuntimeFault:  # a gateway that comes back, and takes up what its predecessor left open
        is_open = True
    if is_open:
        await asyncio.sleep(config.gateway.breaker.open_ms / 1000)


def _find_broken(group: BaseExceptionGroup[BaseException]) -> Broken | None:
    for error in group.exceptions:
        if isinstance(error, Broken):
            return error
        if isinstance(error, BaseExceptionGroup) and (inner := _find_broken(error)) is not None:
            return inner
    return None


@functools.lru_cache(maxsize=32)
def _make_snapshot(layers: Layers, token_limit: int | None, *, beside: bool) -> Snapshot:
    """Return the configuration with an enforced limit of tokens, and agents that classify beside their answers."""
    snapshot = _freeze(layers)
    if beside:
        agents = {name: one.model_copy(update={"classification": "beside"}) for name, one in snapshot.agents.items()}
        snapshot = dataclasses.replace(snapshot, agents=agents)
    config = snapshot.config.model_dump(mode="json")
    if token_limit is not None:
        config["budget"] |= {"budget_mode": "enforce", "session_token_limit": token_limit}
    return dataclasses.replace(snapshot, config=AdminConfig.model_validate(config))


@functools.lru_cache(maxsize=1)
def _freeze(layers: Layers) -> Snapshot:
    return load_snapshot(layers)
