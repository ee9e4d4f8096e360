"""`hobus drill`: kill a process at an exact moment of a turn, in a cluster of its own, and see what it costs."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from hobus.launch.cli.commands.cluster_options import choose_timeout
from hobus.launch.cli.commands.options import DURATION, Family, Output, with_home, with_json
from hobus.launch.cli.turn_view import moment_lines
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import format_next_command
from hobus.launch.console.output import (
    as_json,
    format_count,
    go_silent,
    join_styled,
    note,
    print_table,
    say,
    say_prose,
    style,
)
from hobus.launch.console.view import print_all
from hobus.launch.lab.drill_moments import MOMENTS, QUESTION, ROLES, DrillMoment, Victim, parse_victim, stands_at
from hobus.launch.lab.drill_run import CrashDrill, make_options
from hobus.launch.lab.story import Checks, TurnEvidence, count_evidence, make_timeline
from hobus.launch.lab.temporary_cluster import TemporaryHome, spend
from hobus.launch.launcher.gates import make_checked_plan

_PREFIX = "hobus-drill-"


@click.group(cls=Family)
def drill() -> None:
    """Kill a process at an exact moment of a turn, in a temporary cluster, and check the guarantees."""


@drill.command("list")
@with_json
def list_(*, home: Home) -> Output:
    """List the processes and the moments of a turn."""
    del home  # it is the same everywhere
    rows = [
        {
            "during": one.word,
            "description": one.says,
            "recorded": one.stands,
            "held_in": one.holder,
            "frame": str(one.point()),
        }
        for one in MOMENTS.values()
    ]
    return Output({"who": ROLES, "during": rows, "question": QUESTION}, _show_moments, indent=None)


def _show_moments() -> None:
    print_table(["WHO", "ROLE IN THE TURN"], list(ROLES.items()))
    say()
    rows = [[one.word, one.says, one.stands, one.holder] for one in MOMENTS.values()]
    print_table(["--during", "THE TURN IS HELD WHEN", "IN THE RECORD BY THEN", "HELD IN"], rows)
    say()
    say("One process of a role is named as ho2/1 (with --scale ho2=2). The process in which the turn is held dies at")
    say("that very frame; any other one dies while the turn is held, and then the turn goes on.")
    say("Try: hobus drill kill ho2 --during tool")


@drill.command()
@click.argument("who", metavar="WHO")
@click.option("--during", type=click.Choice(list(MOMENTS)), required=True, help="The moment of the turn.")
@click.option("--scale", multiple=True, metavar="ROLE=N", help="Number of processes of a role, e.g. ho2=2.")
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait for the answer, e.g. 90 or 2m.")
@click.option("--keep", is_flag=True, help="Keep the temporary home, with record and logs.")
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def kill(  # noqa: PLR0913 - one per option
    *, home: Home, who: str, during: str, scale: tuple[str, ...], timeout_s: float | None, keep: bool, as_json_: bool
) -> int:
    """Ask a question, SIGKILL the process WHO at the given moment of the turn, and report the result.

    WHO: broker, ledger, gateway, ho3, ho1, ho2, host, http, launcher, zygote, or one process of a role, such as ho2/1.
    It runs in a temporary cluster with the configuration of --home, if any, and does not touch the cluster there. Exit
    code 0 only if every guarantee held.
    """
    victim, moment = parse_victim(who), MOMENTS[during]
    # Here, so that a fault is told of the user's own file, not of a copy that is gone.
    plan, _ = make_checked_plan(home, make_options(victim, scale))
    choose_timeout(timeout_s, plan.snapshot.config, default_ms=0)
    config = home.config if home.config.is_dir() else None
    own = make_home(Path(tempfile.mkdtemp(prefix=_PREFIX)))
    tell = note if as_json_ else _say_while_heard
    wanted = CrashDrill(
        home=own, victim=victim, moment=moment, config=config,
        packages=home.packages if home.packages.is_dir() else None, scale=scale, timeout_s=timeout_s,
        tell=lambda text: tell(f"  {text}"),
    )  # fmt: skip
    found: list[tuple[TurnEvidence, Checks]] = []

    def run_drill() -> int:
        tell(_announce(own, config, victim, moment))
        found.append(wanted.carry_out())
        return exit_codes.OK if _holds(found[0][1]) else exit_codes.FAILED

    code = spend(TemporaryHome(own, "the drill", is_temporary=True, is_kept=keep), run_drill)
    if not found:
        return code
    evidence, checks = found[0]
    if not _holds(checks) and own.root.exists():
        note(f"its home was kept: {own.root}")
    try:
        if as_json_:
            about = {"who": who, "during": during, "config": str(config or "shipped")}
            say(as_json({**about, **_make_document(own, evidence, checks)}))
        else:
            _show(evidence, checks, own)
    except BrokenPipeError:
        go_silent()
    return code


def _say_while_heard(text: str) -> None:
    """Say it; a reader that goes away (`| head`) ends neither the drill nor what its exit code says."""
    try:
        say_prose("", text)
    except BrokenPipeError:
        go_silent()


def _announce(own: Home, config: Path | None, victim: Victim, moment: DrillMoment) -> str:
    which = "the shipped configuration" if config is None else f"the configuration of {config}"
    return (
        f"A throw-away cluster in {own.root}, with {which}; no other cluster is touched.\n"
        f"Question: {QUESTION}\n"
        f"{victim} dies while {moment.says}; {stands_at(victim, moment)}.\n"
    )


def _holds(checks: Checks) -> bool:
    return all(is_so for _what, is_so in checks)


def _make_document(own: Home, evidence: TurnEvidence, checks: Checks) -> dict[str, object]:
    return {
        "home": str(own.root) if own.root.exists() else None,
        "killed": asdict(evidence.kill),
        "result": evidence.result.model_dump(mode="json"),
        "answered_after_ms": evidence.answered_after_ms,
        "timeline": [{"at_ms": at_ms, "what": what} for at_ms, what in make_timeline(evidence)],
        "counts": asdict(count_evidence(evidence)),
        "checks": [{"what": what, "holds": is_so} for what, is_so in checks],
        "holds": _holds(checks),
    }


def _show(evidence: TurnEvidence, checks: Checks, own: Home) -> None:
    say()
    say(style("What happened, by the record and by the broker's tap", None, bold=True))
    print_all(moment_lines(make_timeline(evidence)))
    say()
    for line in evidence.result.response.splitlines():
        say_prose("  > ", line)
    counts = count_evidence(evidence)
    say(f"  {evidence.result.outcome}, {evidence.answered_after_ms} ms after the kill")
    unknown = f" ({counts.model_calls_unknown} of them with an unknown outcome)" if counts.model_calls_unknown else ""
    say(
        f"  {format_count(counts.model_calls, 'model call')}{unknown}; "
        f"{format_count(counts.tool_calls, 'tool call')}, begun {format_count(counts.tool_runs, 'time')}"
    )
    say(
        f"  {format_count(counts.redelivered, 'order')} delivered again; "
        f"{format_count(counts.entries, 'entry', 'entries')} in the record"
    )
    say()
    for what, is_so in checks:
        say_prose(join_styled("  ", style("holds", "green") if is_so else style("BROKEN", "red"), "  "), what)
    if own.root.exists():
        say()
        say(f"its record: {format_next_command('ledger show', own.root)}")
        say(f"remove it with: rm -r {own.root}")
