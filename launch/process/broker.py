"""The broker's process: no asyncio, no actor; ends when told, or when its launcher is gone and nobody needs it."""

from __future__ import annotations

import os
import signal

import structlog

from hobus.bus.clock import SystemClock
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.key_book import KeyFiles
from hobus.bus.zeromq.tokens import TokenDirectory
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.run_file import write_whole
from hobus.launch.cluster.version import software_version
from hobus.launch.process import liveness

_log = structlog.get_logger()


def run_until_told(place: Place, instance: str, liveness_fd: int) -> None:
    """Returns after an orderly end. Raises ConfigError when it cannot start."""
    config, clock = place.snapshot.config, SystemClock()
    told_fd = _descriptor_of_signals()
    orphaned_at: float | None = None

    def nobody_needs_it(instances: list[str]) -> bool:
        """Asked again and again once the launcher is gone."""
        nonlocal orphaned_at
        now = clock.monotonic()
        orphaned_at = now if orphaned_at is None else orphaned_at
        roles = [name.partition("/")[0] for name in instances]
        return not liveness.needed_by("broker", roles) or now - orphaned_at > liveness.patience_s("broker", config)

    # For the case that this loop is stuck when the launcher dies; otherwise the descriptor below speaks first.
    liveness.watch(liveness_fd, on_gone=lambda: None, hard_limit_s=liveness.hard_limit_s(config))
    remote = _remote(place)
    tokens = TokenDirectory(place.home.run)
    run_broker(
        settings=config.bus,
        endpoint=place.broker,
        tap_endpoint=place.tap,
        epoch=instance.rpartition("@")[2],
        tokens=tokens,
        # Workers of other hosts hold no token here and reconnect in their own time: with them the whole grace counts.
        expected=None if remote is not None else [name for name in tokens.living() if name != instance],
        clock=clock,
        stops={told_fd: lambda _instances: True, liveness_fd: nobody_needs_it},
        on_ready=lambda: _started(place, remote),
        remote=remote,
        config_digest=place.snapshot.digest,
    )
    _log.info("process_ending", why="told" if orphaned_at is None else "orphaned")


def _remote(place: Place) -> tuple[str, KeyFiles] | None:
    """Where other hosts connect, and their keys; port 0 means the port that an earlier broker of this run had."""
    settings = place.snapshot.config.bus
    address = settings.listen
    if not address:
        return None
    keys = KeyFiles(place.home.keys, settings=settings, version=software_version(), config_digest=place.snapshot.digest)
    if address.endswith(":0") and place.home.listening.exists():
        address = place.home.listening.read_text(encoding="ascii").strip()
    return address, keys


def _started(place: Place, remote: tuple[str, KeyFiles] | None) -> None:
    if remote is not None:
        write_whole(place.home.listening, f"{remote[1].listens}\n")
        _log.info("listening_for_workers", address=remote[1].listens)
    _log.info("process_started", role="broker")


def _descriptor_of_signals() -> int:
    """Readable as soon as SIGTERM or SIGINT came."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(write_fd)
    return read_fd
