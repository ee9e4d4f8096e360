"""What happened in a turn, moment by moment: a sentence for each entry that a reader needs. Pure.

With their bodies the sentences say more: texts, tokens, arguments, results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import is_call
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.record import session_facts as events
from hobus.bus.record.ends import OF_EXECUTORS, end_in, explain_failure
from hobus.bus.record.journal import find_own_text
from hobus.bus.record.payloads.memory import SignalLogged
from hobus.bus.record.payloads.orders import ContextAssembled, OrderEnd, SignalsNamed, ToolStarted
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived, PromptRejected, PromptSent
from hobus.bus.text import cut
from hobus.launch.console.output import format_count, format_money, make_printable
from hobus.launch.sessions.evidence import Seen, read_text, short
from hobus.launch.sessions.history import describe_command

_TEXT_CHARS = 100

TOLD = {
    "RunRequested": "the question is recorded",
    "TookOver": "{who} becomes the owner of the session",
    "WO_DISPATCHED": "{who} records {order_named}, then sends it out",
    "PROMPT_SENT": "{who} records a prompt for {order}, then calls the model",
    "PROMPT_RECEIVED": "the model's answer for {order} is recorded",
    "PROMPT_FAILED": "a prompt of {order} is closed without an answer: {reason}",
    "PROMPT_REJECTED": "{who} refuses a prompt of {order}: {reason}",
    "TOOL_STARTED": "{who} records that the tool of {order} starts, then runs it",
    "WO_COMPLETED": "{who} ends {order_named}",
    "WO_FAILED": "{who} ends {order_named} as failed: {reason}",
    "WO_LATE": "{who} ends {order_named} too late: it counts no more",
    "OrderEnded": "{who} takes the answer to {order_named}",
    "HostCommandReceived": "a command is recorded",
    "HostCommandApplied": "the command is applied",
    "HostCommandRejected": "the command is refused",
    "LifecycleChanged": "the run changes its state",
    "INTENT_DECLARED": "an intent of the session is declared",
    "INTENT_SUPERSEDED": "the intent gives way to another one",
    "INTENT_CLOSED": "the intent is closed",
    "INTENT_CONFLICT": "which intent this is about is in doubt",
    "ESCALATION": "{who} gives up on the model's answer",
    "BUDGET_WARNING": "the next round goes over the budget of the run",
    "DEGRADATION": "{who} answers without the supervisor: {reason}",
    "RunCompleted": "the answer is recorded, and only then sent",
    "RunFailed": "the run is recorded as failed",
    "RunCancelled": "the run is recorded as cancelled",
    "TurnDegraded": "the answer is recorded as a degraded one",
    "CONSOLIDATION_DUE": "memory takes up what the turn brought",
}
"""Event type -> its sentence."""

_ONLY_IF_SAID = frozenset({"CONTEXT_ASSEMBLED", "StepStarted", "ToolBatchIssued"})
"""Told where they say something that a reader needs: a line of memory, a steer, a call that waits."""


class Moment(NamedTuple):
    """Something that happened: when (microseconds since 1970), and a sentence."""

    at_us: int
    what: str
    sequence: int | None = None
    """Of its entry; None: it is concluded, or seen elsewhere."""
    event: str = ""


def moments_in(entries: Iterable[Seen]) -> list[Moment]:
    """Return what these entries tell, in their order, without what a reader need not know."""
    entries = list(entries)
    found: list[Moment] = []
    signals: list[Moment] = []
    told_elsewhere = {one.wo_id for one in entries if one.type in OF_EXECUTORS}
    for one in entries:
        at_us, sequence, detail = one.entry.ledger_at_us, one.entry.sequence, detail_of(one)
        if one.type == "OrderEnded" and one.wo_id in told_elsewhere:
            continue
        found += [
            Moment(at_us, f"{said} (#{sequence})", sequence, earlier.event.entry_name)
            for earlier in (() if one.taken is None else one.taken.earlier)
            if (said := detail_of(Seen(one.entry, earlier.event)))
        ]
        if one.type == "HO3_SIGNAL":
            signals.append(Moment(at_us, detail or one.entry.submission_id, sequence, one.type))
        elif one.type in TOLD:
            found.append(Moment(at_us, f"{_sentence(one)}{detail and f': {detail}'} (#{sequence})", sequence, one.type))
        elif one.type in _ONLY_IF_SAID and detail:
            found.append(Moment(at_us, f"{detail} (#{sequence})", sequence, one.type))
    if signals:
        names = ", ".join(one.what for one in signals)
        what = f"memory logs {format_count(len(signals), 'signal')}: {names} (from #{signals[0].sequence})"
        found.append(signals[0]._replace(what=what))
    return found


def restarts_in(entries: Iterable[Seen]) -> list[Moment]:
    """Return processes that wrote as one incarnation and go on as another: the one before was killed or has ended."""
    seen: dict[str, set[str]] = {}
    found: list[Moment] = []
    for entry, *_ in entries:
        actor, _, incarnation = entry.origin.partition("@")
        lives = seen.setdefault(actor, set())
        if lives and incarnation not in lives:
            found.append(Moment(entry.ledger_at_us - 1, f"{actor} has ended, and goes on as {entry.origin}"))
        lives.add(incarnation)
    return found


def all_moments(entries: Sequence[Seen]) -> list[Moment]:
    """Return moments and restarts, in the order of time."""
    return sorted([*moments_in(entries), *restarts_in(entries)], key=lambda one: one.at_us)


def _sentence(one: Seen) -> str:
    order = short(one.wo_id) or "the turn"
    the = "the " if order.startswith("of ") else ""  # of the consolidation, of the degraded answer
    return TOLD[one.type].format(
        who=one.entry.origin.partition("@")[0], order=order.removeprefix("of "), order_named=f"{the}order {order}",
        reason=one.entry.reason or "no reason given",
    )  # fmt: skip


def detail_of(one: Seen) -> str:
    """Return what the bodies of an entry add, in a few words; empty: nothing, or they were erased or not asked for."""
    try:
        return "" if one.said is None else _DETAILS.get(type(one.said), _of_end)(one.said, one)
    except (ValueError, KeyError):  # of another version, or forged: its sentence stands alone
        return ""


def _of_end(event: Any, one: Seen) -> str:
    """Return why an input ended, where the entry has no full answer."""
    end = None if one.taken is None else end_in(event, one.taken)
    if one.taken is None or end is None:
        return ""
    return ", ".join(filter(None, (end.code, _line(end.reason), _line(explain_failure(one.taken, end) or ""))))


def _of_dispatch(event: events.OrderDispatched, _one: Seen) -> str:
    call = event.order.tool_call
    return f"tool {_call(call.tool_id, call.arguments)}" if call else event.wo_type


def _of_ended(event: events.OrderEnded, one: Seen) -> str:
    output = event.receipt.output_result
    if is_call(event.wo_id):
        return _own(one, None if output is None else output.text.ref)
    return _asked_for(() if output is None else output.tool_calls)


def _of_command(event: events.HostCommandReceived, one: Seen) -> str:
    text = "" if one.taken is None else describe_command(event.command, one.taken)
    words = f"{event.command.command.kind.lower()} {_quoted(text)}".rstrip()
    return f"{words}, by {SaidBy(event.principal, event.door)}"


def _of_sent(sent: PromptSent, one: Seen) -> str:
    attempt = one.entry.submission_id.rpartition("/")[2]
    again = f", attempt {attempt}" if attempt.isdigit() and attempt != "1" else ""
    return f"{sent.provider_id}/{sent.model_id}, {format_count(sent.reserved_tokens, 'token')} reserved{again}"


def _of_received(answer: PromptReceived, _one: Seen) -> str:
    tokens = f"{answer.input_tokens:,} + {format_count(answer.output_tokens, 'token')}"
    return f"{tokens}, {format_money(answer.cost_usd)}, {answer.latency_ms} ms, {answer.finish_reason}"


def _of_order_end(end: OrderEnd, one: Seen) -> str:
    if end.failure is None and end.tool_calls:
        return _asked_for(end.tool_calls)
    own = read_text(one.entry) if end.text == "own" else None
    return _line(own or "" if end.failure is None else end.failure)


def _of_due(named: SignalsNamed, one: Seen) -> str:
    if one.type != "CONSOLIDATION_DUE":
        return ""
    said = [f"crossed gates: {', '.join(named.signal_ids)}"] if named.signal_ids else []
    if became := named.remembered_state:
        became = "not answered by memory in time" if became == "unanswered" else became
        said.append(f"the statement {_quoted(read_text(one.entry)) or '(erased)'} is {became}")
    return "; ".join(said)


def _asked_for(calls: Iterable[ToolCall]) -> str:
    said = ", ".join(_call(one.tool_id, one.arguments) for one in calls)
    return said and f"the model asks for {said}"


def _call(tool_id: str, arguments: Any) -> str:
    return f"{make_printable(tool_id)} {_line(json.dumps(arguments, ensure_ascii=False))}"


def _own(one: Seen, ref: str | None) -> str:
    return _quoted(None if one.taken is None or ref is None else find_own_text(one.taken, ref))


def _quoted(text: str | None) -> str:
    return f"“{_line(text)}”" if text else ""


def _line(text: str) -> str:
    return cut(make_printable(" ".join(text.split())), _TEXT_CHARS)


_DETAILS: dict[type, Callable[[Any, Seen], str]] = {
    events.RunRequested: lambda event, one: _own(one, event.input_ref),
    events.IntentDeclared: lambda event, one: _own(one, event.objective_ref),
    events.TookOver: lambda event, _: f"tenure {event.tenure}",
    events.OrderDispatched: _of_dispatch,
    events.OrderEnded: _of_ended,
    events.HostCommandReceived: _of_command,
    events.HostCommandRejected: lambda event, _: event.reason,
    events.IntentConflict: lambda event, _: event.reason,
    events.LifecycleChanged: lambda event, _: event.lifecycle,
    events.StepStarted: lambda event, _: (
        f"a new round takes up {format_count(len(event.steers), 'steer')}" if event.steers else ""
    ),
    events.ToolBatchIssued: lambda event, _: (
        f"the run waits for approval of {', '.join(event.held)}" if event.held else ""
    ),
    events.RunCompleted: lambda event, _: (
        f"the quality gate rejects it: {_line('; '.join(event.faults))}" if event.faults else ""
    ),
    PromptSent: _of_sent,
    PromptReceived: _of_received,
    PromptFailed: lambda said, _: (
        f"{_line(said.message)}; {format_count(said.tokens, 'token')}, {format_money(said.cost_usd)}"
    ),
    PromptRejected: lambda said, _: _line(said.message),
    ToolStarted: lambda said, _: f"{said.tool_id}{f', try {said.number}' if said.number > 1 else ''}",
    OrderEnd: _of_order_end,
    ContextAssembled: lambda said, _: (
        f"memory gives {format_count(len(said.artifact_ids), 'line')}" if said.artifact_ids else ""
    ),
    SignalsNamed: _of_due,
    SignalLogged: lambda said, _: said.signal_id,
}
"""What an entry tells -> what that adds to its sentence; any other event: why the input ended."""
