"""A whole cluster in one process, in virtual time: the same actors, peers, lanes and broker core as in real processes.

    world = World(settings)
    world.start(Memory(), role="ho3", slots=1)
    answer = world.run(world.client("ho2").request("ho3", ReadSignals(...), expect=Signals, timeout_s=1))

Processes can be killed and frozen, the broker too (`network`). A seed draws every id and every random value; same seed,
same bytes (`trace_digest`), on any machine and hash seed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct

from hobus.bus import limits
from hobus.bus.dispatch import Actor
from hobus.bus.errors import RuntimeFault
from hobus.bus.lane_server import LaneServer
from hobus.bus.lanes import BESIDE_BROKER, LANES, LEASE_HOLDERS, list_lanes
from hobus.bus.messages.control import Hello, Refused
from hobus.bus.peer import Peer
from hobus.bus.sim.clock import SimClock
from hobus.bus.sim.disk import SimDisk, SimMedium
from hobus.bus.sim.loop import VirtualLoop
from hobus.bus.sim.network import DELAY_S, SimNetwork
from hobus.bus.sim.process import SimProcess

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

T = TypeVar("T")

EPOCH_S = 1_767_225_600.0
"""Wall-clock time at virtual 0: 2026-01-01T00:00:00Z."""
VIRTUAL_LIMIT_S = 3600.0
"""A simulated run that takes longer hangs."""
DISK_BYTES = 1 << 30
"""Room on a simulated medium unless a test says otherwise."""


class SimulationFailed(AssertionError):
    """Say that a task or callback of the simulation failed, or that it did not end in virtual time."""


class Started(Struct):
    """One simulated process that runs a peer."""

    process: SimProcess
    peer: Peer
    starting: asyncio.Task[None]
    disk: SimDisk | None


class World:
    """Hold a simulated cluster: broker, network, media, processes. Use as a context manager, or call `close`."""

    def __init__(self, settings: BusSettings, *, seed: int = 0, config_digest: str = "") -> None:
        self.settings = settings
        self.seed = seed
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._note_error)
        self.errors: list[str] = []
        self.wall_epoch_s = EPOCH_S
        """Wall-clock time at virtual 0, the same for all processes; setting it is setting the machine's clock."""
        self.on_ended: Callable[[str, BaseException], None] | None = None
        """Told of an incarnation that cannot start or go on, as a launcher is; None: that is a failed simulation."""
        self._running: asyncio.Task[Any] | None = None
        self.media: dict[str, SimMedium] = {}
        self.processes: dict[str, Started] = {}
        self._config_digest = config_digest
        self._counts: dict[str, int] = {}
        self._buried: list[SimProcess] = []
        clock = SimClock(self.loop, seed=seed, name="network", epoch_s=self._compute_epoch)
        self.network = SimNetwork(
            self.loop, settings, self._authenticate, epoch="sim1", epoch_s=self._compute_epoch, draw=clock.random
        )

    def _compute_epoch(self) -> float:
        return self.wall_epoch_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _authenticate(self, hello: Hello) -> Refused | None:
        """Check a simulated launcher's token: one per incarnation, valid while that lives."""
        started = self.processes.get(hello.instance)
        if started is None or not started.process.is_alive or hello.token != _derive_token(hello.instance):
            return Refused(code="bad_token", detail=f"{hello.instance} has no valid token")
        return None

    # --- processes --------------------------------------------------------------------------------------------------

    def disk(self, name: str) -> SimDisk:
        """Return the disk port of the next incarnation on the medium `name`, for the actor and for `start`."""
        return SimDisk(self.media.setdefault(name, SimMedium(DISK_BYTES)))

    def name_instance(self, role: str) -> str:
        """Return a fresh instance name, `<role>/<n>@<incarnation>`, counted."""
        self._counts[role] = self._counts.get(role, 0) + 1
        return f"{role}/{self._counts[role]}@s{self._counts[role]}"

    def start(  # noqa: PLR0913 - what a launcher says of a process
        self,
        actor: Actor | None,
        *,
        role: str,
        instance: str | None = None,
        slots: int = 0,
        lanes: Sequence[str] | None = None,
        tools: Sequence[str] = (),
        disk: SimDisk | None = None,
        start_timeout_s: float = VIRTUAL_LIMIT_S,
    ) -> Peer:
        """Start a process that runs this actor; it connects once the loop runs.

        With an actor it offers its role's service, and binds the lane of that if it has one. `lanes`: services it has
        a lane to; those of its role unless said otherwise.
        """
        instance = instance or self.name_instance(role)
        offered = [role] if actor is not None else []
        process = SimProcess(instance)
        clock = SimClock(self.loop, seed=self.seed, name=instance, epoch_s=self._compute_epoch)
        connects_to = ["", *(lanes if lanes is not None else list_lanes(role))]
        links = {name: self.network.connect(process, name) for name in connects_to}
        peer = Peer(
            actor, instance=instance, role=role, offers=offered, slots=slots, token=_derive_token(instance),
            settings=self.settings, clock=clock, links=links, config_digest=self._config_digest, version="sim",
            tools=tools,
        )  # fmt: skip
        for service in offered:
            if service in LANES or service in BESIDE_BROKER:
                server = LaneServer(instance, self.settings, clock, self._authenticate)
                peer.serve_lane(server)
                self.network.bind_lane(process, server)
        if role in LEASE_HOLDERS and actor is not None:
            peer.connect = partial(self.network.connect, process)
        starting = self.loop.create_task(peer.start(timeout_s=start_timeout_s), context=process.context)
        starting.add_done_callback(partial(self._start_ended, instance))
        if self.on_ended is not None:
            watching = self.loop.create_task(_end_of(actor, peer, starting), context=process.context)
            watching.add_done_callback(partial(self._watch_ended, instance), context=contextvars.Context())
        self.processes[instance] = Started(process, peer, starting, disk)
        return peer

    def client(self, role: str, *, lanes: Sequence[str] | None = None) -> Peer:
        """Return the bus of a process without an actor (a door, an operator, a stand-in of any role)."""
        return self.start(None, role=role, lanes=lanes)

    def _start_ended(self, instance: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and self.on_ended is None:
            self.errors.append(f"{instance} did not start: {task.exception()!r}")

    def _watch_ended(self, instance: str, task: asyncio.Task[BaseException]) -> None:
        if self.on_ended is not None and not task.cancelled() and instance in self.processes:
            self.on_ended(instance, task.exception() or task.result())

    def kill(self, instance: str) -> None:
        """Kill a process as SIGKILL does: no task steps again; connections, disk and token are dead."""
        started = self.processes.pop(instance)
        started.process.kill()
        if started.disk is not None:
            started.disk.kill()
        self._buried.append(started.process)

    def freeze(self, instance: str) -> None:
        """Freeze a process as SIGSTOP does: connections stay; what is due and what arrives waits for the thaw."""
        self.processes[instance].process.is_frozen = True

    def thaw(self, instance: str) -> None:
        """Thaw a process as SIGCONT does, if it still lives."""
        started = self.processes.get(instance)
        if started is not None and started.process.is_frozen:
            started.process.thaw()

    async def stop(self, instance: str, drain_s: float) -> None:
        """Stop a process as SIGTERM does: it drains and leaves."""
        started = self.processes[instance]
        await self.loop.create_task(started.peer.stop(drain_s), context=started.process.context)
        self.kill(instance)

    async def settled(self) -> None:
        """Every process that was started is ready, degraded, or failed to start, and the broker has heard of all."""
        while (self._any_starting() or self.network.is_collecting) and not self.errors:  # noqa: ASYNC110 - waiting costs nothing in virtual time
            await asyncio.sleep(limits.PROBE_INTERVAL_MS / 1000)
        await asyncio.sleep(2 * DELAY_S)  # the broker knows it, too

    def _any_starting(self) -> bool:
        return any(started.peer.state[0] == "starting" for started in self.processes.values())

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in virtual time and return its result; the next run goes on from there."""
        try:
            result = self.loop.run_until_complete(self._run_bounded(coroutine))
        except asyncio.CancelledError:
            if self.errors:
                raise SimulationFailed("; ".join(self.errors)) from None
            raise
        except BaseException as error:
            for note in self.errors:
                error.add_note(note)
            raise
        if self.errors:
            raise SimulationFailed("; ".join(self.errors))
        return result

    async def _run_bounded(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._running = asyncio.current_task()
        timer = self.loop.call_later(VIRTUAL_LIMIT_S, self.fail, f"not done after {VIRTUAL_LIMIT_S} virtual seconds")
        try:
            return await coroutine
        finally:
            timer.cancel()
            self._running = None

    def fail(self, what: str) -> None:
        """End the run here, with SimulationFailed or what the run makes of its cancel."""
        self.errors.append(what)
        if self._running is not None:
            self._running.cancel()

    def _note_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.fail(f"{context.get('message')}: {error!r}")
        if error is not None and not isinstance(error, Exception):
            self.loop.stop()  # a test runner's time-out came up in a callback; the loop would go on for ever

    def trace_digest(self) -> str:
        """Return SHA-256 over every frame delivered so far."""
        return self.network.trace_digest()

    def close(self) -> None:
        if self.loop.is_closed():
            return
        for instance in list(self.processes):
            self.kill(instance)
        for process in self._buried:
            process.bury()
        self.loop.close()


async def _end_of(actor: Actor | None, peer: Peer, starting: asyncio.Task[None]) -> BaseException:
    """Wait until this incarnation cannot start or go on, and return why."""
    try:
        await asyncio.shield(starting)
    except (RuntimeFault, OSError) as fault:
        return fault
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def end(known: asyncio.Future[BaseException]) -> None:
        if not known.cancelled() and not ended.done():
            ended.set_result(known.result())

    own: asyncio.Future[BaseException] | None = getattr(actor, "failed", None)
    if own is not None:
        own.add_done_callback(end)
    failing = asyncio.get_running_loop().create_task(peer.failed())
    failing.add_done_callback(end)
    return await ended


def _derive_token(instance: str) -> str:
    return f"token of {instance}"
