"""What a turn did, one thing after the other: orders, calls of models, tools, waits for a person, failures. Pure.

A step begins with one entry and ends with another; between them lies its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import ToolBatchId, get_position, is_call
from hobus.bus.messages.session import Approve, Deny
from hobus.bus.messages.work_order import ToolCall, WorkOrder
from hobus.bus.record import session_facts as events
from hobus.bus.record.ends import ENDS, end_in, explain_failure
from hobus.bus.record.journal import find_own_text
from hobus.bus.record.payloads.orders import ConsolidationDispatched, OrderEnd, ToolStarted, read_said
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived, PromptRejected
from hobus.launch.sessions.evidence import Seen, read_text, short

Kind = Literal["order", "model", "tool", "wait", "refused", "unmade", "run", "supervisor"]
"""model: a call of one; wait: for a person; refused: a prompt that was not sent; unmade: a call of a tool that became
no order; run, supervisor: that failed."""
TIMED = ("order", "model", "tool", "wait")
"""Kinds that take time."""
_PURPOSES = {"synthesize": "answer", "classify": "classification", "consolidate": "consolidation"}
UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"
DENIED = "denied"
"""Code of a call that a person refused: it did not fail."""


@dataclass(slots=True, kw_only=True)
class Step:
    """One thing that the turn did."""

    kind: Kind
    order: str = ""
    """Short id; empty: it is about the whole turn."""
    about: str = ""
    """What the order is for: a tool by its name, `answer`, `classification`; empty: the record does not say."""
    begin_us: int
    end_us: int | None = None
    """Microseconds since 1970, as `begin_us`; None: it has not ended."""
    sequences: list[int]
    """Of its entries, the one that began it first."""
    attempt: int | None = None
    """Of a call of a model, from 1."""
    verdict: Literal["", "done", "failed", "approved", "denied", "undecided"] = ""
    """undecided: the run was over first; empty: it has not ended."""
    code: str = ""
    words: str = ""
    """Why it failed, or was denied; empty: none, or they were erased."""
    by: str = ""
    """Who decided on a call, and where that came from."""
    call_id: str = ""
    """Of a wait: the call that may not run unasked."""
    arguments: dict[str, Any] | None = None
    """Of an order that is a tool call."""
    result: str | None = None
    """The text that a tool call brought."""
    printed: str = ""
    """By its tool, for people."""
    traceback: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A turn in numbers, as its card and its own page have them."""

    totals: Totals
    took_ms: int | None
    """From its first step to its end; None: it has not ended."""
    late_ms: int
    """Behind its end its steps went on for so long: a classification that it did not wait for, a consolidation."""
    failures: int
    """Steps that failed, whatever the turn's end."""
    denied: int
    """Calls that a person refused."""


def failed_in(steps: Iterable[Step]) -> list[Step]:
    """Return what failed, in the order in which that was recorded."""
    return sorted((one for one in steps if one.verdict == "failed"), key=lambda one: one.sequences[-1])


def end_of_turn(turn: Iterable[Seen]) -> int | None:
    """Return when the turn had its answer, or its other end, in microseconds; None: not yet."""
    return next((one.entry.ledger_at_us for one in turn if one.type in ENDS), None)


def figures_of(turn: Sequence[Seen], steps: Sequence[Step]) -> Figures:
    """Return the figures of a turn of which these are all entries, and the steps in them."""
    timed, ended_us = [one for one in steps if one.kind in TIMED], end_of_turn(turn)
    begun_us = min((one.begin_us for one in timed), default=ended_us or 0)
    last_us = max((one.end_us or one.begin_us for one in timed), default=begun_us)
    return Figures(
        totals=totals_of(turn),
        took_ms=None if ended_us is None else max(0, ended_us - begun_us) // 1000,
        late_ms=0 if ended_us is None else max(0, last_us - ended_us) // 1000,
        failures=len(failed_in(steps)),
        denied=sum(one.verdict == DENIED for one in steps),
    )


def steps_in(turn: Iterable[Seen]) -> list[Step]:
    """Return the steps in the order in which they began."""
    fold = _Fold()
    for one in turn:
        fold.take(one)
    return sorted(fold.steps, key=lambda one: (one.begin_us, one.sequences))


def totals_of(turn: Sequence[Seen]) -> Totals:
    """Count over these entries; tokens and money need their bodies."""
    began = [one.wo_id for one in turn if one.type == "TOOL_STARTED"]
    # A tool that only reads leaves no start: its call is there by its order alone.
    calls = {*began, *(one.wo_id for one in turn if one.type == "WO_DISPATCHED" and is_call(one.wo_id))}
    ends = [one.said for one in turn if one.type in ("PROMPT_RECEIVED", "PROMPT_FAILED")]
    answers = [one for one in ends if isinstance(one, PromptReceived)]
    costs = [None if one is None else one.cost_usd for one in ends]
    unsent = sum(isinstance(one, PromptFailed) and not one.was_sent for one in ends)  # recorded, and never made
    known = [cost for cost in costs if cost is not None]
    return Totals(
        model_calls=sum(one.type == "PROMPT_SENT" for one in turn) - unsent,
        model_calls_unknown=sum(one.type == "PROMPT_FAILED" and one.entry.reason == UNKNOWN_OUTCOME for one in turn),
        tool_calls=len(calls),
        tool_runs=len(began) + len(calls.difference(began)),
        input_tokens=sum(one.input_tokens for one in answers),
        output_tokens=sum(one.output_tokens for one in answers),
        cost_usd=sum(known) if len(known) == len(costs) else None,
    )


@dataclass(slots=True)
class _Fold:
    """Steps so far, and what a later entry needs to be told apart."""

    steps: list[Step] = field(default_factory=list[Step])
    open: dict[str, Step] = field(default_factory=dict[str, Step])
    asked: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    """Calls in the model's newest answer that asks for any."""
    decisions: dict[str, tuple[Approve | Deny, str, int]] = field(
        default_factory=dict[str, tuple[Approve | Deny, str, int]]
    )
    """By the command's id: what it says, who gave it, and its entry."""

    def take(self, one: Seen) -> None:
        match one.type:
            case "WO_DISPATCHED":
                self._begin("order", f"order {one.wo_id}", one, **_of_order(one.said))
            case "PROMPT_SENT" | "PROMPT_RECEIVED" | "PROMPT_FAILED" | "PROMPT_REJECTED":
                self._prompt(one)
            case "TOOL_STARTED":
                about = {"about": one.said.tool_id} if isinstance(one.said, ToolStarted) else {}
                self._begin("tool", f"tool {one.entry.sequence}", one, **about)
            case "WO_COMPLETED" | "WO_FAILED" | "WO_LATE" | "OrderEnded":
                self._order_ended(one)
            case "DEGRADATION":
                self._fail("supervisor", one.type, one, "")
            case "RunFailed":
                end = None if one.taken is None else end_in(one.said, one.taken)
                words = "" if one.taken is None or end is None else explain_failure(one.taken, end) or ""
                self._fail("run", one.type, one, words, "" if end is None else end.code)
            case _:
                pass
        for fact in () if one.taken is None else one.taken.facts:
            self._fact(fact, one)
        if one.type in ENDS:
            for name in [name for name in self.open if name.startswith("wait ")]:
                self._end(name, one, "wait").verdict = "undecided"

    def _begin(self, kind: Kind, name: str, one: Seen, **values: Any) -> Step:
        known = self.open.get(f"order {one.wo_id}")
        values = {"order": short(one.wo_id), "about": "" if known is None else known.about} | values
        at_us = one.entry.ledger_at_us
        step = Step(kind=kind, begin_us=at_us, sequences=[one.entry.sequence], **values)
        self.open[name] = step
        self.steps.append(step)
        return step

    def _end(self, name: str, one: Seen, kind: Kind) -> Step:
        """End what was begun under this name; what has no beginning here begins and ends with this entry."""
        step = self.open.get(name)
        if step is None:
            step = self._begin(kind, name, one)
        elif one.entry.sequence not in step.sequences:
            step.sequences.append(one.entry.sequence)
        if kind != "order":  # whose purpose is asked for again
            self.open.pop(name)
        step.end_us = one.entry.ledger_at_us if step.end_us is None else step.end_us
        step.verdict = step.verdict or "done"
        return step

    def _fail(self, kind: Kind, name: str, one: Seen, words: str, code: str = "") -> Step:
        step = self._end(name, one, kind)
        step.verdict, step.code, step.words = "failed", code or one.entry.reason, words
        return step

    def _prompt(self, one: Seen) -> None:
        call = one.entry.submission_id.partition(":")[2]
        match one.type:
            case "PROMPT_SENT":
                number = call.rpartition("/")[2]
                attempt = int(number) if number.isascii() and number.isdigit() else None
                self._begin("model", f"call {call}", one, attempt=attempt)
            case "PROMPT_RECEIVED":
                self._end(f"call {call}", one, "model")
            case _:
                words = one.said.message if isinstance(one.said, PromptFailed | PromptRejected) else ""
                kind = "model" if one.type == "PROMPT_FAILED" else "refused"
                self._fail(kind, f"call {call}" if kind == "model" else one.type, one, words)

    def _order_ended(self, one: Seen) -> None:
        name, end, receipt = f"order {one.wo_id}", one.said, one.receipt
        known, error = self.open.get(name), None if receipt is None else receipt.error
        if one.type == "OrderEnded" and known is not None and known.end_us is not None:
            step = known  # its executor's own entry says it
        elif one.type == "WO_FAILED" or (error is not None and one.type == "OrderEnded"):  # that no executor ended
            words, code = ("", "") if error is None else (error.message, error.code)
            step = self._fail("order", name, one, words, code)
        else:
            step = self._end(name, one, "order")
        for number in [key for key, each in self.open.items() if each.kind == "tool" and each.order == step.order]:
            self._end(number, one, "tool")
        output = None if receipt is None else receipt.output_result
        if output is not None and output.tool_calls:
            self.asked = {call.call_id: call for call in output.tool_calls}
        if isinstance(end, OrderEnd):
            said = read_said(one.entry)
            step.printed, step.traceback = said.get("printed", ""), said.get("traceback", "")
            step.about = step.about or next(iter(end.used.tool_ids_used), "")
        if is_call(one.wo_id) and output is not None and step.result is None:
            own = read_text(one.entry) if isinstance(end, OrderEnd) and end.text == "own" else None
            ref = output.text.ref
            step.result = own if one.taken is None or ref is None else find_own_text(one.taken, ref)

    def _fact(self, fact: events.SessionFact, one: Seen) -> None:
        match fact:
            case events.ToolBatchIssued(tool_batch_id=batch, held=held):
                for name in map(get_position, held):
                    self._begin("wait", f"wait {name}", one, call_id=name, **self._of_call(batch, name))
            case events.ToolReceipt(tool_batch_id=batch, call_id=name, status="Failed", code=code) if code != DENIED:
                self._begin("unmade", f"unmade {name}", one, **self._of_call(batch, name))
                self._fail("unmade", f"unmade {name}", one, "", code)
            case events.TurnDegraded(reason=reason):
                for step in self.steps:
                    step.words = reason if step.kind == "supervisor" else step.words
            case events.HostCommandReceived(command=command) if isinstance(command.command, Approve | Deny):
                by = ", ".join(filter(None, (str(SaidBy(fact.principal, fact.door)), fact.person)))
                self.decisions[command.command_id] = command.command, by, one.entry.sequence
            case events.HostCommandApplied(command_id=command_id) if command_id in self.decisions:
                decision, by, received = self.decisions[command_id]
                name = f"wait {get_position(decision.call_id)}"
                if (waiting := self.open.get(name)) is not None:
                    waiting.sequences.append(received)
                    self._end(name, one, "wait").by = by
                    waiting.verdict = "denied" if isinstance(decision, Deny) else "approved"
                    waiting.words = (decision.reason or "") if isinstance(decision, Deny) else ""
            case _:
                pass

    def _of_call(self, batch: ToolBatchId, name: str) -> dict[str, Any]:
        """Return what is known of a call by its position in the newest answer."""
        step, tool = batch.step_id, self.asked.get(name)
        order = f"{step.turn_id.run_id.run_seq}.{step.turn_id.turn_seq}.{step.step_seq}.{name}"
        about, arguments = ("", None) if tool is None else (tool.tool_id, tool.arguments)
        return {"order": order, "about": about, "arguments": arguments}


def _of_order(said: Any) -> dict[str, Any]:
    """Return what an order is for, in people's words; a call of a tool with that one's name and arguments."""
    match said:
        case events.OrderDispatched(order=WorkOrder(tool_call=ToolCall() as call)):
            return {"about": call.tool_id, "arguments": call.arguments}
        case events.OrderDispatched(wo_type=wo_type):
            return {"about": _PURPOSES.get(wo_type, "")}
        case ConsolidationDispatched():
            return {"about": "consolidation"}
        case _:
            return {}
