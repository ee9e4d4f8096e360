"""Tool results as sentences: nothing is said that the result does not say. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from hobus.gateway_service.providers.offline.reading import ToolAnswer

_ERROR = re.compile(r"^error ([A-Za-z_]*): ?(.*)$", re.DOTALL)
_CHAIN_SHOWN = 16
_CUT_SHOWN = 500


def tell(answered: ToolAnswer) -> str:
    """What one tool call brought, in words; a failed, cut or unexpected result is said to be that."""
    failed = _ERROR.match(answered.text)
    if failed:
        code, reason = failed.group(1) or "no code", failed.group(2).strip() or "no reason given"
        if code == "unknown_outcome":
            return f"Nobody knows what {answered.tool} did ({code}): {reason}"
        return f"{answered.tool} failed ({code}): {reason}"
    try:
        value = json.loads(answered.text)
    except (ValueError, RecursionError):
        shown = answered.text.strip()[:_CUT_SHOWN]
        if answered.tool not in TELLERS:  # what says nothing in JSON says it in words
            return f"{answered.tool}: {shown}"
        return f"{answered.tool} answered with more than could be passed on; its result begins: {shown}"
    teller = TELLERS.get(answered.tool)
    try:
        return teller(value) if teller else f"{answered.tool}: {_compact(value)}"
    except (KeyError, TypeError, AttributeError):
        return f"{answered.tool}: {_compact(value)}"


def _verified(value: Mapping[str, Any]) -> str:
    entries, segments = _counted(value["entries"], "entry", "entries"), _counted(value["segments"], "segment")
    if not value["ok"]:
        return f"The ledger is NOT intact. Checked {entries} in {segments}; fault: {_compact(value.get('fault'))}."
    chain, tail = str(value.get("chain", ""))[:_CHAIN_SHOWN], value.get("tail", "clean")
    note = "" if tail in ("", "clean") else f" After the last whole batch: {tail}."
    where = f"up to entry {value['head']} (chain {chain}…)"
    return f"The ledger is intact: {entries} in {segments} were checked, {where}.{note}"


def _listed(key: str, one: str, many: str, told: Callable[[Any], str]) -> Callable[[Any], str]:
    """Tells the rows under a key: how many there are, and each."""

    def tell_rows(value: Mapping[str, Any]) -> str:
        rows = value[key]
        heading = f"{len(rows)} {one if len(rows) == 1 else many}"
        return "\n".join([f"{heading}:", *(f"- {told(row)}" for row in rows)]) if rows else f"{heading}."

    return tell_rows


TELLERS: dict[str, Callable[[Any], str]] = {
    "list_packages": _listed(
        "packages",
        "package is installed",
        "packages are installed",
        lambda row: f"{row['package_id']} {row['version']}: {row['title']}",
    ),
    "list_frameworks": _listed(
        "frameworks",
        "framework governs this system",
        "frameworks govern this system",
        lambda row: f"{row['framework_id']} {row['version']}: {row['title']}",
    ),
    "list_tools": _listed(
        "tools", "tool is available", "tools are available", lambda row: f"{row['tool_id']}: {row['description']}"
    ),
    "verify_ledger": _verified,
    "run_gates": _listed(
        "findings",
        "finding of the gates",
        "findings of the gates",
        lambda row: f"{row['gate']} {row['severity']}: {row['file']}: {row['reason']}",
    ),
    "read_file": lambda value: f"{value['path']}:\n{value['text']}",
    "search": _listed("found", "passage", "passages", lambda row: f"{row['kind']}: {row['excerpt']}"),
}
"""Tool id -> how its result is told; a tool without one is shown as JSON."""


def _counted(number: Any, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
