"""What runs work with, by configuration: a run ends under the one that it began with, new ones begin under `current`.

A run names its configuration in its journal, so that whoever drives it on, after a take-over too, goes by the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import structlog

from hobus.actors.ho2_supervisor.resources import Resources
from hobus.bus.errors import ConfigError
from hobus.bus.window import remember
from hobus.config.recorded import Snapshots
from hobus.config.snapshot import Snapshot

_log = structlog.get_logger("ho2_supervisor")


class Configurations:
    """Keep the last few configurations by digest; a run in progress holds its own."""

    def __init__(self, first: Resources, make: Callable[[Snapshot], Resources], *, kept_max: int) -> None:
        """Begin with `first`, under which this supervisor started; `make` builds the resources of another snapshot."""
        self.current = first
        self._make = make
        self._kept_max = kept_max
        self._snapshots = Snapshots(first.snapshot, first.client, kept_max=kept_max)
        self._made = OrderedDict({first.snapshot.digest: first})

    async def use(self, digest: str) -> None:
        """Begin new runs under this configuration. Raises ConfigError for an unknown one, or the ledger's fault."""
        self.current = await self._load(digest)

    async def of(self, digest: str) -> Resources:
        """Return a run's configuration; the current one, with a log line, where the record no longer has it whole."""
        if not digest:
            return self.current
        try:
            return await self._load(digest)
        except ConfigError as fault:
            _log.warning("configuration_lost", digest=digest, detail=fault.detail)
            return self.current

    async def _load(self, digest: str) -> Resources:
        made = self._made.get(digest)
        if made is None:
            made = self._make(await self._snapshots.get(digest))
        remember(self._made, digest, made, at_most=self._kept_max)
        return made
