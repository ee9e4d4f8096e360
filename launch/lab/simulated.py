"""The whole cluster in one process, in virtual time: the same actors as in real processes, on the simulated ports.

Nothing in it reads a clock or draws a value: a seed gives the same
bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hobus.actors.ho1_executor.actor import Executor
from hobus.actors.ho1_executor.tools.child_main import make_plain
from hobus.actors.ho1_executor.tools.definition import Bounds, ToolDefinition
from hobus.actors.ho1_executor.tools.in_process import InProcessToolRunner
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.sources import make_word
from hobus.actors.ho1_executor.tools.table import make_snapshot_view
from hobus.actors.ho2_supervisor.actor import SLOTS, Supervisor
from hobus.actors.ho3_memory.actor import Memory
from hobus.actors.session_host.actor import SessionHost
from hobus.bus.dispatch import Actor
from hobus.bus.lanes import get_role
from hobus.bus.messages.control import AnnounceTools
from hobus.bus.port import Provider
from hobus.bus.sim.disk import SimMedium
from hobus.bus.sim.world import World
from hobus.config import limits
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.limits import CALLS_MAX
from hobus.gateway_service.service import GatewayService
from hobus.launch.process.roles.gateway import make_providers as providers_of
from hobus.ledger_service.service import LedgerService
from hobus.ledger_service.verify import VerifyReport, verify_directory

BROKER = "broker"
"""The one role that is no process of the world but part of its network."""

WITH_DISK = frozenset({"ledger", "gateway", "ho3", "host"})
"""Roles whose media outlive their processes."""


class SimulatedCluster:
    """Broker, ledger, gateway, memory, executors, supervisors and host in one `World`; use as a context manager."""

    def __init__(  # noqa: PLR0913 - how many of what, and what stands in for the outside
        self,
        snapshot: Snapshot,
        *,
        seed: int = 0,
        ho1: int = 1,
        ho2: int = 1,
        providers: Mapping[str, Provider] | None = None,
        tools: Mapping[str, ToolDefinition] = BUILTIN,
        prepare: Callable[[World], None] = lambda _world: None,
    ) -> None:
        """Build the cluster. `prepare` sees the world while it is empty: the place for faults and watchers."""
        self.snapshot = snapshot
        self.world = World(snapshot.config.bus, seed=seed, config_digest=snapshot.digest)
        prepare(self.world)
        self._providers = dict(providers) if providers is not None else providers_of(snapshot, {})
        self._tools = tools
        self._brokers = 1
        ho3 = 0 if snapshot.config.memory is None else 1
        counts = (("ledger", 1), ("gateway", 1), ("ho3", ho3), ("ho1", ho1), ("ho2", ho2), ("host", 1))
        try:
            for role, count in counts:
                for _ in range(count):
                    self.start(role)
            self.door = self.world.client("door", lanes=())
            self.world.run(self.world.settled())
        except BaseException:
            self.world.close()  # nobody else has it to close
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()

    # --- processes --------------------------------------------------------------------------------------------------

    def start(self, role: str) -> str:
        """Start a new incarnation of this role on the media that outlive it; return its instance."""
        if role == BROKER:
            self._brokers += 1
            self.world.network.config_digest = self.snapshot.digest
            self.world.network.start_broker(f"sim{self._brokers}")
            return self.world.network.broker.instance
        disk = self.world.disk(role) if role in WITH_DISK else None
        actor, taken = self._make_actor(role, disk)
        peer = self.world.start(actor, role=role, disk=disk, **taken)
        if "tools" in taken:
            words = [make_word(self._tools[name]) for name in taken["tools"]]
            peer.announce(AnnounceTools(tools=words, sources=[]))
        return peer.instance

    def _make_actor(self, role: str, disk: Any) -> tuple[Actor, dict[str, Any]]:
        """Return the actor of this role, its slots and tools; tools run in the executor's own simulated process."""
        snapshot, config = self.snapshot, self.snapshot.config
        match role:
            case "ledger":
                return LedgerService(disk, config.ledger), {}
            case "gateway":
                gateway = GatewayService(snapshot=snapshot, providers=self._providers, spool=disk)
                return gateway, {"slots": CALLS_MAX}
            case "ho3":
                return Memory(snapshot=snapshot, disk=disk), {}
            case "ho1":
                runner = InProcessToolRunner(
                    tools=self._tools,
                    view=make_snapshot_view(snapshot, self._tools),
                    bounds=Bounds(config.tools.output_max_bytes, limits.SAID_MAX_BYTES, limits.FILES_MAX_BYTES),
                    checks=dict.fromkeys(("verify_ledger", "verify_whole_ledger"), self._verify_for_tool),
                )
                executor = Executor(snapshot=snapshot, tools=runner, tool_specs=self._tools)
                return executor, {"slots": config.ho1.orders_max, "tools": runner.available()}
            case "ho2":
                return Supervisor(snapshot=snapshot), {"slots": SLOTS}
            case _:
                return SessionHost(snapshot=snapshot, spool=disk), {}

    def kill_now(self, victim: str) -> None:
        if get_role(victim) == BROKER:
            self.world.network.kill_broker()
        else:
            self.world.kill(victim)

    def freeze_now(self, victim: str, for_s: float) -> None:
        """Freeze this incarnation for so long."""
        network, loop = self.world.network, self.world.loop
        if get_role(victim) == BROKER:
            network.freeze_broker()
            loop.call_later(for_s, network.thaw_broker)
        else:
            self.world.freeze(victim)
            loop.call_later(for_s, self.world.thaw, victim)

    def oldest(self, role: str) -> str | None:
        if role == BROKER:
            return self.world.network.broker.instance if self.world.network.is_broker_up else None
        return next((name for name in self.world.processes if name.startswith(f"{role}/")), None)

    def verify(self) -> VerifyReport:
        """Return what `hobus ledger verify` would say of the ledger's medium as it is now."""
        with tempfile.TemporaryDirectory() as directory:
            write_out(self.world.media["ledger"], Path(directory))
            return verify_directory(Path(directory))

    async def _verify_for_tool(self) -> Mapping[str, Any]:
        found: dict[str, Any] = make_plain(self.verify())
        return found


def write_out(medium: SimMedium, directory: Path) -> None:
    for name, file in sorted(medium.files.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(file.content))
