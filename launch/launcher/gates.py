"""The gates at a start: what they look at in a home, and a start that one of them forbids.

What a gate needs beside files is known here: how the record is verified (G6). A record that is written meanwhile is
read as `hobus ledger verify` does, beside its writer.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hobus.config.assets import GateId
from hobus.config.gates.finding import TITLES, Finding, list_failed, list_lines
from hobus.config.gates.run import RecordFault, Verify, View, look, run_gates, run_inside, run_outside
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.home import Home, find_holder, make_home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, format_next_command
from hobus.launch.console.output import format_count
from hobus.launch.launcher import inherited
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import Plan, look_at, make_plan

_NOT_STARTED = "nothing is started"


def find_findings(home: Home, *, config_file: Path | None = None, is_full: bool = False) -> list[Finding]:
    """Return what all gates say of this home as it lies there; `is_full`: of the whole record.

    Raises ConfigError where nobody can know what is installed.
    """
    view = look(find_layers(home, config_file))
    return run_gates(view, verify=_verify(home, view), check_record=lambda: record_fault(home, is_full=is_full))


def report_of(root: Path, *, config_file: Path | None = None, is_full: bool = False) -> dict[str, Any]:
    """Return what `hobus gates` says of the home in this directory, for programs and models."""
    found = find_findings(make_home(root), config_file=config_file, is_full=is_full)
    return {
        "ok": not list_failed(found),
        "gates": {gate: {"title": title, "verdict": describe_verdict(gate, found)} for gate, title in TITLES.items()},
        "findings": [one._asdict() for one in found],
    }


def describe_verdict(gate: GateId, found: Sequence[Finding]) -> str:
    severities = {one.severity for one in found if one.gate == gate}
    return next((one for one in ("fail", "warn") if one in severities), "ok")


def demand(home: Home, view: View, *, otherwise: str = _NOT_STARTED) -> list[str]:
    """Return what is to be said of a start that no gate forbids. Raises CommandError (integrity) with every failure.

    `otherwise`: what a failure means, in its message. Which tests are named is not looked at: they are no part of what
    runs.
    """
    inside = run_inside(view, has_tests=False)
    outside = run_outside(view, verify=_verify(home, view), check_record=lambda: _find_fault_at_rest(home))
    found = [*inside, *outside]
    demand_passed(home, found, otherwise)
    return _describe_findings(home, found, has_packages=any(layer.kind == "package" for layer in view.layers))


def make_checked_plan(home: Home, options: StartOptions) -> tuple[Plan, list[Finding]]:
    """Return the plan of a start now, and what the gates say of its files, the tests that they name included.

    Raises ConfigError, and CommandError (integrity) with every failure of a gate.
    """
    view = look_at(home, options)
    plan = make_plan(home, options, view, binds=find_holder(home) is None)
    found = run_gates(view, verify=_verify(home, view))
    demand_passed(home, found)
    return plan, found


def start_plan(home: Home, options: StartOptions, given: Mapping[str, str], *, running: str = "") -> Plan:
    """Return the plan of a start that no gate forbids, with what is to be said of it. Raises ConfigError, CommandError.

    `running`: digest under which a cluster runs that is to go over to this plan: it listens at its addresses itself.
    """
    view = look_at(home, options, given)
    otherwise = f"nothing was changed, the cluster goes on under {running[:19]}" if running else _NOT_STARTED
    plan = make_plan(home, options, view, binds=not running)
    warnings = demand(home, view, otherwise=otherwise)
    if not running:  # else the processes have what their start was given
        warnings += _without_key(plan.snapshot, inherited.select_for_role("gateway", plan.snapshot.config, given))
    return replace(plan, warnings=tuple(warnings))


def _without_key(snapshot: Snapshot, given: Mapping[str, str]) -> list[str]:
    """Return, for each provider that answers an agent, that its key stands in a variable that is not there."""
    named = {snapshot.choose_model_for(one, "synthesize").provider for one in snapshot.agents.values()}
    keys = {name: str(getattr(snapshot.config.gateway.providers[name], "key", None)) for name in sorted(named)}
    return [
        f"provider {name} cannot be used: the environment variable {key[4:]} is not set; set it before this command"
        for name, key in keys.items()
        if key.startswith("env:") and key[4:] not in given
    ]


def demand_passed(home: Home, found: Sequence[Finding], otherwise: str = _NOT_STARTED) -> None:
    """Raise CommandError (integrity) with every failure among these, and what that means."""
    failures = list_failed(found)
    if not failures:
        return
    told = "\n".join(f"- {line}" for line in list_lines(failures))
    message = f"{format_count(len(failures), 'gate failure')}: {otherwise}\n{told}"
    hint = f"mend that, then: {format_next_command('gates', home.root)}"
    raise CommandError(message, hint=hint, exit_code=exit_codes.INTEGRITY, code="gate_failed")


def _verify(home: Home, view: View) -> Verify | None:
    """Return the check whether what is installed is signed as the policy wants it.

    Raises CommandError where nobody can say whose keys are trusted.
    """
    config = view.reading.config
    if config is None or not any(layer.kind == "package" for layer in view.layers):
        return None
    # By name: most homes have no package.
    judging = importlib.import_module("hobus.launch.packages.judging")
    trusted: Mapping[str, str] = importlib.import_module("hobus.launch.packages.trust").read_trusted(home)
    verify: Verify = judging.verify_of(trusted, config.governance)
    return verify


def _find_fault_at_rest(home: Home) -> RecordFault | None:
    """Return the record's fault at a start; nothing of a record that another launcher's ledger makes or writes now.

    That one has looked itself, and whoever starts beside it is told that the cluster is up.
    """
    fault = record_fault(home)
    return None if fault is not None and find_holder(home) is not None else fault


def record_fault(home: Home, *, is_full: bool = False) -> RecordFault | None:
    """Return what is wrong with the record, by its last segment or all of it. A home without one passes."""
    if not home.ledger.is_dir():
        return None
    # By name: what only reads files has no use for it.
    verify = importlib.import_module("hobus.ledger_service.verify")
    try:
        if not verify.is_ledger(home.ledger):
            return None
    except OSError as error:
        return RecordFault(str(home.ledger), f"cannot be read: {error.strerror}", "make it readable for this user")
    fault = verify.verify_directory(home.ledger, newest=not is_full).fault
    if fault is None:
        return None
    mend = fault.fix or f"see {format_next_command('ledger verify', home.root)}"
    entry = "" if fault.sequence is None else f", entry {fault.sequence}"
    return RecordFault(str(home.ledger / fault.file), f"byte {fault.byte}{entry}: {fault.what}", mend)


def _describe_findings(home: Home, found: Sequence[Finding], *, has_packages: bool) -> list[str]:
    """Return that there are warnings, and, where packages are installed, what the policy leaves unlooked at."""
    warnings = sum(one.severity == "warn" for one in found)
    said = (
        [f"gates: {format_count(warnings, 'warning')} ({format_next_command('gates', home.root)})"] if warnings else []
    )
    return said + [one.reason for one in found if one.gate == "G5" and one.severity == "note" and has_packages]
