"""Why a turn was answered as it was: what its models were shown and where that stands in the record. Pure.

Every fact names the entry that it was read from. The prompts are word for word what the provider got. Of prompts tells
`why_prompts.py`, of memory `why_memory.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hobus.bus.lanes import role_of
from hobus.bus.messages.base import named
from hobus.bus.messages.ids import called_session, is_beside
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import ModelChoice
from hobus.bus.messages.work_order import CLASSIFICATION
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.payloads.orders import (
    ContextAssembled,
    ContextBeside,
    FragmentTrace,
    QualityGate,
    StageTrace,
)
from hobus.bus.record.payloads.prompts import PromptSent
from hobus.bus.record.session_facts import RunCompleted, RunRequested
from hobus.config.attention_template import CLASSIFICATIONS, CONSOLIDATIONS
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import Evidence, body_of, receipt_of
from hobus.launch.sessions.provenance import Configuration, Used, named_by_run, used_in
from hobus.launch.sessions.tool_texts import ToolText, texts_in
from hobus.launch.sessions.why_failed import (
    FailureSeen,
    Purpose,
    WaitSeen,
    event_of,
    failures_in,
    orders_of_type,
    purposes_in,
    waits_in,
)
from hobus.launch.sessions.why_memory import GateSeen, MemoryShown, gates_seen, learned_in, memory_shown
from hobus.launch.sessions.why_prompts import PromptShown, ShownStretch, prompt_shown, with_learned

_SPANS = {
    "WO_DISPATCHED": ("order", ("WO_COMPLETED", "WO_FAILED", "WO_LATE", "OrderEnded")),
    "PROMPT_SENT": ("model", ("PROMPT_RECEIVED", "PROMPT_FAILED")),
    "TOOL_STARTED": ("tool", ("WO_COMPLETED", "WO_FAILED", "WO_LATE")),
}
"""What begins something that takes time: what it is, and the entries that end it."""
_BESIDE = ("INTENT_", "PROJECTION_", "ESCALATION", "BUDGET_WARNING", "DEGRADATION", "MEMORY_WARNING")
"""Beginnings of the names of entries that are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that took time: from and to, in microseconds since 1970; `to` None: it was never ended."""

    what: str
    order: str
    begin_us: int
    end_us: int | None
    sequences: tuple[int, ...]
    about: str = ""
    """What the order is for: a tool by its name, `answer`, `classification`; empty: the record does not say."""
    arguments: dict[str, Any] | None = None
    """Of the order's tool call; None: it is of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSeen:
    """An entry as it is."""

    event: str
    sequence: int
    decision: str
    says: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that the record has about why."""

    classification: dict[str, Any] | None
    classified: int | None
    """Sequence of the classification's end; None: there was none."""
    failures: tuple[FailureSeen, ...]
    waits: tuple[WaitSeen, ...]
    prompts: tuple[PromptShown, ...]
    contexts: tuple[ContextSeen, ...]
    memory: MemoryShown | None
    gates: tuple[GateSeen, ...]
    quality: tuple[FactSeen, ...]
    beside: tuple[FactSeen, ...]
    spans: tuple[Span, ...]
    late_ms: int = 0
    """Of their time, so much lies behind the answer: of a classification that it did not wait for."""
    model: str = ""
    """`PROVIDER/MODEL` that is asked for the answer, and who named it; empty: none is, or the record does not say."""
    config_digest: str = ""
    made_of: tuple[Used, ...] = ()
    """Under which versions of agent, contracts, prompt packs, template and settings."""
    missing: tuple[str, ...] = ()
    """What could not be told, in sentences."""
    called_by: str = ""
    """The turn whose agent called this one; empty: a client asked."""
    calls: tuple[str, ...] = ()
    """Turns of agents that this one called, and that answered; of others the failure names it."""
    tool_texts: tuple[ToolText, ...] = ()
    """What its tools printed, and their tracebacks."""


def explain(found: Evidence) -> Explanation:
    by_id = {entry.submission_id: entry for entry in (*found.elsewhere, *found.session, *found.turn)}
    sent = [(entry, said) for entry in found.turn if isinstance(said := body_of(entry), PromptSent)]
    sent.sort(key=lambda one: not is_beside(one[0].provenance.work_order_id))  # the last one asked for the answer
    digest = named_by_run(found.turn)
    missing = [] if found.rules is not None or not sent else [_lacking(found.configurations.get(digest))]
    classified, labels = _classification(found.turn)
    waits = waits_in(found.turn)
    shown = memory_shown(found)
    learned = learned_in(found, shown)
    return Explanation(
        classification=labels,
        classified=None if classified is None else classified.sequence,
        failures=failures_in(found.turn),
        waits=waits,
        prompts=tuple(
            with_learned(prompt_shown(entry, said, found.turn, by_id, found.rules), learned) for entry, said in sent
        ),
        memory=shown,
        gates=gates_seen(found),
        quality=tuple(_judgements(found.turn)),
        beside=tuple(_fact(entry) for entry in found.turn if entry.event_type.startswith(_BESIDE)),
        spans=spans_in(found.turn, waits),
        late_ms=late_ms_in(found.turn),
        model=_model_in(found.turn),
        config_digest=digest,
        made_of=used_in(found.turn, found.configurations),
        contexts=contexts_in(found.turn),
        missing=tuple(missing),
        called_by=_called_by(found.turn),
        calls=tuple(f"{called_session(_order_of(one))}-1" for one in found.turn if _is_call(one)),
        tool_texts=tuple(texts_in(found.turn)),
    )


def _called_by(turn: Sequence[Entry]) -> str:
    asked = [event_of(entry) for entry in turn if is_session_stream(entry.stream)]
    orders = [one.called_by for one in asked if isinstance(one, RunRequested) and one.called_by]
    return orders[0].removeprefix("WO-").partition(".")[0] if orders else ""


def _order_of(entry: Entry) -> str:
    return entry.provenance.work_order_id or ""


def _is_call(entry: Entry) -> bool:
    """Return whether the entry ends an order that another agent answered for a supervisor: workers end all others."""
    return entry.event_type == "WO_COMPLETED" and role_of(entry.origin) == "ho2"


def _lacking(recorded: Configuration | None) -> str:
    why = "the record lacks the configuration that the turn ran under"
    if recorded is not None and recorded.body:
        why = f"the configuration that the turn ran under (#{recorded.sequence}) is of another version"
    return f"{why}: texts of prompt packs are not shown"


# --- what was made of the message -------------------------------------------------------------------------------------


def _classification(turn: Sequence[Entry]) -> tuple[Entry | None, dict[str, Any] | None]:
    orders = orders_of_type(turn, "classify") | {
        one.provenance.work_order_id
        for one in turn
        if isinstance(said := body_of(one), PromptSent) and CLASSIFICATION in said.domain_tags
    }
    for one in turn:
        if one.provenance.work_order_id in orders and (receipt := receipt_of(one)) is not None:
            return one, receipt.output_result and receipt.output_result.parsed
    return None, None


def _judgements(turn: Sequence[Entry]) -> Iterator[FactSeen]:
    """Yield what the quality gate said of the answer, and of what consolidations brought."""
    for entry in turn:
        match event_of(entry) if is_session_stream(entry.stream) else body_of(entry):
            case RunCompleted(faults=faults):
                said, decision = {"faults": faults}, "REJECTED" if faults else "ACCEPTED"
                yield FactSeen(event="RunCompleted", sequence=entry.sequence, decision=decision, says=said)
            case QualityGate():
                yield _fact(entry)
            case _:
                pass


def _fact(entry: Entry) -> FactSeen:
    said = body_of(entry)
    says = dict(named(said)) if isinstance(said, tuple) and hasattr(said, "_fields") else {}
    if entry.reason:
        says["reason"] = entry.reason
    return FactSeen(event=entry.event_type, sequence=entry.sequence, decision=entry.decision, says=says)


# --- time -------------------------------------------------------------------------------------------------------------


def _model_in(turn: Sequence[Entry]) -> str:
    for entry in turn:
        match event_of(entry) if is_session_stream(entry.stream) else None:
            case RunRequested(model=ModelChoice() as chosen):
                named = "the default" if chosen.named_by == "default" else f"named by the {chosen.named_by}"
                return f"{chosen.provider}/{chosen.model}, {named}"
            case _:
                pass
    return ""


def spans_in(turn: Sequence[Entry], waits: Iterable[WaitSeen] = ()) -> tuple[Span, ...]:
    """Return orders, model calls, tool runs and waits for a person, in the order in which they began."""
    spans = [
        Span(
            what=f"waited for approval: {one.verdict}" if one.verdict else "waits for approval",
            order=one.order,
            begin_us=one.begin_us,
            end_us=one.end_us,
            sequences=one.sequences,
            about=one.tool_id,
        )
        for one in waits
    ]
    purposes = purposes_in(turn)
    for entry in turn:
        if entry.event_type not in _SPANS:
            continue
        what, ends = _SPANS[entry.event_type]
        purpose = purposes.get(_order_of(entry), Purpose())
        end = next((one for one in turn if one.event_type in ends and _ends(entry, one)), None)
        spans.append(
            Span(
                what=what,
                order=short(entry.provenance.work_order_id or ""),
                begin_us=entry.ledger_at_us,
                end_us=None if end is None else end.ledger_at_us,
                sequences=(entry.sequence,) if end is None else (entry.sequence, end.sequence),
                about=purpose.about,
                arguments=purpose.arguments,
            )
        )
    return tuple(sorted(spans, key=lambda one: (one.begin_us, one.sequences)))


def late_ms_in(turn: Sequence[Entry]) -> int:
    """Return how long after its answer a turn's classification had its end; 0: before it."""
    answered = [one.ledger_at_us for one in turn if one.event_type == "RunCompleted"]
    beside = [one.ledger_at_us for one in turn if is_beside(one.provenance.work_order_id)]
    return max(0, max(beside) - answered[0]) // 1000 if answered and beside else 0


def _ends(begin: Entry, end: Entry) -> bool:
    if begin.event_type == "PROMPT_SENT":
        return end.submission_id.partition(":")[2] == begin.submission_id.partition(":")[2]
    same = end.provenance.work_order_id == begin.provenance.work_order_id
    return same and end.sequence > begin.sequence


# --- two turns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDifference:
    """A stretch of the last prompt of two turns, where it is not the same in both; None: it is not there."""

    name: str
    before: str | None
    after: str | None


def differences(before: Explanation, after: Explanation) -> list[PromptDifference]:
    """Compare the prompts that asked for the two answers, by the names of their stretches, in their order."""
    left, right = (_by_name(one.prompts[-1].shown if one.prompts else ()) for one in (before, after))
    names = dict.fromkeys([*right, *left])
    return [
        PromptDifference(name=name, before=left.get(name), after=right.get(name))
        for name in names
        if left.get(name) != right.get(name)
    ]


def _by_name(shown: Iterable[ShownStretch]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    for one in shown:
        texts.setdefault(f"{one.role} {one.name}", []).append(one.text)
    return {name: "".join(parts) for name, parts in texts.items()}


def settings_of(one: Explanation) -> dict[str, Any]:
    """Return what a prompt was asked under, to be held against that of another turn."""
    last = one.prompts[-1] if one.prompts else None
    return {
        "config_digest": one.config_digest,
        "model": "" if last is None else f"{last.provider_id}/{last.model_id}",
        "prompt_pack": "" if last is None else last.prompt_pack_id,
        "contract": "" if last is None else last.contract_id,
        "tools": [] if last is None else list(last.tools),
        "classification": one.classification,
        "memory": [] if one.memory is None else [line.artifact_id for line in one.memory.shown],
        "rounds": len(one.prompts),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSeen:
    """What a prompt was given beside its message, and how that came about."""

    sequence: int
    what: str
    """answer, classification, consolidation."""
    template_id: str
    template_version: str
    chosen_by: str
    tokens: int
    max_tokens: int
    queries: int = 0
    elapsed_ms: int
    stopped_by: str
    fallback: str
    is_cached: bool = False
    shown_by: str = ""
    """Short id of the order whose context it is; empty: it was assembled for this turn."""
    stages: tuple[StageTrace, ...]
    fragments: tuple[FragmentTrace, ...] = ()
    warnings: tuple[str, ...]


def contexts_in(turn: Iterable[Entry]) -> tuple[ContextSeen, ...]:
    """Return each context of the turn, in the order of the record; erased ones are left out."""
    assembled = ((one, said) for one in turn if isinstance(said := body_of(one), ContextAssembled))
    return tuple(seen for one, said in assembled for seen in _contexts(one.sequence, said))


_WHAT = {CLASSIFICATIONS: "classification", CONSOLIDATIONS: "consolidation"}


def _contexts(sequence: int, said: ContextAssembled) -> Iterator[ContextSeen]:
    """Yield contexts; the classification's goes before the answer's, as it was assembled."""
    for one in said.beside:
        yield _seen(sequence, one, else_what="other", elapsed_ms=sum(stage.duration_ms for stage in one.stages))
    yield _seen(
        sequence,
        said,
        else_what="answer",
        elapsed_ms=said.elapsed_ms,
        queries=said.queries_executed,
        is_cached=said.is_cached,
        shown_by=said.shown_by and short(said.shown_by),
        fragments=said.fragments,
    )


def _seen(sequence: int, said: ContextAssembled | ContextBeside, *, else_what: str, **own: Any) -> ContextSeen:
    """Return what both kinds of record say, and what is `own` to one."""
    return ContextSeen(
        sequence=sequence,
        what=_WHAT.get(said.contract_id, else_what),
        template_id=said.template_id,
        template_version=said.template_version,
        chosen_by=said.chosen_by,
        tokens=said.tokens_assembled,
        max_tokens=said.max_context_tokens,
        stopped_by=said.stopped_by,
        fallback=said.fallback,
        stages=said.stages,
        warnings=said.warnings,
        **own,
    )
