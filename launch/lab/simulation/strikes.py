"""Carries out what a plan says shall happen to processes, disks, connections and the clock."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

from hobus.bus.errors import RuntimeFault
from hobus.bus.sim.clock import Draw
from hobus.launch.lab.simulated import SimulatedCluster
from hobus.launch.lab.simulation.plan import PlannedStrike
from hobus.launch.lab.simulation.record import Broken
from hobus.launch.lab.simulation.watch import EventWatch

RESTART_S = 0.5
"""A process that cannot go on is started anew behind such a pause, as a launcher does."""
_ROOM_BYTES = (0, 5_000, 5 << 20, 20 << 20)


class Striker:
    """Strike one cluster as planned; `healed_at` is when the last strike is over."""

    def __init__(
        self, cluster: SimulatedCluster, watch: EventWatch, draw: Draw, planned: tuple[PlannedStrike, ...]
    ) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._watch = watch
        self._draw = draw
        self._planned = planned
        self._is_over = False
        self.healed_at = 0.0
        self.struck = 0

    def asked(self, input_id: str) -> None:
        """Note that this input is asked now, for the first time: what is planned to come behind it comes."""
        for strike in self._planned:
            if strike.after == input_id:
                self._world.loop.call_later(strike.at_s, self._strike, strike)
                self._heal_later(strike.at_s + strike.for_s)

    def heal(self) -> None:
        """Make fair weather from now on; what waits for an await to die at may live."""
        self._is_over = True
        self._world.network.weather = None
        for started in self._world.processes.values():
            started.process.dies_at = None

    def ended(self, instance: str, reason: BaseException) -> None:
        """Start another incarnation, as a launcher would; break the run for an end that nobody may cause."""
        if not isinstance(reason, (RuntimeFault, OSError)) or getattr(reason, "code", "") == "damaged":
            self._watch.report(Broken(f"{instance} ended by itself: {reason!r}"))
            return
        role = instance.partition("/")[0]
        self._watch.note(f"{instance} cannot go on ({reason}); a successor in {RESTART_S:g} s")
        self._world.kill(instance)
        self._start_later(role, RESTART_S)

    def _heal_later(self, in_s: float) -> None:
        self.healed_at = max(self.healed_at, self._world.loop.time() + in_s)

    def _strike(self, strike: PlannedStrike) -> None:
        if self._is_over:
            return
        does: dict[str, Callable[[PlannedStrike], None]] = {
            "crash": self._crash,
            "torn-disk": self._crash,
            "freeze": self._freeze,
            "partition": self._part,
            "disk-full": self._fill,
            "sync-error": self._refuse_sync,
            "clock-jump": self._set_clock,
        }
        does[strike.kind](strike)

    def _choose_victim(self, strike: PlannedStrike) -> str | None:
        victim = self._cluster.oldest(strike.role)
        if victim is None:
            self._watch.note(f"nobody to strike: {strike}")  # an earlier strike's successor is not there yet
        return victim

    # --- processes --------------------------------------------------------------------------------------------------

    def _crash(self, strike: PlannedStrike) -> None:
        victim = self._choose_victim(strike)
        if victim is None:
            return
        if strike.step is None:
            self._kill(victim, strike)
            return
        process = self._world.processes[victim].process
        process.on_death = lambda: self._kill(victim, strike)
        process.dies_at = process.steps + strike.step

    def _kill(self, victim: str, strike: PlannedStrike) -> None:
        self._log_strike(strike, victim)
        started = self._world.processes.get(victim)  # none of the broker
        self._cluster.kill_now(victim)
        if started is not None and strike.loses_frames:
            self._world.network.lose_unread(started.process)
        if strike.kind == "torn-disk":
            self._world.media[strike.role].crash(self._draw)
            self._watch.run_guarded(self._watch.tail.check_kept)
        self._start_later(strike.role, strike.for_s)

    def _start_later(self, role: str, in_s: float) -> None:
        self._heal_later(in_s)
        # In nobody's context: a strike may come from within a step of its victim, and what that started never runs.
        self._world.loop.call_later(in_s, self._start, role, context=contextvars.Context())

    def _start(self, role: str) -> None:
        self._watch.note(f"{self._cluster.start(role)} starts")

    def _freeze(self, strike: PlannedStrike) -> None:
        victim = self._choose_victim(strike)
        if victim is None:
            return
        self._log_strike(strike, victim)
        self._cluster.freeze_now(victim, strike.for_s)

    # --- everything else --------------------------------------------------------------------------------------------

    def _part(self, strike: PlannedStrike) -> None:
        victim = self._choose_victim(strike)
        connection = None if victim is None else self._world.network.find_connection(victim, strike.server)
        if victim is None or connection is None:
            return
        self._log_strike(strike, victim)
        self._world.network.cut_off(connection, strike.ways, for_s=strike.for_s)

    def _fill(self, strike: PlannedStrike) -> None:
        medium = self._world.media["ledger"]
        capacity = medium.capacity_bytes
        self._log_strike(strike, "")
        medium.capacity_bytes = min(capacity, medium.used_bytes() + self._draw.choice(_ROOM_BYTES))

        def empty_disk() -> None:
            medium.capacity_bytes = max(medium.capacity_bytes, capacity)

        self._world.loop.call_later(strike.for_s, empty_disk)

    def _refuse_sync(self, strike: PlannedStrike) -> None:
        self._log_strike(strike, "")
        self._world.media[strike.role].failing_syncs += 1

    def _set_clock(self, strike: PlannedStrike) -> None:
        self._log_strike(strike, "")
        self._world.wall_epoch_s += strike.by_s

    def _log_strike(self, strike: PlannedStrike, victim: str) -> None:
        self.struck += 1
        self._watch.note(f"{strike}" + (f" ({victim})" if victim else ""))
