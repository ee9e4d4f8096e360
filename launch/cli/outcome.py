"""How a turn ended, for a person: whatever is not a plain success is said, never only coloured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hobus.bus.errors import VERDICT_CODES, RuntimeFault
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.session import Remembered, TurnResult
from hobus.bus.messages.work_order import CUT
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, as_command_error, format_next_here
from hobus.launch.console.output import format_count, format_duration, format_money, make_harmless

Line = tuple[str, str]
"""Text and colour."""

_DIM = "bright_black"
RUN_WAITING = "run_waiting"
"""The code of a turn that stands still: no answer yet, and no end either."""
_NO_FAILURES = frozenset({"cancelled", RUN_WAITING})
_AGENT_GONE = "call hobus reload"
"""In what a supervisor says to a session whose agent is no longer there."""
_NAMED_MAX = 5
BARE = "answered by a bare model call, without history, tools or memory"
_BY_WEIGHT = (
    exit_codes.OK,
    exit_codes.USAGE,
    exit_codes.REFUSED,
    exit_codes.FAILED,
    exit_codes.UNREACHABLE,
    exit_codes.INTEGRITY,
)


def exit_code_of(result: TurnResult) -> int:
    """Return 0 for an answer, also degraded; 5 for a refused turn, 4 for a standstill, 1 for a failure."""
    if result.outcome != "error":
        return exit_codes.OK
    if result.code == RUN_WAITING:
        return exit_codes.UNREACHABLE
    return exit_codes.REFUSED if result.code in VERDICT_CODES else exit_codes.FAILED


def choose_worst(codes: Iterable[int]) -> int:
    return max(codes, key=_BY_WEIGHT.index, default=exit_codes.OK)


def render_about(result: TurnResult) -> list[Line]:
    """Return what is told below an answer: its tools, an end that is no plain success, and what it took."""
    return [*_render_tools(result), *render_warnings(result), (_describe_summary(result), _DIM)]


def render_warnings(result: TurnResult) -> list[Line]:
    """Return nothing for a plain success, unless a lasting statement was taken, which must be known to be undone."""
    why = f" ({result.code})" if result.code else ""
    lines: list[Line] = []
    if result.outcome == "degraded":
        lines.append((f"{explain_degraded(result)}{BARE}", "yellow"))
    elif result.outcome == "error":
        said = make_harmless(result.response).strip() or "this turn has no answer"
        if result.code in _NO_FAILURES:
            return [(said, "yellow")]
        full = (
            f"; free some space, then ask again; next: {format_next_here('doctor')}"
            if result.code == "disk_full"
            else ""
        )
        lines.append((f"error{why}: {said}{full}", "red"))
        if _AGENT_GONE in result.response:
            lines.append(
                (
                    f"next: {format_next_here('agent list')}; with its file there again: {format_next_here('reload')}",
                    "red",
                )
            )
    return lines + _render_beside(result)


def _render_beside(result: TurnResult) -> list[Line]:
    lines: list[Line] = []
    if result.cut:
        lines.append((f"this answer is not whole: {CUT.get(result.cut, result.cut)}", "yellow"))
    if result.tools_missing:
        missing = _name_tools(result.tools_missing)
        lines.append((f"answered without {missing}, which no worker had; see {format_next_here('tools')}", "yellow"))
    if result.tools_withheld:
        told = (
            f"the model was not told of {_name_tools(result.tools_withheld)}, which may change something: "
            "permissions.tools of its agent needs the exact names; see `hobus tools`"
        )
        lines.append((told, "yellow"))
    if result.template_fault:
        lines.append((f"its attention template: {make_harmless(result.template_fault)}", "yellow"))
    if result.over_budget:
        beyond = f"this session is {format_count(result.over_budget, 'token')} beyond its budget"
        lines.append((f"{beyond}, which mode warn allows; see {format_next_here('budget')}", "yellow"))
    if result.quality_gate_passed is False:
        lines.append(("quality gate not passed: this is the best attempt", "yellow"))
    if result.remembered is not None:
        lines.append(describe_remembered(result.remembered))
    return lines


def describe_remembered(remembered: Remembered) -> tuple[str, str]:
    line, name = make_harmless(remembered.statement), remembered.artifact_id
    match remembered.state:
        case "active":
            undo = format_next_here(f"memory deactivate {name} --reason …")
            return f"remembered from the next turn on: {line} (undo: /memory off {name}, or {undo})", _DIM
        case "pending":
            way = format_next_here(f"memory confirm {name}")
            return f"waits for you to confirm it: {line} (/memory confirm {name}, or {way}; else nothing)", "yellow"
        case "unanswered":
            return (
                f"not known yet whether it is remembered: {line} ({format_next_here('memory overlays')} says it)",
                "yellow",
            )
        case _:
            return f"not remembered: {line} ({format_next_here('memory review')} says why)", "yellow"


def render_fault(error: RuntimeFault | CommandError) -> list[Line]:
    known = as_command_error(error)
    if known is None:
        return [(str(error), "red")]
    return [(known.message, "red"), *([(f"next: {known.hint}", _DIM)] if known.hint else [])]


def explain_degraded(result: TurnResult) -> str:
    reason = make_harmless(result.reason).strip().rstrip(".")
    return f"degraded: {reason or 'the supervisor, its executors or the ledger were not available in time'}; "


def _name_tools(tools: Sequence[str]) -> str:
    more = len(tools) - _NAMED_MAX
    return make_harmless(", ".join(tools[:_NAMED_MAX])) + (f" and {more} more" if more > 0 else "")


def _render_tools(result: TurnResult) -> list[Line]:
    lines: list[Line] = []
    for call in result.tool_calls:
        ended = "in doubt" if call.code == "unknown_outcome" else call.status.lower()
        how = "" if call.status == "Succeeded" else f": {ended}" + (f" ({call.code})" if call.code else "")
        lines.append((f"tool {call.tool_id}{how}", _DIM))
    return lines


def _describe_summary(result: TurnResult) -> str:
    cost = result.cost
    took = f"{result.elapsed_ms} ms" if result.elapsed_ms < 1000 else format_duration(result.elapsed_ms / 1000)  # noqa: PLR2004
    parts = [shorten_session(result.session_id), took]
    if cost.llm_calls:
        parts += [
            format_count(cost.llm_calls, "model call"),
            format_count(cost.total_tokens, "token"),
            format_money(cost.cost_usd),
        ]
    elif cost.cost_usd is None:
        parts.append(format_money(None))
    return " · ".join(parts)
