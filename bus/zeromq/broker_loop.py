"""The broker's process: one thread, one poller, no asyncio. The rules are `bus/broker`'s.

ROUTER with MANDATORY, sends that never block, hand-over off (two connections never share a routing id; principals
come from hello), linger 0, a receive limit. A send that would block is an alarm, not a path: it is counted and the
peer is treated as lost, so that its work goes elsewhere.
"""

from __future__ import annotations

import math
import select
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from hobus.bus import collector, limits
from hobus.bus.broker.core import BrokerCore
from hobus.bus.broker.enrolment import Authenticate
from hobus.bus.broker.events import (
    LOCAL,
    Action,
    Connected,
    ConnectionLost,
    CutKey,
    CutOff,
    Event,
    FrameGarbage,
    FrameReceived,
    Origin,
    Send,
    Tick,
    UnknownKey,
)
from hobus.bus.broker.tap_record import Tap
from hobus.bus.errors import ConfigError
from hobus.bus.log import Logger
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import ZeroMQ, restrict_ipc
from hobus.bus.zeromq.drained import (
    EVENTS,
    MANY,
    NOBLOCK,
    NOBLOCK_MORE,
    POLLIN,
    make_option_reader,
    make_receiver,
    make_sender,
)
from hobus.bus.zeromq.key_book import KeyFiles
from hobus.bus.zeromq.remote_router import MARK, RemoteRouter
from hobus.bus.zeromq.tap import TapPublisher
from hobus.bus.zeromq.tokens import TokenDirectory, refuses_a_stranger

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

MayStop = Callable[[list[str]], bool]
"""Asked, once its descriptor has spoken, with the instances that are bound: may the broker end now?"""

_log = Logger("bus")
_SOCKET_IS_GONE = (zmq.ETERM, zmq.ENOTSOCK)  # whatever it is, it is not one peer's
_PARTS = 3  # routing id, header, body
_PROBE_PARTS = 2  # routing id, nothing: what PROBE_ROUTER sends on a new connection
_LOOPBACK = ("tcp://127.0.0.1:", "tcp://localhost:", "tcp://[::1]:")


def run_broker(  # noqa: PLR0913 - what a broker's process is made of
    *,
    settings: BusSettings,
    endpoint: str,
    tap_endpoint: str,
    epoch: str,
    tokens: TokenDirectory,
    clock: Clock,
    stops: Mapping[int, MayStop],
    expected: Iterable[str] | None = None,
    on_ready: Callable[[], None] = lambda: None,
    remote: tuple[str, KeyFiles] | None = None,
    config_digest: str = "",
) -> None:
    """Run the broker until a descriptor of `stops` is readable or hung up and its predicate says that it may end.

    `expected`: see BrokerCore. `remote`: the `HOST:PORT` where workers elsewhere connect, and their keys. `on_ready` is
    called once all sockets are bound. Raises ConfigError for an endpoint that others could reach, for sockets that
    cannot be bound, and when the start-up self-test finds that a stranger would be let in.
    """
    if not refuses_a_stranger(tokens.authenticate):
        raise ConfigError("the broker does not start: a random token was accepted")
    check_private(endpoint, tap_endpoint)
    loop = BrokerLoop(
        settings=settings, endpoint=endpoint, tap_endpoint=tap_endpoint, epoch=epoch,
        authenticate=tokens.authenticate, clock=clock, stops=stops, remote=remote, config_digest=config_digest,
        expected=expected,
    )  # fmt: skip
    try:
        loop.check_strangers()
        on_ready()
        loop.run()
    finally:
        loop.close()


def check_private(endpoint: str, tap_endpoint: str) -> None:
    """Raise ConfigError unless only this user reaches the tap, and only this machine the broker."""
    if not tap_endpoint.startswith("ipc://"):
        raise ConfigError(f"the tap must be an ipc socket in a private directory, not {tap_endpoint}")
    if not endpoint.startswith(("ipc://", *_LOOPBACK)):
        raise ConfigError(f"{endpoint} can be reached from outside: bind ipc or loopback, or by CURVE (bus.listen)")
    for address in (endpoint, tap_endpoint):
        if address.startswith("ipc://"):
            folder = Path(address.removeprefix("ipc://")).parent
            if not folder.is_dir() or folder.stat().st_mode & 0o077:
                raise ConfigError(f"the directory {folder} of a socket must exist with mode 0700 (chmod 700)")


class BrokerLoop:
    """Two bound sockets and the core between them."""

    def __init__(  # noqa: PLR0913 - see run_broker
        self,
        *,
        settings: BusSettings,
        endpoint: str,
        tap_endpoint: str,
        epoch: str,
        authenticate: Authenticate,
        clock: Clock,
        stops: Mapping[int, MayStop],
        remote: tuple[str, KeyFiles] | None = None,
        config_digest: str = "",
        expected: Iterable[str] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._stops = dict(stops)
        self._told: list[MayStop] = []
        self._taps: list[Tap] = []
        self._zeromq = ZeroMQ(settings)
        self._core = BrokerCore(
            settings,
            epoch=epoch,
            authenticate=authenticate,
            now=clock.monotonic(),
            wall_now=clock.now(),
            keys=remote[1] if remote is not None else None,
            config_digest=config_digest,
            expected=expected,
        )
        self._remote: RemoteRouter | None = None
        try:
            if remote is not None:
                self._remote = RemoteRouter(self._zeromq, settings, *remote, clock=clock)
            self._router = self._bind_router(endpoint)
            self._tap = TapPublisher(self._zeromq, tap_endpoint, epoch=epoch, clock=clock)
        except (zmq.ZMQError, ConfigError) as error:
            if self._remote is not None:
                self._remote.close()
            self._zeromq.close()
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"cannot bind {endpoint} or {tap_endpoint}: {error}; is another one running?") from error
        self._option, self._send = make_option_reader(self._router), make_sender(self._router)
        self._receive = make_receiver(self._router)
        # The sockets' own descriptors: zmq's poller asks every socket for its EVENTS twice per wake-up.
        self._poller = select.poll()
        self._router_descriptor = make_option_reader(self._router)(zmq.FD)
        self._tap_descriptor = make_option_reader(self._tap.socket)(zmq.FD)
        remote_descriptors = self._remote.descriptors if self._remote is not None else ()
        for descriptor in (self._router_descriptor, self._tap_descriptor, *self._stops, *remote_descriptors):
            self._poller.register(descriptor, select.POLLIN)

    def check_strangers(self) -> None:
        """Test over the real socket that a random key is refused in time. Raises ConfigError otherwise."""
        if self._remote is not None:
            self._remote.check_strangers()

    def run(self) -> None:
        """Run until told to end and allowed to.

        The descriptors are edge-triggered: the loop waits only after EVENTS has said that the router holds nothing and
        nothing was sent since, as a send may swallow the edge.
        """
        collector.settle()
        core, clock, tap = self._core, self._clock, self._tap
        wait_ms = 0
        while True:
            ready = dict(self._poller.poll(wait_ms))
            more = self._drain(has_spoken=self._router_descriptor in ready)
            if self._remote is not None and self._drain_remote(self._remote):
                more = True  # what it sent may have swallowed the other router's edge
            self._serve_tap(has_spoken=self._tap_descriptor in ready)
            now = clock.monotonic()
            at = core.next_wakeup()
            if at is not None and at <= now:
                core.set_wall(now, clock.now())
                self._do(self._step(Tick(), now), now)
                if self._remote is not None:
                    core.count(self._remote.callers.take_counts())
                more = True
                at = core.next_wakeup()
            if self._stops or self._told:
                self._listen(ready)
                if self._told and any(may_stop(core.peers) for may_stop in self._told):
                    return
            is_idle = not (more or self._taps or tap.has_sent or tap.is_answering)
            wait_ms = self._wait_ms(now, at) if is_idle else 0

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()
        self._router.close(linger=0)
        self._tap.close()
        self._zeromq.close()

    def _bind_router(self, endpoint: str) -> zmq.Socket[bytes]:
        router = self._zeromq.bound(zmq.ROUTER)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.bind(endpoint)
        restrict_ipc(endpoint)
        return router

    def _drain(self, *, has_spoken: bool) -> bool:
        """Handle what has arrived, at most a batch; return whether there may be more.

        A descriptor that has spoken mostly means a message; otherwise, and after each one, EVENTS is asked, which is
        cheaper than an EAGAIN. Where it has said some times that there is more, there are many, taken without asking.
        """
        receive, step, monotonic, option = self._receive, self._step, self._clock.monotonic, self._option
        left_bytes, more_count = limits.BATCH_MAX_BYTES, 0
        for _ in range(limits.BATCH_MAX):
            if left_bytes <= 0:
                break
            if more_count < MANY and not has_spoken:
                if not option(EVENTS) & POLLIN:
                    return False
                more_count += 1
            has_spoken = False
            try:
                parts = receive()
            except zmq.Again:
                more_count = 0
                continue
            left_bytes -= len(parts[-1])
            now = monotonic()
            if len(parts) == _PARTS:
                self._do(step(FrameReceived(parts[0], parts[1], parts[2]), now), now)
            elif len(parts) == _PROBE_PARTS and not parts[1]:
                self._do(step(Connected(parts[0]), now), now)
            else:
                self._do(step(_make_garbage(parts[0], parts[1:]), now), now)
        return True

    def _drain_remote(self, remote: RemoteRouter) -> bool:
        """Handle what connections from elsewhere sent, and who was not let in; return whether there was anything."""
        step, monotonic = self._step, self._clock.monotonic
        for fingerprint, address in remote.hear_strangers():
            now = monotonic()
            actions = step(UnknownKey(fingerprint, address), now)
            if actions:  # not each one of a flood
                _log.warning("key_refused", key=fingerprint, address=address)
            self._do(actions, now)
        count, left_bytes, began = 0, limits.BATCH_MAX_BYTES, (now := monotonic())
        while (
            count < limits.BATCH_MAX
            and left_bytes > 0
            and now - began < limits.REMOTE_PASS_S
            and (received := remote.receive()) is not None
        ):
            count += 1
            connection, key, address, parts = received
            left_bytes -= sum(map(len, parts))
            now = monotonic()
            if len(parts) == _PARTS - 1:
                frame = FrameReceived(connection, parts[0], parts[1], Origin(key, address))
                self._do(step(frame, now), now)
            elif len(parts) == _PROBE_PARTS - 1 and not parts[0]:
                self._do(step(Connected(connection), now), now)
            else:
                self._do(step(_make_garbage(connection, parts, Origin(key, address)), now), now)
        return count > 0

    def _do(self, actions: list[Action], now: float) -> None:
        """Carry out actions in order; losses come after them, so that tapped frames stay in sequence."""
        send, taps = self._send, self._taps
        lost: list[bytes] = []
        for action in actions:
            if not isinstance(action, Send):
                if isinstance(action, Tap):
                    taps.append(action)
                else:
                    self._cut_off(action)
                continue
            try:
                if self._remote is not None and action.connection.startswith(MARK):
                    self._remote.send(action.connection, action.header, action.body)
                    continue
                send(action.connection, NOBLOCK_MORE)
                send(action.header, NOBLOCK_MORE)
                send(action.body, NOBLOCK)
            except zmq.ZMQError as error:
                if error.errno in _SOCKET_IS_GONE:
                    raise
                if error.errno == zmq.EAGAIN:
                    self._core.count({"send_would_block": 1})
                elif error.errno != zmq.EHOSTUNREACH:
                    self._core.count({"send_failed": 1})
                    _log.warning("send_failed", error=str(error))
                lost.append(action.connection)
        for connection in lost:
            self._do(self._step(ConnectionLost(connection), now), now)

    def _step(self, event: Event, now: float) -> list[Action]:
        """Step the core with one event. A defect costs the frame's sender its connection, and nobody else."""
        try:
            return self._core.step(event, now)
        except Exception:  # noqa: BLE001 - logged with its traceback, counted, and felt by one peer
            _log.exception("broker_step_failed", at=type(event).__name__)
            return self._core.survive(event, now)

    def _serve_tap(self, *, has_spoken: bool) -> None:
        """Serve the tap; whatever goes wrong with it, routing goes on, and readers see the gap in the sequence."""
        tap, taps = self._tap, self._taps
        if taps:
            self._taps = []
        try:
            if has_spoken or tap.has_sent:
                tap.hear()
            if taps:
                tap.publish(taps)
            tap.answer_some()
        except Exception:  # noqa: BLE001 - logged with its traceback, and counted
            self._core.count({"tap_failed": 1})
            _log.exception("tap_failed", frames=len(taps))

    def _cut_off(self, action: CutOff | CutKey) -> None:
        """Cut off a connection, if it came from elsewhere."""
        assert self._remote is not None, "no connection from elsewhere"  # noqa: S101 - a programming error
        if isinstance(action, CutKey):
            self._remote.callers.cut_everywhere(action.key)
            return
        key = self._remote.callers.cut(action.connection)
        _log.warning("connection_cut_off", peer=action.peer, key=key, why=action.why)

    def _listen(self, ready: dict[int, int]) -> None:
        """Stop watching a descriptor that has spoken: one that hung up would never be silent again."""
        for descriptor in [known for known in self._stops if known in ready]:
            self._poller.unregister(descriptor)
            self._told.append(self._stops.pop(descriptor))

    def _wait_ms(self, now: float, *at: float | None) -> int:
        """Return the time until the first of these."""
        soon = now + self._settings.beat_interval_ms / 1000 if self._told else None
        known = [one for one in (*at, soon) if one is not None]
        return max(0, math.ceil((min(known) - now) * 1000)) if known else -1


def _make_garbage(connection: bytes, parts: list[bytes], origin: Origin = LOCAL) -> FrameGarbage:
    return FrameGarbage(connection, f"{len(parts)} parts, not header and body", sum(map(len, parts)), origin)
