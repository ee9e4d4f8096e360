"""A plan made in a process that ends: what reading and checking the configuration takes goes with it.

The launcher stays as long as its cluster, and all are forked from it: what it wrote in doing this itself, some 8 MB,
would stay as long. Nor does it know the user's secrets before the zygote is forked.
"""

from __future__ import annotations

import importlib
import os
import traceback
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import pack, unpack
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import CommandError, as_command_error, make_os_fault
from hobus.launch.launcher import inherited
from hobus.launch.launcher.gates import start_plan
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import Plan
from hobus.launch.launcher.zygote import MAIN, ROLES

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot


class PlanApart:
    """A plan that is being made while this process goes on."""

    def __init__(self, home: Home, options: StartOptions, *, handed: int | None) -> None:
        """Begin. `handed`: where what this process was given can be read, by that process alone. Raises OSError."""
        reading, writing = os.pipe()
        self._answer = open(reading, "rb")  # noqa: SIM115, PTH123 - a descriptor; closed by `made`
        try:
            self._pid = os.fork()
            if self._pid == 0:
                self._answer.close()  # so that it ends when nobody reads what it writes
                _make(home, options, handed, writing)
        finally:
            os.close(writing)

    def made(self) -> Plan:
        """Return the plan as `start_plan` has it, once; forked processes find its snapshot.

        Raises CommandError for whatever is wrong with the configuration, or forbidden by a gate.
        """
        try:
            with self._answer:
                data = self._answer.read()
        finally:
            status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        told = unpack(data) if data and status >= 0 else {}
        if status or not told:
            why = f": {told['ended']}" if "ended" in told else ""
            raise CommandError(f"the process that read the configuration ended ({status}){why}")
        if "refused" in told:
            raise CommandError(**told["refused"])
        warmed: Snapshot = importlib.import_module(MAIN).warm_snapshot(told["snapshot"], ROLES)
        snapshot = replace(warmed, contents=told["contents"])
        return Plan(snapshot=snapshot, origin=told["origin"], counts=told["counts"], warnings=tuple(told["warnings"]))


def make_refusal(error: CommandError | RuntimeFault | OSError, home: Home) -> CommandError:
    if isinstance(error, CommandError):
        return error
    if isinstance(error, OSError):
        return make_os_fault(error, doing=f"the cluster in {home.root} cannot be started")
    return as_command_error(error) or CommandError(str(error))


def _make(home: Home, options: StartOptions, handed: int | None, writing: int) -> NoReturn:
    status = 1
    try:
        try:
            plan = start_plan(home, options, inherited.take(handed))
            told = {
                "snapshot": plan.snapshot.to_bytes(), "contents": plan.snapshot.contents, "origin": plan.origin,
                "counts": plan.counts, "warnings": plan.warnings,
            }  # fmt: skip
        except (CommandError, RuntimeFault, OSError) as error:
            said = make_refusal(error, home)
            told = {
                "refused": {
                    "message": said.message, "hint": said.hint, "exit_code": said.exit_code, "code": said.code
                }
            }  # fmt: skip
        with open(writing, "wb") as answer:
            answer.write(pack(told))
        status = 0
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # whoever waits for this process hears it, too; or has ended
    except BaseException as error:  # noqa: BLE001 - the last place that can say anything
        traceback.print_exc()
        with suppress(OSError), open(writing, "wb") as answer:
            answer.write(pack({"ended": traceback.format_exception_only(error)[-1].strip()}))
    finally:
        os._exit(status)
