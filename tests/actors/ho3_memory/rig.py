"""A simulated cluster of a ledger and the memory process, and the bus of a supervisor that reads and logs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from hobus.actors.ho3_memory.actor import Memory
from hobus.actors.ho3_memory.checkpoint import FILE
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import Message
from hobus.bus.messages.ledger import WriteEntry
from hobus.config.snapshot import Snapshot
from tests.actors.ho3_memory.builders import AGENT, snapshot
from tests.rig import SimulatedRig


class Cluster(SimulatedRig):
    """One memory process; one asker, who may do all that a person may."""

    streams = ("signals", "overlays")

    def __init__(self, given: Snapshot) -> None:
        super().__init__(given)
        self.memory: Memory
        self.ho3 = self.start_memory()
        self.asker = self.world.client("operator")
        self.world.run(self.world.settled())

    def start_memory(self) -> str:
        """A memory process on the one medium; its instance."""
        disk = self.world.disk("ho3")
        self.memory = Memory(snapshot=self.snapshot, disk=disk)
        self.ho3 = self.world.start(self.memory, role="ho3", disk=disk).instance
        return self.ho3

    def restart_memory(self) -> None:
        """SIGKILL, and a new incarnation that is ready."""
        self.world.kill(self.ho3)
        self.start_memory()
        self.world.run(self.world.settled())

    @property
    def write_checkpoint(self) -> bytearray:
        """The content of the checkpoint file; changes are changes on the medium."""
        return self.world.media["ho3"].files[FILE].content

    def ask(self, message: Message, expect: type[Any], *, timeout_s: float = 5.0, message_id: str | None = None) -> Any:
        return self.world.run(self.request(message, expect, timeout_s=timeout_s, message_id=message_id))

    async def request(
        self, message: Message, expect: type[Any], *, timeout_s: float = 5.0, message_id: str | None = None
    ) -> Any:
        """The same for a scenario."""
        return await self.asker.request("ho3", message, expect=expect, timeout_s=timeout_s, message_id=message_id)

    def refusal(self, message: Message, expect: type[Any], **given: Any) -> RuntimeFault:
        """The fault that the question ends with."""
        try:
            answer = self.ask(message, expect, **given)
        except RuntimeFault as fault:
            return fault
        raise AssertionError(f"answered: {answer}")

    def log(self, *signals: m.Signal, agent_id: str = AGENT) -> m.SignalsLogged:
        """One turn's signals."""
        return self.ask(m.LogSignals(agent_id=agent_id, signals=list(signals)), m.SignalsLogged)

    def log_overlay(self, overlay: m.Artifact | m.PlainOverlay, agent_id: str = AGENT) -> m.OverlayLogged:
        return self.ask(m.LogOverlay(agent_id=agent_id, overlay=overlay), m.OverlayLogged)

    def overlays(self, *, as_of: m.AsOf | None = None, active_only: bool = False) -> m.Overlays:
        """All of them, as of then."""
        return self.ask(m.ReadOverlays(agent_id=AGENT, active_only=active_only, **moment_of(as_of)), m.Overlays)

    def signals(self, *, as_of: m.AsOf | None = None) -> m.Signals:
        """All accumulators, as of then."""
        return self.ask(m.ReadSignals(agent_id=AGENT, **moment_of(as_of)), m.Signals)

    def stats(self, agent_id: str = AGENT) -> m.MemoryStats:
        """How much is there."""
        return self.ask(m.ReadMemoryStats(agent_id=agent_id), m.MemoryStats)

    def write_as_memory(self, entries: Sequence[WriteEntry]) -> None:
        """What an earlier incarnation wrote and nobody heard of."""
        acks = self.run(self.ledger_client("ho3").write(entries))
        assert all(ack.is_first for ack in acks), acks


def moment_of(as_of: m.AsOf | None) -> dict[str, Any]:
    """The fields of a question as of this moment."""
    return {} if as_of is None else {"as_of_ts": as_of.as_of_ts, "as_of_seq": as_of.as_of_seq}


@contextmanager
def cluster(**changed: Any):
    """With the shipped section ho3, some settings of it changed."""
    with Cluster(snapshot(**changed)) as made:
        yield made
