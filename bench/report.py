"""What a bench or drill says in the end: on standard output, in its results, and as a table in a document."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

DOCUMENT = Path("bench/results/drills.md")
_FAULTS_SHOWN = 80


def markdown(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def pairs(rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values, without a header."""
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def rows_table(rows: Sequence[Any]) -> str:
    """A column for each field of these rows (dataclasses, or one mapping each), as `cell` has it."""
    found = [asdict(row) if is_dataclass(row) else row for row in rows]
    names = list(dict.fromkeys(name for row in found for name in row))
    return markdown(
        [name.replace("_", " ") for name in names], [[cell(row.get(name)) for name in names] for row in found]
    )


def cell(value: Any) -> str:
    """A value in a table: many times as p50 / p99 / max, counts by what was counted."""
    match value:
        case dict():
            return ", ".join(f"{name} {cell(one)}" for name, one in sorted(value.items()))
        case [float(), *_]:
            return percentiles(value, 50, 99, 100)
        case list():
            return ", ".join(map(cell, value))
        case _:
            return "" if value is None else str(value)


def put_between(name: str, how: str, table: str, document: Path = DOCUMENT) -> None:
    """The document's table of this name is this one, under a line that says on what it was measured, and how."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = document.read_text(encoding="utf-8")
    assert text.count(begin) == text.count(end) == 1, f"{document} has no place for {name}"
    before, _, rest = text.partition(begin)
    on = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    made = f"{begin}\nMeasured on {on} (load average at the end: {load}); {how}.\n\n{table}\n{end}"
    document.write_text(before + made + rest.partition(end)[2], encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures were taken on, and how busy it was when they were."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def measured_on(before: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**before, **more, "load_average_after": machine()["load_average"]}


def say(result: Mapping[str, Any], indent: str = "") -> None:
    """For people: a line for each value, what stands inside of another further in."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            print(f"{indent}{name}")
            say(value, f"{indent}    ")
        else:
            print(f"{indent}{name:44} {value}")


def told(
    given: argparse.Namespace, shown: str, figures: Mapping[str, Any], *, measured: Mapping[str, Any],
    results: Path | None = None, name: str = "", how: str = "", document: Path = DOCUMENT,
) -> None:  # fmt: skip
    """Print the table of a measurement, and keep its figures where `--json` and `--write` say."""
    say({"measured on": measured})
    print(f"\n{shown}")
    whole = {"measured_on": measured, **figures}
    write_json(given.json, whole)
    if results is not None and given.write:
        write_json(results, whole)
        put_between(name, how, shown, document)


def arguments(
    doc: str | None, *, write: bool = False, json: bool = False, no_peer: bool = False
) -> argparse.ArgumentParser:
    """The parser of a script with this docstring, and with these of the options that many have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if write:
        parser.add_argument("--write", action="store_true", help="into the document and the results")
    if json:
        parser.add_argument("--json", type=Path, help="the figures, into this file")
    if no_peer:
        parser.add_argument("--no-peer", action="store_true", help="without the peer; no registry is asked")
    return parser


def run_one_of(modules: Mapping[str, ModuleType], *, program: str, doc: str | None, write: bool = False) -> int:
    """`python -m PROGRAM NAME`: each module has `add_options(parser)` and `run(options) -> int`, the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=(doc or "").split("\n")[0])
    names = parser.add_subparsers(dest="name", required=True)
    for name, module in modules.items():
        summary = (module.__doc__ or "").split("\n")[0]
        chosen = names.add_parser(name, help=summary, description=summary)
        module.add_options(chosen)
        if write:
            chosen.add_argument("--write", action="store_true", help="into the document and the results")
    options = parser.parse_args()
    return modules[options.name].run(options)


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest measured value that so many percent do not exceed; 0.0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0


def percentiles(values: Sequence[float], *percents: float) -> str:
    return " / ".join(str(round(percentile(values, percent), 1)) for percent in percents)


def goal_row(goal: str, what: str, side: str, limit: float, reached: float | None, unit: str) -> list[tuple[str, ...]]:
    """A line of a table of goals, `side` being at least or at most; none for what was not measured."""
    if reached is None:
        return []
    is_met = reached <= limit if side == "at most" else reached >= limit
    said = f"{reached}{unit}"
    return [(goal, what, f"{side} {limit}{unit}", said if is_met else f"**missed: {said}**")]


def write_json(path: Path | None, result: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def concluded(
    given: argparse.Namespace, shown: str, faults: Sequence[str], *, results: Path, figures: Mapping[str, Any],
    name: str = "", how: str = "", document: Path = DOCUMENT,
) -> int:  # fmt: skip
    """Print the table and what must not be; with `--write` keeps the figures, and the table under its name.

    The exit code: 1 where there is a fault. Figures that name their machine are kept as they are.
    """
    print(shown, *faults[:_FAULTS_SHOWN], sep="\n", flush=True)
    if given.write:
        write_json(results, figures if "machine" in figures else {**machine(), "faults": list(faults), **figures})
        if name:
            put_between(name, how, shown, document)
    return 1 if faults else 0


def judged(given: argparse.Namespace, rows: Sequence[Any], *, results: Path, name: str, how: str = "") -> int:
    """`concluded` of rows that know their `faults`, a column for each of their fields."""
    faults = [fault for row in rows for fault in row.faults]
    figures = {"rows": [asdict(row) for row in rows]}
    return concluded(given, rows_table(rows), faults, results=results, figures=figures, name=name, how=how)
