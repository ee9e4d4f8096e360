"""What the launcher shows: the run file for other commands, and one word on readiness to whoever started it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.home import Home
from hobus.launch.launcher.plan import Plan
from hobus.launch.launcher.progress import Progress, ProgressWord, StartSettled, StartUnderWay, StateChanged
from hobus.launch.launcher.supervision import Member, drain_bound_s
from hobus.launch.launcher.zygotes import ShownZygote
from hobus.launch.limits import LOG_TAIL_LINES, START_CRASHES
from hobus.launch.logs.tail import tail


class Board:
    """The present state of one run, as others see it."""

    def __init__(
        self,
        *,
        home: Home,
        plan: Plan,
        started_at: float,
        report: Callable[[Progress], None],
    ) -> None:
        self.sockets = home.run
        self.logs_begin_at: dict[str, int] = {}
        """Where this run's lines begin in the log of each process."""
        self.zygote: Callable[[], ShownZygote] = ShownZygote
        self.is_replaced: Callable[[], bool] = bool
        """Whether another home lies where this one lay: nothing is written there."""
        self.report = report
        self.has_reported = False
        self._home = home
        self._plan = plan
        self._config = plan.snapshot.config.launcher
        self._started_at = started_at
        self._mark = identity.start_mark(os.getpid()) or ""
        self._phase: run_file.Phase = "starting"
        self.reload: run_file.ReloadRow | None = None
        """What became of the newest change of the configuration."""
        self._written: run_file.RunFile | None = None

    def use(self, plan: Plan) -> None:
        self._plan = plan

    def write(self, members: Iterable[Member], phase: run_file.Phase | None = None) -> run_file.RunFile:
        """Write the present state into the run file, and the phase if it changed; a full disk ends nothing."""
        self._phase = phase or self._phase
        zygote = self.zygote()
        run = run_file.RunFile(
            phase=self._phase,
            launcher_pid=os.getpid(),
            launcher_mark=self._mark,
            zygote_pid=zygote.pid,
            zygote_mark=zygote.mark,
            zygote_restarts=zygote.restarts,
            zygote_state=zygote.state,
            started_at=self._started_at,
            root=str(self._home.root),
            sockets=str(self.sockets),
            config_digest=self._plan.snapshot.digest,
            config_origin=self._plan.origin,
            reload=self.reload,
            drain_bound_s=drain_bound_s(self._config),
            children=list_rows(list(members)),
        )
        if run != self._written and not self.is_replaced():
            with suppress(OSError):
                run_file.write(self._home.run_file, run)
                self._written = run
        return run

    def report_change(self, member: Member, now: float) -> None:
        self.report(StateChanged(at=now, row=member.row()))

    def report_under_way(self, member: Member, now: float) -> None:
        self.report(StartUnderWay(at=now, actor=member.actor, text=member.note))

    def say(self, text: str, now: float) -> None:
        self.report(ProgressWord(at=now, text=text))

    def report_readiness(self, members: Iterable[Member], now: float) -> None:
        """Report once that everybody is ready, or that somebody certainly is not."""
        everybody = list(members)
        waiting = [member for member in everybody if member.state != "ready"]
        begun = [member for member in waiting if not member.is_queued]
        elapsed_ms = round((now - self._started_at) * 1000)
        is_late = elapsed_ms > self._config.ready_timeout_ms or any(map(self._will_not_start, everybody))
        if self.has_reported or (waiting and not is_late):
            return
        self.has_reported = True
        run = self.write(everybody, "running")
        # Who failed is shown with its log; who only waits for others is not. Damage is its own whole story.
        damaged = [member.note for member in waiting if member.is_damaged]
        failed = [member for member in waiting if member.state in ("failed", "backoff") or member.history.streak]
        tails = {
            member.actor: tail(
                self._home.log(member.actor),
                LOG_TAIL_LINES,
                start=self.logs_begin_at.get(member.actor, 0),
            )
            for member in ([] if damaged else failed or begun)
        }
        self.report(StartSettled(run=run, elapsed_ms=elapsed_ms, tails=tails, damaged="; ".join(damaged)))

    def _will_not_start(self, member: Member) -> bool:
        """Return whether a member failed, or keeps crashing before it was ever ready: waiting tells nothing new."""
        return member.state == "failed" or (member.state == "backoff" and member.history.streak >= START_CRASHES)


def list_rows(members: list[Member]) -> list[run_file.ChildRow]:
    """Return the rows of the run file, in the same order: as each process says itself, as far as the broker tells."""
    rows = [member.row() for member in members]
    if all(member.state == "ready" for member in members if member.role == "broker"):
        return rows
    lonely = {"state": "degraded", "note": "the broker is not ready"}
    return [row.model_copy(update=lonely) if row.state == "ready" and row.role != "broker" else row for row in rows]
