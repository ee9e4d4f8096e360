"""What happened in a turn, moment by moment, by its entries in the record; for `session show --turn`, demo and drills.

Pure: whoever asks has read the entries. With their bodies the account says more: texts, tokens, arguments, results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import is_call
from hobus.bus.messages.ledger import Entry, session_stream
from hobus.bus.messages.work_order import Receipt, ToolCall
from hobus.bus.record import session_facts as events
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.ends import ENDS, OF_EXECUTORS, end_in, why_failed
from hobus.bus.record.journal import Recorded, own_text, recorded
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.memory import SignalLogged
from hobus.bus.record.payloads.orders import ContextAssembled, OrderEnd, SignalsNamed, ToolStarted
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived, PromptRejected, PromptSent
from hobus.bus.text import cut
from hobus.launch.console.output import counted, money, printable
from hobus.launch.sessions.history import about

_TEXT_CHARS = 100
_SESSION_CHARS = len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx-")
UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"

TOLD = {
    "RunRequested": "the question is recorded",
    "TookOver": "{who} becomes the owner of the session",
    "WO_DISPATCHED": "{who} records order {order}, then sends it out",
    "PROMPT_SENT": "{who} records a prompt for {order}, then calls the model",
    "PROMPT_RECEIVED": "the model's answer for {order} is recorded",
    "PROMPT_FAILED": "a prompt of {order} is closed without an answer: {reason}",
    "PROMPT_REJECTED": "{who} refuses a prompt of {order}: {reason}",
    "TOOL_STARTED": "{who} records that the tool of {order} starts, then runs it",
    "WO_COMPLETED": "{who} ends order {order}",
    "WO_FAILED": "{who} ends order {order} as failed: {reason}",
    "WO_LATE": "{who} ends order {order} too late: it counts no more",
    "OrderEnded": "{who} takes the answer to order {order}",
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
"""Told where they say something that a reader needs: a line of memory, a fault, a steer, a call that waits."""


class Moment(NamedTuple):
    """Something that happened: when (microseconds since 1970), and a sentence."""

    at_us: int
    what: str
    sequence: int | None = None
    """Of its entry; None: it is concluded, or seen elsewhere."""
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What was counted."""

    model_calls: int
    model_calls_unknown: int
    """Of these closed as UNKNOWN_OUTCOME: their answers, if any, are lost."""
    tool_calls: int
    tool_runs: int
    """Times that a tool was begun; more than calls where one that may run twice did."""
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None: a price, or what a call used, is unknown."""


_OF_HOST = (("DEGRADATION", ""), ("TurnDegraded", ""), ("TurnDegraded", "/delivered"))


def entries_of_turn(entries: Sequence[Entry], beginning: Entry) -> list[Entry]:
    """Return the entries that belong to the turn that `beginning` begins, in the order of the record.

    `beginning`: its RunRequested; of a turn that never had a run, its TurnDegraded. `entries`: of its session.
    """
    session_id, run_seq = beginning.provenance.session_id, beginning.provenance.run_seq
    input_id = beginning.submission_id.partition("/")[2].partition("/")[0]
    journal = session_stream(session_id)
    ends = [one for one in entries if one.event_type in ENDS and _is_of_run(one, beginning)]
    last = max((one.sequence for one in ends), default=None)
    # What the host did for an input whose run had failed names the input and no run.
    of_host = {f"{event_type}:{session_id}/{input_id}{end}" for event_type, end in _OF_HOST}

    def belongs(one: Entry) -> bool:
        if one.provenance.session_id != session_id and one.stream != journal:
            return False
        if _has_trace_of(one, beginning) or (run_seq and one.provenance.run_seq == run_seq):
            return True
        if run_seq and f"{session_id}-{run_seq}-" in one.submission_id:  # a signal, which names it in its id alone
            return True
        if one.submission_id in of_host or one.provenance.work_order_id == f"WO-DEGRADED-{input_id}":
            return True
        # Take-overs and commands name no run of their own: they fall into the time of one.
        is_meanwhile = beginning.sequence < one.sequence and (last is None or one.sequence < last)
        return bool(run_seq) and one.stream == journal and not one.provenance.run_seq and is_meanwhile

    return sorted((one for one in entries if belongs(one)), key=lambda one: one.sequence)


def _is_of_run(one: Entry, beginning: Entry) -> bool:
    about = one.provenance
    return about.session_id == beginning.provenance.session_id and (
        _has_trace_of(one, beginning) or (about.run_seq != 0 and about.run_seq == beginning.provenance.run_seq)
    )


def _has_trace_of(one: Entry, beginning: Entry) -> bool:
    """Return whether an entry is of the turn; most entries of a session name none: their ids say it."""
    return one.trace != "" and one.trace == beginning.trace


def short(wo_id: str) -> str:
    """Return `3.1.1` of the session's long id: run, round, step; other orders by what they are for."""
    if wo_id.startswith("WO-CONS-"):
        return "of the consolidation"
    if wo_id.startswith("WO-DEGRADED-"):
        return "of the degraded answer"
    return wo_id.removeprefix("WO-")[_SESSION_CHARS:]


def moments_in(entries: Iterable[Entry]) -> list[Moment]:
    """Return what these entries tell, in their order, without what a reader need not know."""
    found: list[Moment] = []
    signals: list[Moment] = []
    entries = list(entries)
    told_elsewhere = {entry.provenance.work_order_id for entry in entries if entry.event_type in OF_EXECUTORS}
    for entry in entries:
        if entry.event_type == "OrderEnded" and entry.provenance.work_order_id in told_elsewhere:
            continue
        found += _earlier(entry)
        moment = _moment(entry)
        if moment is not None:
            (signals if entry.event_type == "HO3_SIGNAL" else found).append(moment)
    if signals:
        names = ", ".join(one.what for one in signals)
        what = f"memory logs {counted(len(signals), 'signal')}: {names} (from #{signals[0].sequence})"
        found.append(signals[0]._replace(what=what))
    return found


def _earlier(entry: Entry) -> list[Moment]:
    taken = _taken(entry) if is_session_stream(entry.stream) else None
    told = [] if taken is None else [Recorded(entry.submission_id, one, ()) for one in taken.earlier]
    return [
        Moment(entry.ledger_at_us, f"{said} (#{entry.sequence})", entry.sequence, one.event.event.entry_name)
        for one in told
        if (said := _of_event(one))
    ]


def _taken(entry: Entry) -> Recorded | None:
    try:
        return recorded(entry)
    except ValueError:  # of another version, or forged
        return None


def _moment(entry: Entry) -> Moment | None:
    """Return the entry's moment; None for what is not told; of a signal its name alone."""
    if entry.event_type in TOLD:
        what = sentence(entry)
    elif entry.event_type in _ONLY_IF_SAID and (said := _detail(entry)):
        what = f"{said} (#{entry.sequence})"
    elif entry.event_type == "HO3_SIGNAL":
        what = _detail(entry) or entry.submission_id
    else:
        return None
    return Moment(entry.ledger_at_us, what, entry.sequence, entry.event_type)


def restarts_in(entries: Iterable[Entry]) -> list[Moment]:
    """Return processes that wrote as one incarnation and go on as another: the one before was killed or has ended."""
    seen: dict[str, set[str]] = {}
    found: list[Moment] = []
    for entry in entries:
        actor, _, incarnation = entry.origin.partition("@")
        lives = seen.setdefault(actor, set())
        if lives and incarnation not in lives:
            found.append(Moment(entry.ledger_at_us - 1, f"{actor} has ended, and goes on as {entry.origin}"))
        lives.add(incarnation)
    return found


def account_of(entries: Sequence[Entry]) -> list[Moment]:
    """Return the whole account of a turn by its entries alone, in the order of time."""
    return sorted([*moments_in(entries), *restarts_in(entries)], key=lambda one: one.at_us)


def totals_of(entries: Sequence[Entry]) -> Totals:
    """Count over these entries; tokens and money need their bodies."""
    began = [one.provenance.work_order_id for one in entries if one.event_type == "TOOL_STARTED"]
    # A tool that only reads leaves no start: its call is there by its order alone.
    sent = {one.provenance.work_order_id for one in entries if one.event_type == "WO_DISPATCHED"}
    calls = {*began, *filter(is_call, sent)}
    received = [payload_in(PromptReceived, one) for one in entries if one.event_type == "PROMPT_RECEIVED"]
    failed = [payload_in(PromptFailed, one) for one in entries if one.event_type == "PROMPT_FAILED"]
    costs = [None if one is None else one.cost_usd for one in (*received, *failed)]
    known = [cost for cost in costs if cost is not None]
    return Totals(
        model_calls=sum(one.event_type == "PROMPT_SENT" for one in entries),
        model_calls_unknown=sum(one.event_type == "PROMPT_FAILED" and one.reason == UNKNOWN_OUTCOME for one in entries),
        tool_calls=len(calls),
        tool_runs=len(began) + len(calls.difference(began)),
        input_tokens=sum(one.input_tokens for one in received if one is not None),
        output_tokens=sum(one.output_tokens for one in received if one is not None),
        cost_usd=sum(known) if len(known) == len(costs) else None,
    )


def sentence(entry: Entry) -> str:
    """Return what an entry of `TOLD` says, with what its bodies add, and its number."""
    wo_id = entry.provenance.work_order_id or ""
    order = short(wo_id) if wo_id.startswith("WO-") else wo_id
    text = TOLD[entry.event_type].format(
        who=entry.origin.partition("@")[0], order=order or "the turn", reason=entry.reason or "no reason given"
    )
    detail = _detail(entry)
    return f"{text}{detail and f': {detail}'} (#{entry.sequence})"


def _detail(entry: Entry) -> str:
    """Return what the bodies of an entry add, in a few words; empty: nothing, or they were erased or not asked for."""
    if not entry.bodies or entry.bodies[0] is None:
        return ""
    try:
        if is_session_stream(entry.stream):
            taken = recorded(entry)
            return "" if taken is None else _of_event(taken)
        return _of_payload(entry)
    except ValueError:  # of another version, or forged: its sentence stands alone
        return ""


def _of_event(taken: Recorded) -> str:
    event = taken.event.event
    match event:
        case events.RunRequested(input_ref=ref) | events.IntentDeclared(objective_ref=ref):
            return _quoted(own_text(taken, ref))
        case events.TookOver(tenure=tenure):
            return f"tenure {tenure}"
        case events.OrderDispatched() | events.OrderEnded():
            return _of_an_order(event, taken)
        case events.HostCommandReceived(command=command, principal=principal, door=door):
            words = f"{command.command.kind.lower()} {_quoted(about(command, taken))}".rstrip()
            return f"{words}, by {SaidBy(principal, door)}"
        case events.HostCommandRejected(reason=reason) | events.IntentConflict(reason=reason):
            return reason
        case events.LifecycleChanged(lifecycle=lifecycle):
            return lifecycle
        case events.StepStarted(steers=[_, *_] as steers):
            return f"a new round takes up {counted(len(steers), 'steer')}"
        case events.ToolBatchIssued(held=[_, *_] as held):
            return f"the run waits for approval of {', '.join(held)}"
        case events.RunCompleted(faults=[_, *_] as faults):
            return f"the quality gate rejects it: {_line('; '.join(faults))}"
        case _:
            return _of_end(taken)


def _of_an_order(event: events.OrderDispatched | events.OrderEnded, taken: Recorded) -> str:
    match event:
        case events.OrderDispatched(order={"tool_call": {"tool_id": tool_id, "arguments": arguments}}):
            return f"tool {_call(str(tool_id), arguments)}"
        case events.OrderDispatched(wo_type=wo_type):
            return wo_type
        case events.OrderEnded():
            output = Receipt.model_validate(event.receipt).output_result
            if is_call(event.wo_id):
                return _quoted(None if output is None or output.text.ref is None else own_text(taken, output.text.ref))
            return _asked_for(output.tool_calls if output is not None else ())


def _asked_for(calls: Sequence[ToolCall]) -> str:
    said = ", ".join(_call(one.tool_id, one.arguments) for one in calls)
    return said and f"the model asks for {said}"


def _of_end(taken: Recorded) -> str:
    """Return why an input ended, where the entry has no full answer."""
    end = end_in(taken.event.event, taken)
    if end is None:
        return ""
    return ", ".join(part for part in (end.code, _line(end.reason), _line(why_failed(taken, end) or "")) if part)


def _of_payload(entry: Entry) -> str:
    known = _PAYLOADS.get(entry.event_type)
    payload = None if known is None else payload_in(known[0], entry)
    return "" if known is None or payload is None else known[1](payload, entry)


def _of_sent(sent: PromptSent, entry: Entry) -> str:
    attempt = entry.submission_id.rpartition("/")[2]
    again = f", attempt {attempt}" if attempt.isdigit() and attempt != "1" else ""
    return f"{sent.provider_id}/{sent.model_id}, {counted(sent.reserved_tokens, 'token')} reserved{again}"


def _of_received(answer: PromptReceived, _entry: Entry) -> str:
    tokens = f"{answer.input_tokens:,} + {counted(answer.output_tokens, 'token')}"
    return f"{tokens}, {money(answer.cost_usd)}, {answer.latency_ms} ms, {answer.finish_reason}"


def _of_failed(failed: PromptFailed, _entry: Entry) -> str:
    return f"{_line(failed.message)}; {counted(failed.tokens, 'token')}, {money(failed.cost_usd)}"


def _of_started(started: ToolStarted, _entry: Entry) -> str:
    return f"{started.tool_id}{f', try {started.number}' if started.number > 1 else ''}"


def _of_context(context: ContextAssembled, _entry: Entry) -> str:
    return f"memory gives {counted(len(context.artifact_ids), 'line')}" if context.artifact_ids else ""


def _of_due(named: SignalsNamed, entry: Entry) -> str:
    crossed = [f"crossed gates: {', '.join(named.signal_ids)}"] if named.signal_ids else []
    if not named.remembered_state:
        return "; ".join(crossed)
    said = entry.bodies[1] if len(entry.bodies) > 1 else None
    statement = _quoted(None if said is None else said.decode("utf-8", "replace")) or "(erased)"
    became = "not answered by memory in time" if named.remembered_state == "unanswered" else named.remembered_state
    return "; ".join([*crossed, f"the statement {statement} is {became}"])


def _of_order(end: OrderEnd, entry: Entry) -> str:
    if end.failure is not None:
        return _line(end.failure)
    if end.tool_calls:
        return _asked_for(end.tool_calls)
    own = entry.bodies[1] if end.text == "own" and len(entry.bodies) > 1 else None
    return "" if own is None else _line(own.decode("utf-8", "replace"))


def _call(tool_id: str, arguments: Any) -> str:
    return f"{printable(tool_id)} {_line(json.dumps(arguments, ensure_ascii=False))}"


def _quoted(text: str | None) -> str:
    return f"“{_line(text)}”" if text else ""


def _line(text: str) -> str:
    return cut(printable(" ".join(text.split())), _TEXT_CHARS)


_PAYLOADS: dict[str, tuple[Any, Callable[[Any, Entry], str]]] = {
    "PROMPT_SENT": (PromptSent, _of_sent),
    "PROMPT_RECEIVED": (PromptReceived, _of_received),
    "PROMPT_FAILED": (PromptFailed, _of_failed),
    "PROMPT_REJECTED": (PromptRejected, lambda one, _entry: _line(one.message)),
    "TOOL_STARTED": (ToolStarted, _of_started),
    **dict.fromkeys(("WO_COMPLETED", "WO_FAILED", "WO_LATE"), (OrderEnd, _of_order)),
    "CONTEXT_ASSEMBLED": (ContextAssembled, _of_context),
    "CONSOLIDATION_DUE": (SignalsNamed, _of_due),
    "HO3_SIGNAL": (SignalLogged, lambda one, _entry: one.signal_id),
}
"""Event type -> its payload, and what that adds."""
