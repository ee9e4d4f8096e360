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
    """The last few by digest; a run at work holds its own."""

    def __init__(self, first: Resources, make: Callable[[Snapshot], Resources], *, kept_max: int) -> None:
        """`first`: under which this supervisor started. `make`: what runs under another one work with."""
        self.current = first
        self._make = make
        self._kept_max = kept_max
        self._snapshots = Snapshots(first.snapshot, first.client, kept_max=kept_max)
        self._made = OrderedDict({first.snapshot.digest: first})

    async def use(self, digest: str) -> None:
        """New runs begin under this one. Raises ConfigError where the record has none, its retryable fault."""
        self.current = await self._of(digest)

    async def of(self, digest: str) -> Resources:
        """That of a run; where the record does not have it whole any more, the current one, and that is said."""
        if not digest:
            return self.current
        try:
            return await self._of(digest)
        except ConfigError as fault:
            _log.warning("configuration_lost", digest=digest, detail=fault.detail)
            return self.current

    async def _of(self, digest: str) -> Resources:
        made = self._made.get(digest)
        if made is None:
            made = self._make(await self._snapshots.get(digest))
        remember(self._made, digest, made, at_most=self._kept_max)
        return made
