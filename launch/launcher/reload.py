"""`hobus reload`: a running cluster takes in what lies on disk, loaded and checked as `hobus up` would.

What a change means says `cluster/takes_effect.py`; the launcher carries it out (`rolling.py`), whether somebody follows
it or not.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from msgspec.structs import replace

from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError, ConfigError
from hobus.config.difference import Difference, list_differences
from hobus.config.sections.processes import LauncherConfig
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster import config_changed, identity, run_file
from hobus.launch.cluster.client import place_of
from hobus.launch.cluster.config_changed import list_changed_beside
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import ReloadRow, RunFile, find_running, find_stall
from hobus.launch.cluster.takes_effect import ChangeEffects, sum_effects
from hobus.launch.console.errors import CommandError, RefusedFault, UnreachableFault, format_next_command
from hobus.launch.launcher import operate
from hobus.launch.launcher.control import NOT_THIS_SOFTWARE, ReloadCommand
from hobus.launch.launcher.gates import start_plan
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import Plan
from hobus.launch.limits import COMMAND_POLL_MS


class Reloaded(NamedTuple):
    """What a reload did."""

    before: str
    """Digest of the configuration under which the cluster ran."""
    digest: str
    """Of the one that lies on disk: the same, where nothing has changed."""
    changes: list[Difference]
    beside: list[str]
    """What was changed that no configuration holds: code of tools, files with secrets."""
    effects: ChangeEffects
    warnings: tuple[str, ...]
    """What the gates say of it, which they let pass."""
    elapsed_ms: int


class UnderWay(RefusedFault):
    """Say that another reload is at work, or came behind this one: what is wanted is tried again when that is done."""


def reload_in_turn(home: Home) -> Reloaded:
    """Reload behind one that is under way, waiting for that at most `launcher.finish_ms`.

    Raises as `reload` does; UnderWay where the other one takes longer.
    """
    clock = SystemClock()
    began = clock.monotonic()
    while True:
        try:
            return reload(home)
        except UnderWay:
            run = find_running(home)
            config = place_of(home, run).snapshot.config.launcher
            until = began + config.finish_ms / 1000
            if clock.monotonic() >= until:
                raise
        while run is not None and run.reload is not None and run.reload.state == "going" and clock.monotonic() < until:
            time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - as in _follow
            run = run_file.read(home.run_file)


def reload(home: Home, *, wait: bool = True) -> Reloaded:
    """Have the cluster of this home run under what lies on disk; without `wait`, begin to go over to it.

    Nothing happens where nothing has changed. Raises CommandError: no cluster runs (not reachable), another reload is
    under way or it cannot be without a stop (refused), a gate forbids it (integrity), somebody does not run under it,
    and all went back to the former one; ConfigError for a configuration with faults.
    """
    clock = SystemClock()
    began = clock.monotonic()
    run = find_running(home)
    if run.phase == "draining":
        raise UnreachableFault(
            f"the cluster in {home.root} is being stopped", hint=format_next_command("up", home.root)
        )
    if (fault := find_stall(run.launcher_pid)) is not None:
        raise fault
    if run.reload is not None and run.reload.state == "going":
        raise _make_under_way(home, run.reload)
    place = place_of(home, run)
    plan = _make_plan(home, run, place.snapshot)
    found = list_differences(place.snapshot, plan.snapshot)
    beside = list_changed_beside(plan.snapshot.config.tools, run)
    effects = sum_effects(found).with_roles(["ho1"] if beside else [])
    there = {row.role for row in run.children}
    effects = effects._replace(roles=tuple(role for role in effects.roles if role in there))
    if beside or plan.snapshot.digest != place.snapshot.digest:
        _require_possible(home, run, effects)
        _offer(home, plan, run, restarts_executors=bool(beside))
        if wait:
            _follow(home, plan.snapshot.digest)
    elapsed_ms = round((clock.monotonic() - began) * 1000)
    return Reloaded(place.snapshot.digest, plan.snapshot.digest, found, beside, effects, plan.warnings, elapsed_ms)


def _make_plan(home: Home, run: RunFile, runs_under: Snapshot) -> Plan:
    """Return what a start of the same kind would take now, checked as it would be."""
    options = StartOptions(config_file=config_changed.find_given_file(home, run))
    try:
        plan = start_plan(home, options, {}, running=runs_under.digest)
    except ConfigError as error:
        goes_on = f"nothing was changed, the cluster goes on under {runs_under.digest[:19]}"
        raise ConfigError(f"{goes_on}: {error.detail}", facts=error.facts) from None
    return replace(plan, snapshot=config_changed.as_started(runs_under, plan.snapshot))


def _require_possible(home: Home, run: RunFile, effects: ChangeEffects) -> None:
    if not effects.refused:
        return
    lines = "\n".join(f"- {name}: {why}" for name, why in effects.refused.items())
    raise RefusedFault(
        f"nothing was changed: these cannot be changed while the cluster runs\n{lines}",
        hint=f"{config_changed.describe_after_stop(home, config_changed.find_given_file(home, run))}; or undo them",
    )


def _offer(home: Home, plan: Plan, run: RunFile, *, restarts_executors: bool) -> None:
    """Have the launcher take the offer. Raises CommandError."""
    digest, offered = plan.snapshot.digest, home.offered(plan.snapshot.digest)
    try:
        offered.write_bytes(plan.snapshot.with_contents())
        command = ReloadCommand(digest=digest, origin=plan.origin, restarts=["ho1"] if restarts_executors else [])
        operate.send_command(home, command, is_followed=True)
    except BusError as fault:
        if fault.code == "unavailable" and _has_ended(run, plan.snapshot.config.launcher):
            raise _make_ended(home) from None
        if fault.code not in ("rejected", "not_found"):
            raise
        kind = UnderWay if "under way" in fault.detail else RefusedFault
        raise kind(f"nothing was changed: {fault.detail}", hint=_mend_of(fault, home)) from None
    finally:
        offered.unlink(missing_ok=True)


def _has_ended(run: RunFile, config: LauncherConfig) -> bool:
    """Return whether a launcher that hung up without an answer is gone: one that ends is still there for a moment."""
    for _ in range(config.client_timeout_ms // COMMAND_POLL_MS):
        if not identity.is_alive(run.launcher_pid, run.launcher_mark):
            return True
        time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - as in `_follow`
    return False


def _make_under_way(home: Home, row: ReloadRow) -> CommandError:
    step = f", at: {row.step}" if row.step else ""
    said = f"another reload is under way ({row.digest[:19]}{step}): wait until that is done"
    return UnderWay(said, hint=f"{format_next_command('ps', home.root)}; then the same command again")


def _mend_of(fault: BusError, home: Home) -> str:
    if "under way" in fault.detail:
        return f"{format_next_command('ps', home.root)}; then the same command again"
    if fault.detail == NOT_THIS_SOFTWARE:
        return f"{format_next_command('down', home.root)}, then {format_next_command('up', home.root)}"
    if "env:" in fault.detail:
        up = format_next_command("up", home.root)
        return f"{format_next_command('down', home.root)}, then {up} where it is set; or refer to a file (file:PATH)"
    return format_next_command("ps", home.root)


def _follow(home: Home, digest: str) -> None:
    """Wait until the cluster has gone over. Raises CommandError when it went back, or has ended."""
    while True:
        run = run_file.read(home.run_file)
        if run is None or not identity.is_alive(run.launcher_pid, run.launcher_mark):
            raise _make_ended(home)
        if run.phase == "draining":
            raise UnreachableFault(f"the cluster in {home.root} is being stopped")
        if (fault := find_stall(run.launcher_pid)) is not None:
            raise UnreachableFault(fault.message, hint=f"kill -CONT {run.launcher_pid}: the reload goes on then")
        row = run.reload
        if row is not None and row.state != "going":
            _require_done(home, row, digest)
            return
        time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - waits for other processes, without a loop or a bus


def _make_ended(home: Home) -> CommandError:
    again = f"{format_next_command('up', home.root)} starts one under what lies on disk"
    return UnreachableFault(f"the cluster in {home.root} has ended meanwhile", hint=again)


def _require_done(home: Home, row: ReloadRow, digest: str) -> None:
    if row.state == "failed":
        logs, again = (format_next_command(one, home.root) for one in ("logs", "reload"))
        hint = f"{logs} says more; mend it, then: {again}"
        raise CommandError(f"the configuration was not loaded: {row.detail}", hint=hint)
    if row.digest != digest:
        raise UnderWay(f"another reload came behind this one: the cluster runs under {row.digest[:19]}")
