"""A running cluster goes over to another configuration: in the launcher, one step after the other.

Theory of operation. The new one is durable in the record before any process can use it, and kept in the run directory
before any is told, so that whoever starts from then on, by this or by a crash, begins under it. The broker tells
everybody; each begins new work under it and ends what is at work under its own. Roles for which that is not enough are
started anew, place by place, with one more process meanwhile where the role can have several. Where somebody cannot go
over or does not start, all goes back to the former one, which is still in the record, by the same steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

import structlog
from msgspec import Struct, field

from hobus.bus.errors import BusError, ConfigError, RuntimeFault
from hobus.bus.messages.control import Done, UseSnapshot
from hobus.bus.paging import read_peers
from hobus.bus.port import Bus, Clock
from hobus.config.difference import list_differences
from hobus.config.schema import AdminConfig
from hobus.config.secret_refs import list_referred
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.home import Home, keep_snapshot
from hobus.launch.cluster.run_file import ReloadRow
from hobus.launch.cluster.takes_effect import ChangeEffects, sum_effects
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import children, inherited
from hobus.launch.launcher.control import ReloadCommand
from hobus.launch.launcher.members import Crew
from hobus.launch.launcher.options import SCALABLE
from hobus.launch.launcher.recording import ClusterRun, record_snapshot
from hobus.launch.launcher.status import Board
from hobus.launch.launcher.supervision import RUNNING, LeaveAsked, Member, get_number
from hobus.launch.limits import COMMAND_POLL_MS

_STARTED_ANEW = ("ho1",)
"""Roles whose processes are given anew what a change of their section names."""
_PATTERN = frozenset("*?[")
_log = structlog.get_logger()


class NotTaken(Exception):
    """Say who does not run under the new configuration, and why."""


class Rolling(Struct):
    """Carry out one change at a time."""

    home: Home
    run: ClusterRun
    crew: Crew
    board: Board
    bus: Bus
    clock: Clock
    use: Callable[[], None]
    """Called when `run` has changed."""
    _task: asyncio.Task[None] | None = None
    _begun: dict[str, Literal["start", "remove"]] = field(default_factory=dict[str, Literal["start", "remove"]])
    """Places that were started under the new configuration -> what follows where it is taken back."""

    def take(self, command: ReloadCommand) -> None:
        """Begin the change, in one synchronous step. Raises BusError where it is refused."""
        self.crew.require_open()
        if self._task is not None and not self._task.done():
            now = self.board.reload.digest[:19] if self.board.reload is not None else ""
            raise BusError("rejected", f"another reload is under way ({now}): wait until that is done")
        if not self.board.has_reported:
            raise BusError("unavailable", "the cluster is still starting")
        path = self.home.offered(command.digest)
        try:
            snapshot = Snapshot.from_both(path.read_bytes())
        except OSError as error:
            raise BusError("not_found", f"{path} cannot be read: {error.strerror}") from None
        except ConfigError as fault:
            raise BusError("rejected", f"{path}: {fault.detail}") from None
        finally:
            path.unlink(missing_ok=True)
        if snapshot.digest != command.digest:
            raise BusError("rejected", f"{path} holds another configuration than {command.digest}")
        effects = sum_effects(list_differences(self.run.snapshot, snapshot))
        if effects.refused:
            raise BusError("rejected", f"not without a stop: {', '.join(effects.refused)}")
        effects = effects.with_roles(command.restarts)
        following = ClusterRun(snapshot, command.origin, self._map_given(snapshot.config))
        _log.info("reload_begun", was=self.run.snapshot.digest, digest=snapshot.digest, restarts=effects.roles)
        self.crew.is_rolling = True
        self._say("going", snapshot.digest, step="the record")
        self._task = asyncio.get_running_loop().create_task(self._roll(following, effects))
        self._task.add_done_callback(self._on_end)

    async def close(self) -> None:
        """Stop with the cluster: what is under way is left as it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _map_given(self, config: AdminConfig) -> dict[str, dict[str, str]]:
        """Map role to variables, of those that this launcher was given at its start.

        Raises BusError where the new configuration names one more: it was in a shell that is gone.
        """
        was = self.run.snapshot.config
        for role, names in map_named(config).items():
            new = set(names) - set(map_named(was)[role])
            held = {*self.run.given.get(role, {}), *(children.make_environment() if role in _STARTED_ANEW else ())}
            if missing := sorted(new - held):
                refs = ", ".join(f"env:{name}" for name in missing)
                raise BusError("rejected", f"it names {refs}, which {role} was not given at the start of this cluster")
        known = {name: value for one in self.run.given.values() for name, value in one.items()}
        try:
            return inherited.select_by_role(config, known)
        except CommandError as fault:
            raise BusError("rejected", fault.message) from None

    # --- the steps --------------------------------------------------------------------------------------------------

    async def _roll(self, following: ClusterRun, effects: ChangeEffects) -> None:
        former, self._begun = ClusterRun(self.run.snapshot, self.run.origin, self.run.given), {}
        digest = following.snapshot.digest
        try:
            await self._record(following.snapshot)
            try:
                await self._go_over(following)
                for role in effects.roles:
                    await self._start_anew(role)
            except NotTaken as why:
                await self._go_back(former, why)
                kept = f"the cluster runs under {former.snapshot.digest[:19]} as before"
                self._say("failed", digest, detail=f"{why}; {kept}")
            else:
                self._say("done", digest)
                _log.info("reload_done", digest=digest)
        except (RuntimeFault, OSError, NotTaken) as fault:
            _log.error("reload_failed", digest=digest, reason=str(fault))
            self._say("failed", digest, detail=str(fault))
        finally:
            self.crew.is_rolling = False

    async def _record(self, snapshot: Snapshot) -> None:
        """Make the snapshot durable in the record. Raises RuntimeFault: then nothing has changed."""
        try:
            await record_snapshot(self.bus, snapshot)
        except RuntimeFault as fault:
            detail = f"the record does not take the configuration ({fault.code}: {fault.detail}); nothing was changed"
            raise BusError(fault.code, detail) from None

    async def _go_over(self, to: ClusterRun) -> None:
        """Have every process begin new work under it. Raises NotTaken, OSError before anybody knows of it."""
        keep_snapshot(self.home, to.snapshot.to_bytes())
        self.run.snapshot, self.run.origin, self.run.given = to.snapshot, to.origin, to.given
        self.use()
        digest = to.snapshot.digest
        word = UseSnapshot(config_digest=digest)
        until = self._compute_deadline()
        told = ""
        while True:
            try:
                peers = await read_peers(self.bus, timeout_s=self._timeout_s)
                if peers.epoch != told:  # another broker since: it began with what the run directory holds
                    await self.bus.request("broker", word, expect=Done, timeout_s=self._timeout_s)
                    told = peers.epoch
                under = {row.instance: row.config_digest for row in peers.peers}
                late = [one.actor for one in self.crew if self._is_behind(one, under, digest)]
                if not late:
                    return
            except RuntimeFault as fault:
                late = [f"the broker ({fault.code})"]
            self._say("going", digest, step=", ".join(late))
            if self.clock.monotonic() > until:
                raise NotTaken(f"{', '.join(late)} did not go over to it in time (launcher.ready_timeout_ms)")
            await asyncio.sleep(self._look_s)

    def _is_behind(self, member: Member, under: Mapping[str, str], digest: str) -> bool:
        """Return whether a member works under another one; who does not run, or starts, begins under it."""
        return member.state in ("ready", "degraded") and under.get(member.instance) != digest

    async def _start_anew(self, role: str) -> None:
        """Replace each process of the role; with one more meanwhile, where the role can have several."""
        places = [one.actor for one in self.crew if one.role == role and one.state in RUNNING and not one.resting_since]
        if not places:
            return
        extra = ""
        if role in SCALABLE and self.crew.has_room():
            extra = f"{role}/{max(get_number(one.actor) for one in self.crew if one.role == role) + 1}"
            self.crew.add(role, [extra])
            self._begun[extra] = "remove"
            await self._wait_ready(extra, "")
        for actor in places:
            before = self.crew.members[actor].instance
            self._begun[actor] = "start"
            self.crew.happened(actor, LeaveAsked("start", self.clock.now()))
            await self._wait_ready(actor, before)
        if extra:
            self.crew.happened(extra, LeaveAsked("remove", self.clock.now()))
            await self._wait_until(lambda: extra not in self.crew.members, f"{extra} ends")

    async def _wait_ready(self, actor: str, before: str) -> None:
        """Wait until another incarnation than `before` is ready. Raises NotTaken if it crashes or is late."""

        def is_ready() -> bool:
            member = self.crew.members.get(actor)
            if member is None:
                raise NotTaken(f"{actor} was removed meanwhile")
            is_new = member.instance not in ("", before)
            if member.state == "failed" or (member.state == "backoff" and is_new):
                raise NotTaken(f"{actor} does not start under it ({member.note})")
            return is_new and member.state in ("ready", "degraded")

        await self._wait_until(is_ready, f"{actor} is started anew")

    async def _wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        self._say("going", self.run.snapshot.digest, step=what)
        until = self._compute_deadline()
        while not is_so():
            if self.clock.monotonic() > until:
                raise NotTaken(f"not in time: {what}")
            await asyncio.sleep(self._look_s)

    async def _go_back(self, former: ClusterRun, why: NotTaken) -> None:
        """Return everybody to the former configuration. Raises NotTaken, RuntimeFault."""
        _log.warning("reload_taken_back", reason=str(why))
        self.board.say(f"the new configuration is undone: {why}", self.clock.now())
        keep_snapshot(self.home, former.snapshot.to_bytes())
        for actor, then in self._begun.items():
            member = self.crew.members.get(actor)
            if member is not None:
                works = member.state in ("ready", "degraded")
                self.crew.happened(actor, LeaveAsked(then, self.clock.now(), kill=not works))
        await self._go_over(former)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """End a reload after a defect as after a fault: nobody waits for it for ever."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self.board.reload is not None:
            _log.error("reload_failed", digest=self.board.reload.digest, exc_info=error)
            self._say("failed", self.board.reload.digest, detail=f"{type(error).__name__}: its log says where")

    # --- what is said -----------------------------------------------------------------------------------------------

    def _say(self, state: str, digest: str, *, step: str = "", detail: str = "") -> None:
        row = ReloadRow.model_validate(
            {"digest": digest, "state": state, "at": self.clock.now(), "step": step, "detail": detail}
        )
        known = self.board.reload
        if known is None or (known.digest, known.state, known.step) != (digest, state, step):
            self.board.reload = row
            self.board.write(self.crew)

    def _compute_deadline(self) -> float:
        """Return the time for a process to finish what it works on, end, and start."""
        config = self.run.snapshot.config.launcher
        return self.clock.monotonic() + (config.finish_ms + config.drain_ms + config.ready_timeout_ms) / 1000

    @property
    def _timeout_s(self) -> float:
        return self.run.snapshot.config.launcher.client_timeout_ms / 1000

    @property
    def _look_s(self) -> float:
        return COMMAND_POLL_MS / 1000


def map_named(config: AdminConfig) -> dict[str, list[str]]:
    """Map role to variables of the environment that its section of the configuration names; of patterns none."""
    gateway, tools = config.gateway.model_dump(mode="json"), config.tools.model_dump(mode="json")
    own = [name for name in config.tools.environment if not _PATTERN.intersection(name)]
    return {"gateway": list(list_referred(gateway)), "ho1": [*list_referred(tools), *own]}
