"""What a worker on another host keeps: its own key, whose worker it is, the last configuration, its log.

    <home>/worker.key      its own secret, made here; it never leaves this directory
    <home>/next.key        while its key is rotated, the one that takes its place
    <home>/worker.json     the cluster: address, public key, the name it gave
    <home>/snapshot        the configuration that it fetched last
    <home>/.hobus-home     says that this is a home: no agent reads files here
    <home>/logs/, run/     one log; the lock of the process that works here

It holds no record and no state of a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hobus.bus import disk
from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import Record
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.curve_link import CurveEnds
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.home import Home, HomeLock, claim, find_holder, make_private
from hobus.launch.console.errors import CommandError, RefusedFault, UsageFault, format_next_command

_CLUSTER, _KEY, _NEXT_KEY, _SNAPSHOT = "worker.json", "worker.key", "next.key", "snapshot"


class JoinedCluster(Record):
    """Whose worker this is."""

    address: str
    broker_key: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkerHome:
    """The directory of one worker; making one touches nothing."""

    home: Home

    def _find(self, name: str) -> Path:
        return self.home.root / name

    @property
    def log(self) -> Path:
        return self.home.log("worker")

    def hold(self) -> HomeLock:
        """Lock the directory for this process. Raises CommandError where another works or a cluster lives, OSError."""
        self._demand_no_cluster()
        make_private(self.home.run)
        make_private(self.home.logs)
        lock = HomeLock.take(self.home)
        if lock is None:
            raise RefusedFault(
                f"a worker runs in {self.home.root} already (pid {find_holder(self.home) or 'unknown'})",
                hint="stop it, or give this one another --home DIR",
            )
        lay_at, is_copy = claim(self.home, may_be_copy=False)
        if is_copy:
            lock.release()
            raise RefusedFault(
                f"{self.home.root} is a copy of {lay_at}, whose key admits one worker at a time",
                hint=f"rm -r {self.home.root}, and join with a token of its own: hobus worker join TOKEN --home DIR",
            )
        return lock

    def _demand_no_cluster(self) -> None:
        if self.home.ledger.exists() or self.home.keys.exists():
            raise UsageFault(
                f"{self.home.root} is the home of a cluster: a worker needs a directory of its own",
                hint="hobus worker join TOKEN --home DIR",
            )

    def pair(self) -> curve.KeyPair:
        """Return the worker's own keys, made at first use. Raises ConfigError, OSError."""
        return curve.keep_pair(self._find(_KEY), after_loss="then join again: hobus worker join TOKEN (a new token)")

    @property
    def has_key(self) -> bool:
        """Return whether it has keys of its own already."""
        return self._find(_KEY).exists()

    def next_pair(self) -> curve.KeyPair:
        """Return the keys that take the place of its own, made when first asked for. Raises ConfigError, OSError."""
        return curve.keep_pair(self._find(_NEXT_KEY), after_loss="another one is made")

    def use_next_key(self) -> bool:
        """Make the next key the worker's own; return False if there is none. Raises OSError."""
        if is_rotating := self._find(_NEXT_KEY).exists():
            self._find(_NEXT_KEY).replace(self._find(_KEY))
        return is_rotating

    def cluster(self) -> JoinedCluster | None:
        """Return whose worker it is; None before it has joined. Raises CommandError if damaged, or a cluster's home."""
        self._demand_no_cluster()
        try:
            return JoinedCluster.model_validate_json(self._find(_CLUSTER).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise CommandError(
                f"{self._find(_CLUSTER)} is damaged: it no longer says whose worker this is",
                hint=f"remove it, then: {format_next_command('worker join TOKEN', self.home.root)}",
            ) from None

    def joined(self, cluster: JoinedCluster) -> None:
        """Keep durably whose worker this is. Raises OSError."""
        disk.write_private(self._find(_CLUSTER), cluster.model_dump_json(indent=1).encode() + b"\n")

    def ends(self, cluster: JoinedCluster) -> CurveEnds:
        """Return both ends of its connection. Raises CommandError if its key is gone: a new one is enrolled nowhere."""
        if not self.has_key:
            raise RefusedFault(
                f"{self._find(_KEY)} is gone: nobody knows any other key of {cluster.name}",
                hint="put its copy back, or on the cluster's host: hobus token create, and join again here",
            )
        return CurveEnds(cluster.address, cluster.broker_key.encode(), self.pair())

    def snapshot(self) -> Snapshot | None:
        """Return the configuration that was fetched last, if it is kept here whole."""
        try:
            return Snapshot.from_bytes(self._find(_SNAPSHOT).read_bytes())
        except (FileNotFoundError, ConfigError):
            return None

    def keep_snapshot(self, data: bytes) -> None:
        """Keep a configuration in place of the one before. Raises OSError."""
        disk.write_private(self._find(_SNAPSHOT), data)
