"""Streams `ho1m`, `ho2m` and `ho2_context_authority`: how orders end, and what explains a run beside its journal.

An entry's provenance names its session, run and order, its reason the code of a failure, its parents what it rests on.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from hobus.bus.messages.ids import RunId, derive_body_ref, derive_writer_id, format_iso, parse_iso
from hobus.bus.messages.work_order import (
    Cost,
    Fence,
    OutputResult,
    Receipt,
    Segment,
    ToolCall,
    ToolFile,
    WorkOrder,
    WorkOrderError,
)
from hobus.bus.record.entry import Entry, WriteEntry
from hobus.bus.record.payload import read_payload

ToldPeople = Literal["printed", "traceback"]

_ANSWER = "PROMPT_RECEIVED:"
_NO_TEXT, _OWN_TEXT = "", "own"
_NOTHING = OutputResult()


class ToolStarted(NamedTuple):
    """TOOL_STARTED: a tool call begins; its arguments stand in the order.

    Nobody waits for that of a tool that only reads and may run again.
    """

    tool_id: Annotated[str, Meta(description="name of the tool")]
    idempotent: Annotated[bool, Meta(description="whether it may run again")]
    number: Annotated[int, Meta(description="which try this is, from 1")]


class OrderEnd(NamedTuple):
    """WO_COMPLETED, WO_FAILED and WO_LATE: the receipt, but for its texts and what the entry itself says."""

    session_epoch: Annotated[int, Meta(description="of the fence")]
    step_epoch: Annotated[int, Meta(description="of the fence")]
    used: Annotated[Cost, Meta(description="its cost")]
    failure: Annotated[str | None, Meta(description="why it failed, no prompt text; None: it was completed")] = None
    text: Annotated[
        str,
        Meta(description="its text; empty: none; own: body 1; else a ref"),
    ] = _NO_TEXT
    text_name: Annotated[str, Meta(description="what prompt packs call it")] = ""
    finish_reason: Annotated[str, Meta(description="why the model stopped")] = ""
    tool_calls: Annotated[tuple[ToolCall, ...], Meta(description="tools that the model asks for")] = ()
    parsed: Annotated[dict[str, Any] | None, Meta(description="output of a structured contract; None: text")] = None
    truncated: Annotated[bool, Meta(description="tool output was cut")] = False
    tools_invented: Annotated[tuple[str, ...], Meta(description="asked for, and never told of")] = ()
    tools_missing: Annotated[tuple[str, ...], Meta(description="not told of, as nobody had them")] = ()
    executed_by: Annotated[str, Meta(description="instance that executed it; empty: who wrote the entry")] = ""
    completed_at_us: Annotated[int, Meta(description="microseconds since 1970 UTC; 0: the entry's own time")] = 0
    said: Annotated[
        tuple[ToldPeople, ...],
        Meta(description="what its tool told people, not its output: the last bodies, in this order"),
    ] = ()
    tools_withheld: Annotated[tuple[str, ...], Meta(description="not told of, as only a wildcard permits them")] = ()
    files: Annotated[tuple[ToolFile, ...], Meta(description="of a tool: the bodies behind its own text")] = ()


def with_refs(files: Sequence[ToolFile], submission_id: str) -> list[ToolFile]:
    """Return the files of a tool under the refs that they have in this end of their order."""
    return [
        file.model_copy(update={"ref": derive_body_ref(submission_id, number)}) for number, file in enumerate(files, 2)
    ]


def end_of(
    receipt: Receipt,
    submission_id: str,
    *,
    at_us: int,
    has_own_text: bool = False,
    said: tuple[ToldPeople, ...] = (),
) -> OrderEnd:
    """Return what an entry of this id and this time says of a receipt; `has_own_text`: its body 1."""
    result = receipt.output_result or _NOTHING
    is_writer = submission_id.endswith(f":{derive_writer_id(receipt.wo_id, receipt.executed_by)}")
    is_now = format_iso(at_us / 1_000_000) == receipt.completed_at
    return OrderEnd(
        session_epoch=receipt.fence.session_epoch,
        step_epoch=receipt.fence.step_epoch,
        used=receipt.cost,
        failure=None if receipt.state == "completed" else "" if receipt.error is None else receipt.error.message,
        text=_OWN_TEXT if has_own_text else result.text.ref or _NO_TEXT,
        text_name=result.text.name,
        finish_reason=result.finish_reason,
        tool_calls=tuple(result.tool_calls),
        parsed=result.parsed,
        truncated=result.truncated,
        tools_invented=tuple(result.tools_invented),
        tools_missing=tuple(result.tools_missing),
        executed_by="" if is_writer else receipt.executed_by,
        completed_at_us=0 if is_now else round(parse_iso(receipt.completed_at) * 1_000_000),
        said=said,
        tools_withheld=tuple(result.tools_withheld),
        files=tuple([file.model_copy(update={"ref": ""}) for file in result.text.files]),
    )


def read_said(entry: Entry) -> dict[str, str]:
    """Return what the tool of an ended order told people: printed, traceback; what was erased is left out.

    Raises ValueError for what is no end of an order.
    """
    end = read_payload(OrderEnd, entry)
    if end is None or not end.said:
        return {}
    texts = zip(end.said, entry.bodies[-len(end.said) :], strict=False)
    return {name: text.decode("utf-8", "replace") for name, text in texts if text is not None}


def read_receipt(entry: Entry | WriteEntry) -> Receipt | None:
    """Return the receipt that an end records, its text blank where it has a ref; None where it was erased.

    Raises ValueError for what is no end of an order.
    """
    end, about = read_payload(OrderEnd, entry), entry.provenance
    if end is None:
        return None
    run_id = RunId(session_id=about.session_id, run_seq=about.run_seq)
    fence = Fence(run_id=run_id, session_epoch=end.session_epoch, step_epoch=end.step_epoch)
    writer = entry.submission_id.partition(":")[2].removeprefix(f"{about.work_order_id}/")
    return Receipt(
        wo_id=about.work_order_id,
        fence=fence,
        state="completed" if end.failure is None else "failed",
        output_result=_read_result(entry, end) if end.failure is None else None,
        error=None if end.failure is None else WorkOrderError(code=entry.reason, message=end.failure),
        cost=end.used,
        prompt_received_ids=[parent for parent in entry.parents if parent.startswith(_ANSWER)],
        executed_by=end.executed_by or writer,
        completed_at=format_iso((end.completed_at_us or entry.at_us) / 1_000_000),
    )


def _read_result(entry: Entry | WriteEntry, end: OrderEnd) -> OutputResult:
    ref = derive_body_ref(entry.submission_id, 1) if end.text == _OWN_TEXT else end.text or None
    return OutputResult(
        text=Segment(name=end.text_name, ref=ref, files=with_refs(end.files, entry.submission_id)),
        parsed=end.parsed,
        tool_calls=list(end.tool_calls),
        finish_reason=end.finish_reason,
        truncated=end.truncated,
        tools_invented=list(end.tools_invented),
        tools_missing=list(end.tools_missing),
        tools_withheld=list(end.tools_withheld),
    )


# --- beside a journal -------------------------------------------------------------------------------------------------


class QualityGate(NamedTuple):
    """WO_QUALITY_GATE: the quality gate's verdict on an answer."""

    faults: Annotated[tuple[str, ...], Meta(description="sentences without the answer's text; empty: none")]
    dropped: Annotated[tuple[str, ...], Meta(description="of a consolidation: kinds of labels left out")] = ()


class Escalation(NamedTuple):
    """ESCALATION: a run gave up on its model's answer, and why."""

    wo_id: Annotated[str, Meta(description="the last order of the run")]
    faults: Annotated[tuple[str, ...], Meta(description="as the quality gate said")]


class RunBudget(NamedTuple):
    """BUDGET_WARNING: the next round of a run exceeds its budget."""

    used: Annotated[int, Meta(description="tokens of its orders so far")]
    budget: Annotated[int, Meta(description="tokens that it may use")]


class SignalsNamed(NamedTuple):
    """CONSOLIDATION_DUE: signals that crossed the gate in this turn, and the result of a statement.

    MEMORY_WARNING: nobody knows whether these count.
    """

    signal_ids: Annotated[tuple[str, ...], Meta(description="ids of signals")]
    remembered_id: Annotated[str, Meta(description="`ART-…` of what the turn stated, body 1; empty: nothing")] = ""
    remembered_state: Annotated[
        Literal["active", "pending", "refused", "unanswered", ""],
        Meta(description="what became of it; unanswered: memory did not say; empty: it stated nothing"),
    ] = ""


class OwnersSettled(NamedTuple):
    """OWNERS_SETTLED: the sequence up to which no session waits for an owner."""

    through: Annotated[int, Meta(description="sequence of the record")]
    living: Annotated[tuple[str, ...], Meta(description="instances that lived then: they may have left something")]


class ConsolidationDispatched(NamedTuple):
    """WO_DISPATCHED: the order of a consolidation and its sources, texts in bodies."""

    order: Annotated[WorkOrder, Meta(description="every text that has a ref is blank")]
    gate: Annotated[dict[str, Any], Meta(description="the gate as it was")]
    as_of_ts: Annotated[str, Meta(description="event time up to which signals count; ISO 8601, UTC")]
    as_of_seq: Annotated[int, Meta(description="sequence of the record up to which they count")] = -1


class StageTrace(NamedTuple):
    """One stage of an attention template's pipeline."""

    stage: Annotated[str, Meta(description="its name; `+relaxed`: run once more, relaxed")]
    type: Annotated[str, Meta(description="ledger_query, history, …")]
    fragments: Annotated[int, Meta(description="that it gave")]
    tokens: Annotated[int, Meta(description="of these")]
    duration_ms: Annotated[int, Meta(description="that it took")]
    status: Annotated[str, Meta(description="ok, truncated, timeout, empty, skipped, failed")]


class FragmentTrace(NamedTuple):
    """Where a piece of a context came from."""

    source: Annotated[str, Meta(description="ledger, registry, file, search, liveness, custom")]
    source_id: Annotated[str, Meta(description="of the entry, the row, the path …")]
    tokens: Annotated[int, Meta(description="of it")]
    relevance_score: Annotated[float | None, Meta(description="0 to 1; None: asked for by name")] = None


class ContextBeside(NamedTuple):
    """The context of another prompt of the turn: of its classification."""

    contract_id: Annotated[str, Meta(description="of the prompt")]
    template_id: Annotated[str, Meta(description="`ATT-…` that filled it")]
    template_version: Annotated[str, Meta(description="of the template")]
    template_hash: Annotated[bytes, Meta(description="SHA-256 of its canonical bytes")]
    max_context_tokens: Annotated[int, Meta(description="that it may take")]
    tokens_assembled: Annotated[int, Meta(description="that it takes")]
    stopped_by: Annotated[str, Meta(description="as of the answer's")]
    stages: Annotated[tuple[StageTrace, ...], Meta(description="of the pipeline, in order")]
    fallback: Annotated[str, Meta(description="as of the answer's")] = ""
    warnings: Annotated[tuple[str, ...], Meta(description="as of the answer's")] = ()
    chosen_by: Annotated[str, Meta(description="as of the answer's")] = "selectors"


class LeftOut(NamedTuple):
    """A learned line that was in force and that the prompt does not show beside its message."""

    artifact_id: Annotated[str, Meta(description="`ART-…`")]
    reason: Annotated[
        Literal["labels", "words", "room", "earlier"],
        Meta(
            description="labels: not the turn's; words: a line that is shown has them; room: the budget was used up; "
            "earlier: one of these, and it stands beside an earlier message"
        ),
    ]


class ContextAssembled(NamedTuple):
    """CONTEXT_ASSEMBLED: a prompt's context and its template; learned lines in bodies."""

    as_of_ts: Annotated[str, Meta(description="event time of the read; ISO 8601, UTC")]
    as_of_seq: Annotated[int | None, Meta(description="sequence up to which memory had read; None: it did not answer")]
    in_force: Annotated[int, Meta(description="artifacts in force")]
    budget: Annotated[int, Meta(description="tokens that the lines may take")]
    tokens_used: Annotated[int, Meta(description="tokens that they take")]
    artifact_ids: Annotated[tuple[str, ...], Meta(description="`ART-…` of each line")] = ()
    domain_labels: Annotated[tuple[str, ...], Meta(description="of the turn")] = ()
    task_labels: Annotated[tuple[str, ...], Meta(description="of the turn")] = ()
    template_id: Annotated[str, Meta(description="`ATT-…` that filled it")] = ""
    template_version: Annotated[str, Meta(description="of the template")] = ""
    template_hash: Annotated[bytes, Meta(description="SHA-256 of its canonical bytes")] = b""
    context_hash: Annotated[bytes, Meta(description="SHA-256 of the context's text")] = b""
    max_context_tokens: Annotated[int, Meta(description="that the whole context may take")] = 0
    tokens_assembled: Annotated[int, Meta(description="that it takes")] = 0
    queries_executed: Annotated[int, Meta(description="questions that were asked for it")] = 0
    elapsed_ms: Annotated[int, Meta(description="that it took")] = 0
    stopped_by: Annotated[
        str, Meta(description="what ended the pipeline: completion, satisfaction, or a limit: tokens, queries, time")
    ] = ""
    stages: Annotated[tuple[StageTrace, ...], Meta(description="of the pipeline, in order")] = ()
    fallback: Annotated[str, Meta(description="of the template, where it came to that; empty: it did not")] = ""
    warnings: Annotated[tuple[str, ...], Meta(description="`<stage>: <why>`; no text of anybody")] = ()
    fragments: Annotated[
        tuple[FragmentTrace, ...], Meta(description="but for history, which the order names, and learned lines")
    ] = ()
    is_cached: Annotated[bool, Meta(description="true: it was assembled before, for the same order")] = False
    chosen_by: Annotated[
        Literal["selectors", "agent", "override", "default"],
        Meta(
            description="selectors; agent: its own list; override: the run or session names it; default: none applies"
        ),
    ] = "selectors"
    shown_by: Annotated[
        str, Meta(description="the order whose context is shown again, as results of its calls came; empty: none")
    ] = ""
    beside: Annotated[
        tuple[ContextBeside, ...], Meta(description="contexts of the turn's other prompts: of its classification")
    ] = ()
    contract_id: Annotated[str, Meta(description="of the prompt; empty: of answers")] = ""
    scores: Annotated[tuple[float, ...], Meta(description="the rank of each line")] = ()
    left_out: Annotated[tuple[LeftOut, ...], Meta(description="the strongest lines that are not shown")] = ()
