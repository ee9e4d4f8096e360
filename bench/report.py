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
from typing import Any, Literal, NamedTuple

RESULTS = Path("bench/results")
_FAULTS_SHOWN = 80


def markdown(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def rows_table(rows: Sequence[Any]) -> str:
    """A column for each field of these rows (dataclasses, or one mapping each), as `cell` has it."""
    found = [asdict(row) if is_dataclass(row) else row for row in rows]
    names = list(dict.fromkeys(name for row in found for name in row))
    cells = ([cell(row.get(name)) for name in names] for row in found)
    return markdown([name.replace("_", " ") for name in names], cells)


def cell(value: Any) -> str:
    """A value in a table: many times as p50 / p99 / max, counts by what was counted."""
    match value:
        case dict():
            return ", ".join(f"{name} {cell(one)}" for name, one in sorted(value.items()))
        case [float(), *_]:
            return " / ".join(str(round(percentile(value, percent), 1)) for percent in (50, 99, 100))
        case list():
            return ", ".join(map(cell, value))
        case _:
            return "" if value is None else str(value)


def put_between(name: str, how: str, table: str) -> None:
    """The table of this name in the results' documents is this one, under a line that says on what it was measured, and how."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    texts = {document: document.read_text(encoding="utf-8") for document in RESULTS.glob("*.md")}
    ((document, text),) = ((document, text) for document, text in texts.items() if begin in text and end in text)
    before, _, rest = text.partition(begin)
    on = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    made = f"{begin}\nMeasured on {on} (load average at the end: {load}); {how}.\n\n{table}\n{end}"
    document.write_text(before + made + rest.partition(end)[2], encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures were taken on, and how busy it was when they were."""
    system, load = f"{platform.system()} {platform.release()}", [round(value, 2) for value in os.getloadavg()]
    return {"cores": os.cpu_count(), "system": system, "python": platform.python_version(), "load_average": load}


def measured_on(before: Mapping[str, Any]) -> dict[str, Any]:
    return {**before, "load_average_after": machine()["load_average"]}


def say(result: Mapping[str, Any], indent: str = "") -> None:
    """For people: a line for each value, what stands inside of another further in."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            print(f"{indent}{name}")
            say(value, f"{indent}    ")
        else:
            print(f"{indent}{name:44} {value}")


def told(
    given: argparse.Namespace, before: Mapping[str, Any], figures: Mapping[str, Any], shown: str = "", *,
    name: str = "", how: str = "",
) -> None:  # fmt: skip
    """Print a measurement, as this table or figure by figure, and keep its figures where `--json` and `--write` say.

    `before`: the `machine` when it began.
    """
    whole = {"measured_on": measured_on(before), **figures}
    say({"measured on": whole["measured_on"]} if shown else whole)
    print(f"\n{shown}" if shown else "")
    write_json(given.json, whole)
    if name and given.write:
        keep(whole, shown, name=name, how=how)


def keep(figures: Mapping[str, Any], shown: str, *, name: str, how: str) -> None:
    """The figures in a file of this name, the table in the document that has a place for it."""
    write_json(RESULTS / f"{name.replace(' ', '_')}.json", figures)
    put_between(name, how, shown)


def arguments(
    doc: str | None, *, write: bool = False, json: bool = False, no_peer: bool = False, **values: Any
) -> argparse.ArgumentParser:
    """The parser of a script with this docstring, these of the options that many have, and `values` of its own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if write:
        values["write"] = (False, "into the document and the results")
    if json:
        parser.add_argument("--json", type=Path, help="the figures, into this file")
    if no_peer:
        values["no_peer"] = (False, "without the peer; no registry is asked")
    add_values(parser, values)
    return parser


def add_values(parser: argparse.ArgumentParser, values: Mapping[str, Any]) -> None:
    """An option for each of these names; its default, of whose type it is, alone or with what it is for."""
    for name, value in values.items():
        default, use = value if isinstance(value, tuple) else (value, None)
        kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", help=use, **kind)


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest measured value that so many percent do not exceed; 0.0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0


class Goal(NamedTuple):
    """A line of a table of goals; `figure` is the name of what is reached."""

    goal: str
    what: str
    side: Literal["at least", "at most"]
    limit: float
    figure: str
    unit: str = ""


def goals_table(goals: Iterable[Goal], reached: Mapping[str, float | None]) -> str:
    """A row for each goal that was measured."""
    rows: list[tuple[str, ...]] = []
    for one in goals:
        if (value := reached.get(one.figure)) is not None:
            is_met = value <= one.limit if one.side == "at most" else value >= one.limit
            said, goal = f"{value}{one.unit}", f"{one.side} {one.limit}{one.unit}"
            rows.append((one.goal, one.what, goal, said if is_met else f"**missed: {said}**"))
    return markdown(("", "what", "goal", "reached"), rows)


def write_json(path: Path | None, result: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def concluded(
    given: argparse.Namespace, shown: str, faults: Sequence[str], *, figures: Mapping[str, Any], name: str, how: str = "",
) -> int:  # fmt: skip
    """Print the table and what must not be, and with `--write` keep them; the exit code: 1 where there is a fault.

    Figures that name their machine are kept as they are.
    """
    print(shown, *faults[:_FAULTS_SHOWN], sep="\n", flush=True)
    if given.write:
        whole = figures if "machine" in figures else {**machine(), "faults": list(faults), **figures}
        keep(whole, shown, name=name, how=how)
    return 1 if faults else 0


def judged(given: argparse.Namespace, rows: Sequence[Any], *, name: str, how: str = "") -> int:
    """`concluded` of rows that know their `faults`, a column for each of their fields."""
    faults = [fault for row in rows for fault in row.faults]
    return concluded(
        given, rows_table(rows), faults, figures={"rows": [asdict(row) for row in rows]}, name=name, how=how
    )
