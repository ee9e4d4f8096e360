"""How a launcher begins: `run_launcher` in this process; `python -m` this module, one without a terminal.

The maker of the latter hears through a pipe how the start went.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import structlog

from hobus.bus import collector
from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.settings import build_models
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.cluster.kernel import raise_open_files, set_title
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, is_about
from hobus.launch.launcher import inherited
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan_apart import PlanApart, make_refusal
from hobus.launch.launcher.progress import Progress, StartRefused, StartSettled
from hobus.launch.launcher.zygote import end_unused, fork_zygote, load
from hobus.launch.logs import writing

if TYPE_CHECKING:
    from hobus.launch.launcher.launcher import Launcher


def run_launcher(
    home: Home,
    options: StartOptions,
    *,
    report: Callable[[Progress], None],
    lines: writing.LossyLines,
    ends_with_reader_of: int | None = None,
) -> None:
    """Run a cluster until it is down. Raises CommandError, ConfigError, OSError as it cannot be started."""
    clock = SystemClock()
    started_at, handed = clock.now(), inherited.find_descriptor()
    raise_open_files()
    gc.disable()  # what is loaded and read until the first fork stays
    under_way = PlanApart(home, options, handed=handed)
    # Everybody's from here on, before the first fork. This process runs no role, but a page that all share costs once
    # what it costs each.
    load()
    launcher: type[Launcher] = importlib.import_module("hobus.launch.launcher.launcher").Launcher
    plan = under_way.made()
    build_models()
    gc.enable()
    collector.freeze_for_forks()  # a collection in either would write to every page that both share
    # What is opened, loaded or read from here on is this process's own business.
    first = fork_zygote(home.log("zygote")) if plan.snapshot.config.launcher.start_method == "fork" else None
    try:
        to_roles = inherited.select_by_role(plan.snapshot.config, inherited.take(handed))
    except BaseException:
        if first is not None:
            end_unused(first)
        raise
    lines.limit(home.log("launcher"), plan.snapshot.config.launcher.log_max_bytes)
    made = launcher(
        home=home, plan=plan, clock=clock, started_at=started_at, report=report, zygote=first, given=to_roles,
        ends_with_reader_of=ends_with_reader_of,
    )  # fmt: skip
    asyncio.run(made.run())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a cluster until told to stop; end by SystemExit."""
    parser = argparse.ArgumentParser(prog="hobus-launcher")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--config", dest="config_file", type=Path)
    parser.add_argument("--scale", action="append", default=[])
    parser.add_argument("--listen")
    parser.add_argument("--http")
    parser.add_argument("--report-fd", type=int, required=True)
    parser.add_argument("--ends-with-maker", action="store_true")
    given = parser.parse_args(argv)
    fd: int = given.report_fd
    os.set_inheritable(fd, False)  # noqa: FBT003 - positional only; actors must not hold it open

    has_settled = False

    def tell(word: Progress) -> None:
        """Tell one line of JSON; that nobody reads it is no fault. Once the start has settled nobody does."""
        nonlocal has_settled
        if has_settled:
            return
        has_settled = isinstance(word, StartSettled)
        with suppress(OSError):
            os.write(fd, word.model_dump_json().encode() + b"\n")

    lines = writing.configure("launcher", f"launcher@{os.getpid()}")
    options = StartOptions(config_file=given.config_file, scale=given.scale, listen=given.listen, http=given.http)
    try:
        home = make_home(given.home)
        is_about(home.root)
        set_title("hobus launcher")
        ends_with = fd if given.ends_with_maker else None
        run_launcher(home, options, report=tell, lines=lines, ends_with_reader_of=ends_with)
    except (CommandError, RuntimeFault, OSError) as error:
        sys.exit(_refuse(tell, make_refusal(error, make_home(given.home))))
    sys.exit(exit_codes.OK)


def _refuse(tell: Callable[[Progress], None], why: CommandError) -> int:
    tell(StartRefused(message=why.message, hint=why.hint, exit_code=why.exit_code))
    structlog.get_logger().error("launcher_ended", reason=why.message)
    return why.exit_code


if __name__ == "__main__":
    main()
