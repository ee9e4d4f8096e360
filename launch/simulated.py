"""The whole cluster in one process, in virtual time: the same actors as in real processes, on the simulated ports.

Source: spec page "The bus", section Simulation. Nothing in it reads a clock or draws a value: a seed gives the same bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from actors.session_host.actor import SessionHost

from actors.ho1_executor.actor import Executor
from actors.ho1_executor.tools.child_main import plain
from actors.ho1_executor.tools.in_process import InProcessToolRunner
from actors.ho1_executor.tools.registry import BUILTIN
from actors.ho1_executor.tools.view import snapshot_view
from actors.ho2_supervisor.actor import Supervisor
from bus.messages.ledger import Entry
from bus.messages.session import ProcessTurn, TurnResult
from bus.port import Provider
from bus.sim.disk import SimMedium
from bus.sim.world import World
from config.snapshot import Snapshot
from gateway_service.service import GatewayService
from launch.roles.gateway import providers as providers_of
from ledger_service.reader import read_entries
from ledger_service.service import LedgerService
from ledger_service.verify import VerifyReport, verify_directory


class SimulatedCluster:
    """Broker, ledger, gateway, executors, supervisors and host in one `World`; use as a context manager."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        seed: int = 0,
        ho1: int = 1,
        ho2: int = 1,
        providers: Mapping[str, Provider] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.world = World(snapshot.config.bus, seed=seed, config_digest=snapshot.digest)
        self._providers = dict(providers) if providers is not None else providers_of(snapshot)
        self.start_ledger()
        self.start_gateway()
        for _ in range(ho1):
            self.start_ho1()
        for _ in range(ho2):
            self.world.start(Supervisor(snapshot=snapshot), role="ho2")
        spool = self.world.disk("host")
        self.world.start(SessionHost(snapshot=snapshot, spool=spool), role="host", disk=spool)
        self._door = self.world.client("door", lanes=())
        self.world.run(self.world.settled())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()

    def start_ledger(self) -> None:
        """A ledger process on the one medium that outlives it."""
        disk = self.world.disk("ledger")
        self.world.start(LedgerService(disk, self.snapshot.config.ledger), role="ledger", disk=disk)

    def start_gateway(self) -> None:
        """A gateway process with its spool."""
        spool = self.world.disk("gateway")
        actor = GatewayService(snapshot=self.snapshot, providers=self._providers, spool=spool)
        self.world.start(actor, role="gateway", slots=self.snapshot.config.gateway.slots, disk=spool)

    def start_ho1(self) -> None:
        """An executor; its tools run in the same simulated process."""
        config = self.snapshot.config
        runner = InProcessToolRunner(
            tools=BUILTIN,
            view=snapshot_view(self.snapshot, BUILTIN),
            output_max_bytes=config.tools.output_max_bytes,
            verify=self._verify_for_tool,
        )
        self.world.start(
            Executor(snapshot=self.snapshot, tools=runner, tool_specs=BUILTIN), role="ho1", slots=config.ho1.slots, tools=runner.available()
        )

    def ask(self, text: str, *, input_id: str, session_id: str | None = None, timeout_s: float = 60.0) -> TurnResult:
        """One turn through the host, in virtual time."""
        turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text)
        return self.world.run(self._door.request("host", turn, expect=TurnResult, timeout_s=timeout_s))

    def entries(self) -> list[Entry]:
        """Everything on the ledger's medium, with bodies."""
        with tempfile.TemporaryDirectory() as directory:
            _write_out(self.world.media["ledger"], Path(directory))
            return list(read_entries(Path(directory), with_bodies=True))

    def verify(self) -> VerifyReport:
        """The same check as `hobus ledger verify`, on the ledger's medium as it is now."""
        with tempfile.TemporaryDirectory() as directory:
            _write_out(self.world.media["ledger"], Path(directory))
            return verify_directory(Path(directory))

    async def _verify_for_tool(self) -> Mapping[str, Any]:
        found: dict[str, Any] = plain(self.verify())
        return found


def _write_out(medium: SimMedium, directory: Path) -> None:
    for name, file in sorted(medium.files.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(file.content))
