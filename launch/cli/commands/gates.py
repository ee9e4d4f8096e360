"""`hobus gates`: what must hold of the governed files and the record before anything starts."""

from __future__ import annotations

from pathlib import Path

import click

from hobus.config.gates.finding import SHOWN_MAX, TITLES, Finding, describe_more, list_failed
from hobus.launch.cli.commands.options import Output, with_config_file, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.output import format_count, say, say_prose, style
from hobus.launch.launcher.gates import describe_verdict, report_of
from hobus.launch.launcher.options import require_file

_COLOURS = {"fail": "red", "warn": "yellow", "note": None, "ok": "green"}


@click.command()
@click.option("--enforce", is_flag=True, help="Exit 3 if a gate fails.")
@click.option("--full", is_flag=True, help="Verify the whole record (G6), not only its newest part.")
@with_config_file
@with_json
def gates(*, home: Home, enforce: bool, full: bool, config_file: Path | None) -> Output:
    """Check governed files and record by the gates G0 to G6, as every start does.

    Each failure names file, reason and mend. Without --enforce the exit code is 0.
    """
    require_file(config_file)
    document = report_of(home.root, config_file=config_file, is_full=full)
    code = exit_codes.OK if document["ok"] or not enforce else exit_codes.INTEGRITY
    return Output(document, lambda: _show([Finding(**one) for one in document["findings"]]), code)


def _show(found: list[Finding]) -> None:
    for gate, title in TITLES.items():
        worst = describe_verdict(gate, found)
        say(style(worst.ljust(4), _COLOURS[worst]), f"  {gate}  {title}")
        of_gate = [one for one in found if one.gate == gate]
        for one in of_gate[:SHOWN_MAX]:
            mark = "" if one.severity == "note" else f"{one.severity}: "
            say_prose("          ", f"{mark}{one.file}: {one.reason}")
            if one.mend:
                say_prose("            next: ", one.mend)
        for line in describe_more(of_gate):
            say(f"          {line}")
    failures = list_failed(found)
    if failures:
        say(style("failed", "red"), f"  {format_count(len(failures), 'failure')}; no cluster of this home starts")
    else:
        say(style("ok", "green"), "  a cluster of this home may start")
