"""A worker on another host: the executor of `process/roles/ho1.py`, connected over TCP and CURVE instead of a launcher.

Learn the cluster's configuration, work under it until told to end. Where the cluster goes over to another one, or comes
back under it, the worker ends its orders and executes itself anew: a copy of a process that knows secrets would know
them. Everything goes through the one connection to the broker, records too.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal, NoReturn, TypeVar, cast

import structlog

from hobus.bus import collector
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError, ConfigError
from hobus.bus.join_token import JoinToken
from hobus.bus.peer import Peer
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve_link import CurveEnds, CurveLink, Happened
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, RefusedFault, UsageFault
from hobus.launch.console.output import format_count, note, say
from hobus.launch.launcher import inherited
from hobus.launch.limits import DRAIN_SHARE, WATCH_INTERVAL_MS
from hobus.launch.logs import writing
from hobus.launch.process.roles import Made
from hobus.launch.process.roles.ho1 import make_elsewhere
from hobus.launch.worker.home import JoinedCluster, WorkerHome
from hobus.launch.worker.join import join, make_not_let_in, make_other_cluster, make_refused, read_snapshot

_FOR_EVER_S = 1e9
"""A worker waits for its cluster, whenever that comes back."""

_HOST = socket.gethostname()[:255]
T = TypeVar("T")
Ending = Literal["told", "other_config", "rotated"]
_log = structlog.get_logger()


def become_member(home: WorkerHome, token: JoinToken) -> None:
    """Make this directory a worker's of the token's cluster: enrol a key of its own by the token, once.

    Raises CommandError, ConfigError, OSError.
    """
    curve.check_available()
    with _hold(home, "worker"):
        cluster = home.cluster()
        if cluster is not None and cluster.broker_key != curve.encode_key(token.broker_key).decode():
            raise RefusedFault(
                f"{home.home.root} belongs to a worker of another cluster ({cluster.name} at {cluster.address})",
                hint="hobus worker join TOKEN --home DIR, with a directory of its own for each cluster",
            )
        if cluster is not None and home.has_key:  # which counts, whatever has become of the token
            home.joined(cluster.model_copy(update={"address": token.address}))
            return
        pair = home.pair()
        ends = CurveEnds(
            token.address, curve.encode_key(token.broker_key), curve.derive_pair(curve.encode_key(token.secret))
        )
        joined = asyncio.run(join(ends, pair, _choose_bootstrap(home).config, clock=SystemClock(), host=_HOST))
        home.joined(joined)
        say(f"joined {joined.address} as {joined.name} with the key {pair.fingerprint}")
        _log.info("joined", address=joined.address, name=joined.name, key=pair.fingerprint)


def run(home: WorkerHome, *, slots: int | None, grace_s: float | None, handed: int | None) -> int:
    """Work until told to end. Raises CommandError when it may not, ConfigError, OSError.

    `grace_s`: it is gone so long after a signal; None: after `launcher.drain_ms`. `handed`: where to read what
    `launch.given` names of the environment, once the tool processes are there. Runs itself anew, as a fresh process of
    the same number, when the cluster has another configuration.
    """
    curve.check_available()
    cluster = home.cluster()
    if cluster is None:
        raise UsageFault(
            f"no worker has joined in {home.home.root}",
            hint="on the cluster's host: hobus token create, and run the line that it prints here",
        )
    with _hold(home, cluster.name):
        environ = _work(home, cluster, slots, grace_s, handed)
    if environ is not None:
        run_anew(home, slots=slots, grace_s=grace_s, environ=environ)
    return exit_codes.OK


def run_anew(home: WorkerHome, *, slots: int | None, grace_s: float | None, environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by `hobus worker run`, with the names in `launcher.environment` alone. Raises OSError.

    `environ`: what it was given besides its own.
    """
    given = {"--home": home.home.root, "--slots": slots, "--grace": None if grace_s is None else round(grace_s, 3)}
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    inherited.execute(["worker", "run", *words], _choose_bootstrap(home).config.launcher.environment, environ)


@contextmanager
def _hold(home: WorkerHome, name: str) -> Generator[None]:
    try:
        lock = home.hold()
        try:
            with home.log.open("a", encoding="utf-8", buffering=1) as log:
                writing.configure(name, name, stream=log)
                yield
        finally:
            lock.release()
    except OSError as error:
        error.filename = error.filename or str(home.home.root)  # a full disk names no file
        raise


def _rotate(home: WorkerHome, cluster: JoinedCluster, config: AdminConfig) -> None:
    """Enrol the next key by the one before, and use it; where that fails, the cluster asks for it again."""
    try:
        asyncio.run(join(home.ends(cluster), home.next_pair(), config, clock=SystemClock(), host=_HOST))
        _use_next_key(home)
    except (CommandError, ConfigError, OSError) as fault:
        _log.warning("key_not_rotated", reason=str(fault))


def _use_next_key(home: WorkerHome) -> bool:
    if not home.use_next_key():
        return False
    fingerprint = home.pair().fingerprint
    note(f"works with another key from now on: {fingerprint}")
    _log.info("key_rotated", key=fingerprint)
    return True


def _choose_bootstrap(home: WorkerHome) -> Snapshot:
    """Return by what to connect before the cluster's configuration is known: the last one, else the shipped one."""
    return home.snapshot() or load_snapshot()


def _work(
    home: WorkerHome, cluster: JoinedCluster, slots: int | None, grace_s: float | None, handed: int | None
) -> Mapping[str, str] | None:
    """Return None when told to end; what this process was given, when it is to be run anew."""
    snapshot = asyncio.run(_Life(home, cluster, _choose_bootstrap(home)).learn())
    if snapshot is None:
        return None
    # Made before there is a loop or a socket, or anything is read that it was given: it starts its tool processes now.
    made = make_elsewhere(snapshot, slots=slots)
    environ = inherited.take(handed)
    made.give(inherited.select_by_role(snapshot.config, environ).get("ho1", {}))
    ending = asyncio.run(_Life(home, cluster, snapshot).work(made, grace_s))
    if ending == "told":
        say("stopped")
        return None
    if ending == "rotated":
        _rotate(home, cluster, snapshot.config)
    else:
        note("the cluster has another configuration now: restarting with it")
    return environ


class _Life:
    """One incarnation: its connection, and why it ends."""

    def __init__(self, home: WorkerHome, cluster: JoinedCluster, snapshot: Snapshot) -> None:
        self._home = home
        self._cluster = cluster
        self._snapshot = snapshot
        self._config = snapshot.config
        self._drained: Ending | None = None
        self._clock = SystemClock()
        self._ends = home.ends(cluster)
        self._link: CurveLink | None = None
        self._under_way: asyncio.Task[Any] | None = None
        self._fault: CommandError | None = None
        self._said = ""

    async def learn(self) -> Snapshot | None:
        """Return the cluster's configuration, however long that takes; None when told to end."""
        with self._make_peer(None) as peer:
            return await self._run_until_told(self._learn(peer))

    async def work(self, made: Made, grace_s: float | None) -> Ending:
        """Execute orders until told to end, or until the cluster runs under another configuration."""
        try:
            with self._make_peer(made) as peer:
                ending = await self._run_until_told(self._work(peer, made))
                if ending is None:
                    note("draining")
                    config = self._config.launcher
                    signalled_s = DRAIN_SHARE * (config.drain_ms / 1000 if grace_s is None else grace_s)
                    # Nobody who sent a signal waits; a second one ends it at once.
                    stopping = peer.stop(config.finish_ms / 1000 if self._drained else signalled_s)
                    if unfinished := await self._run_until_told(stopping):
                        note(f"{format_count(unfinished, 'order')} did not end in time: given back to the cluster")
                return ending or self._drained or "told"
        finally:
            await made.close()

    @contextmanager
    def _make_peer(self, made: Made | None) -> Generator[Peer]:
        """Put this incarnation on the bus; without an actor it offers nothing and works under no configuration yet."""
        zeromq = ZeroMQ(self._config.bus)
        self._link = link = CurveLink(
            zeromq, self._config.bus, self._ends, clock=self._clock, on_happened=self._on_connection_event
        )
        peer = Peer(
            made.actor if made is not None else None,
            instance=f"{self._cluster.name}@{self._clock.new_id()[:8]}",
            role="ho1",
            offers=("ho1",) if made is not None else (),
            slots=made.slots if made is not None else 0,
            token="",
            settings=self._config.bus,
            clock=self._clock,
            links={"": link},
            config_digest=self._snapshot.digest if made is not None else "",
            version=__version__,
            tools=made.tools if made is not None else (),
            host=_HOST,
        )
        try:
            yield peer
        finally:
            peer.close()
            zeromq.close()

    async def _learn(self, peer: Peer) -> Snapshot:
        await peer.start(timeout_s=_FOR_EVER_S)
        return await read_snapshot(peer, self._home)

    async def _work(self, peer: Peer, made: Made) -> Ending | None:
        """Return where the cluster has gone over to another configuration."""
        await peer.start(timeout_s=_FOR_EVER_S)
        made.begin(peer.announce)
        collector.settle()
        slots = format_count(made.slots, "slot")
        say(f"working for {self._cluster.address} as {peer.instance}: {slots}; Ctrl-C drains")
        _log.info("process_started", role="ho1", instance=peer.instance, slots=made.slots, tools=list(made.tools))
        while peer.cluster_digest in ("", self._snapshot.digest):
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_INTERVAL_MS / 1000):
                    raise await peer.failed()
        self._drained = "other_config"
        return None

    # --- how it ends ------------------------------------------------------------------------------------------------

    async def _run_until_told(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what the work gives; None when told to end first. Raises CommandError for a no of the broker."""
        task = self._under_way = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        try:
            return await work
        except BusError as fault:
            if fault.facts.get("drained"):
                self._drained = "rotated" if fault.facts["rotated"] else "told"
                return None
            code = str(fault.facts.get("refused", ""))
            if code == "other_config":
                return cast("T", code)  # an order to fetch the other one
            raise (make_refused(code, str(fault.facts["detail"])) if code else fault) from None
        except asyncio.CancelledError:
            if task is None or self._under_way is not None:
                raise  # nobody here ended it
            task.uncancel()
            if self._fault is not None:
                raise self._fault from None
            return None
        finally:
            self._under_way = None

    def _end(self, fault: CommandError | None = None) -> None:
        """End what is under way, once; with this fault, if there is one."""
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way, self._fault = None, fault

    def _on_connection_event(self, event: Happened) -> None:
        """End this worker for a refused key; whatever else happens to the connection, it is tried for ever."""
        if event.what == "refused" and self._link is not None and _use_next_key(self._home):
            # The next key was enrolled, and this worker did not hear of it.
            self._ends = self._home.ends(self._cluster)
            self._link.use(self._ends)
            return
        if event.what == "refused":
            _log.error("key_refused", key=self._ends.pair.fingerprint, address=self._ends.address)
            self._end(make_not_let_in(self._ends))
            return
        words = {
            "connected": f"connected to {self._ends.address}",
            "lost": f"the connection to {self._ends.address} is lost: trying again until it is there",
            "unreachable": f"nobody answers at {self._ends.address}: trying again until somebody does",
            "no_handshake": f"{make_other_cluster(self._ends).message}: trying again",
        }[event.what]
        # A connection that comes and goes is told as it changes; the first one is told by what follows.
        if words != self._said:
            if self._said or event.what != "connected":
                note(words)
            _log.info("connection", what=event.what, address=self._ends.address)
        self._said = words
