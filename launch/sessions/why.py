"""Why a turn was answered as it was: what its models were shown and where that stands in the record. Pure.

Every fact names the entry that it was read from. The prompts are word for word what the provider got. What memory had,
and why a line of it was not shown, is worked out by memory's own rules as of the moment that the turn read it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hobus.actors.ho2_supervisor.turn import text_parts
from hobus.actors.ho2_supervisor.turn.recall import TokenBudget, score, select_biases
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime, micros
from hobus.actors.ho3_memory.overlay_log import is_stated
from hobus.actors.ho3_memory.records import fact_of
from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.bus.messages.base import named
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.memory import LOCAL, Bias, Labels, Overlay
from hobus.bus.record.catalog import read_body
from hobus.bus.record.journal import recorded
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.memory import SignalLogged
from hobus.bus.record.payloads.orders import ContextAssembled, OrderEnd, QualityGate
from hobus.bus.record.payloads.prompts import PromptReceived, PromptSent, SentMessage, SentRequest
from hobus.bus.record.session_facts import SessionStarted
from hobus.config.prompt_pack import parse_pack
from hobus.config.snapshot import Snapshot
from hobus.launch.sessions.account import short
from hobus.launch.sessions.provenance import Configuration, Used, named_by_run, used_in
from hobus.launch.sessions.why_context import ContextSeen, contexts_in

ERASED = "(erased, or not in this record)"
_PACK = "pack"
_SPANS = {
    "WO_DISPATCHED": ("order", ("WO_COMPLETED", "WO_FAILED", "WO_LATE")),
    "PROMPT_SENT": ("model", ("PROMPT_RECEIVED", "PROMPT_FAILED")),
    "TOOL_STARTED": ("tool", ("WO_COMPLETED", "WO_FAILED", "WO_LATE")),
}
"""What begins something that takes time: what it is, and the entries that end it."""
_BESIDE = ("INTENT_", "PROJECTION_", "ESCALATION", "BUDGET_WARNING", "DEGRADATION", "MEMORY_WARNING")
"""Beginnings of the names of entries that are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A stretch of a prompt."""

    role: str
    name: str
    """What its prompt pack calls it; `pack`: it stands in the pack itself."""
    source: str
    """Where the record has it: a pack, or the kinds of the entries that hold its texts."""
    sequences: tuple[int, ...]
    """Of those entries."""
    tokens: int
    """As budgets estimate them."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShown:
    """One call of a model."""

    sequence: int
    order: str
    contract_id: str
    prompt_pack_id: str
    config_digest: str
    provider_id: str
    model_id: str
    tools: tuple[str, ...]
    reserved_tokens: int
    shown: tuple[Shown, ...]
    input_tokens: int | None = None
    """None, as all that follows: it was not answered."""
    output_tokens: int | None = None
    cached_tokens: int | None = None
    latency_ms: int | None = None
    cost_usd: float | None = None
    budget_remaining: int | None = None
    answered: int | None = None
    """Sequence of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShown:
    """A line of memory in a prompt."""

    artifact_id: str
    line: str
    tokens: int
    weight: float | None
    score: float | None
    signals: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    """Each event behind it: id, session, sequence of its entry (None: not in this record)."""
    sequence: int | None
    """Of the entry that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLeftOut:
    """A line that memory had and the prompt did not show."""

    artifact_id: str
    line: str | None
    """None: it is another principal's."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShown:
    """What memory gave to the turn."""

    sequence: int
    as_of_ts: str
    as_of_seq: int | None
    shown_by: str
    """As an order before showed it, by its short id; empty: it was read for this turn."""
    budget: int
    tokens_used: int
    shown: tuple[LineShown, ...]
    left_out: tuple[LineLeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSeen:
    """How far a signal of the turn was from being learned, behind it."""

    signal_id: str
    sequence: int
    crossed: bool
    count: int
    sessions: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that took time: from and to, in microseconds since 1970; `to` None: it was never ended."""

    what: str
    order: str
    begin_us: int
    end_us: int | None
    sequences: tuple[int, ...]


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
    prompts: tuple[PromptShown, ...]
    contexts: tuple[ContextSeen, ...]
    memory: MemoryShown | None
    gates: tuple[GateSeen, ...]
    quality: tuple[FactSeen, ...]
    beside: tuple[FactSeen, ...]
    spans: tuple[Span, ...]
    config_digest: str = ""
    made_of: tuple[Used, ...] = ()
    """Under which versions of agent, contracts, prompt packs, template and settings."""
    missing: tuple[str, ...] = ()
    """What could not be told, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read of the record."""

    turn: Sequence[Entry]
    """The turn's own entries, with their bodies."""
    session: Sequence[Entry]
    """Those of its session, in which its texts stand."""
    elsewhere: Sequence[Entry] = ()
    """Those of other sessions that its prompts quote; of a consolidation's excerpts."""
    memory: Sequence[Entry]
    """Streams `signals` and `overlays`, of all agents."""
    snapshot: Snapshot | None = None
    """What the turn ran under."""
    fault: str = "the record lacks the configuration that the turn ran under"
    """Why there is none."""
    configurations: Mapping[str, Configuration] = field(default_factory=dict[str, Configuration])
    """Configuration digest -> the files of it, of any version of the program."""


def explain(found: Evidence) -> Explanation:
    """The explanation of one turn."""
    by_id = {entry.submission_id: entry for entry in (*found.elsewhere, *found.session, *found.turn)}
    sent = [(entry, said) for entry in found.turn if isinstance(said := _body(entry), PromptSent)]
    snapshot = found.snapshot
    missing = [] if snapshot is not None or not sent else [f"{found.fault}: texts of prompt packs are not shown"]
    classified, labels = _classification(found.turn)
    memory = _memory_of(found, snapshot)
    return Explanation(
        classification=labels,
        classified=None if classified is None else classified.sequence,
        prompts=tuple(_prompt(entry, said, found.turn, by_id, snapshot) for entry, said in sent),
        memory=_memory_shown(found, memory, snapshot),
        gates=_gates(found, memory),
        quality=tuple(_fact(entry) for entry in found.turn if isinstance(_body(entry), QualityGate)),
        beside=tuple(_fact(entry) for entry in found.turn if entry.event_type.startswith(_BESIDE)),
        spans=spans_in(found.turn),
        config_digest=named_by_run(found.turn),
        made_of=used_in(found.turn, found.configurations),
        contexts=contexts_in(found.turn),
        missing=tuple(missing),
    )


def quoted_elsewhere(turn: Iterable[Entry], session: Iterable[Entry]) -> frozenset[str]:
    """Ids of the entries whose texts a turn's prompts show, and which are not its session's."""
    parts = [
        part
        for entry in turn
        if isinstance(_body(entry), PromptSent) and (request := _request(entry)) is not None
        for message in request.messages
        for part in message.parts
    ]
    refs = {part.ref for part in parts if not isinstance(part, int) and part.ref is not None}
    return frozenset(ref.rpartition("/")[0] for ref in refs) - {entry.submission_id for entry in session}


def _request(entry: Entry) -> SentRequest | None:
    request = read_body(entry, 1) if len(entry.bodies) > 1 and entry.bodies[1] is not None else None
    return request if isinstance(request, SentRequest) else None


def _body(entry: Entry) -> Any:
    """The typed payload; None for what has none, was erased, or is of another version."""
    try:
        return read_body(entry)
    except ValueError:
        return None


# --- prompts ----------------------------------------------------------------------------------------------------------


def _prompt(
    entry: Entry, said: PromptSent, turn: Sequence[Entry], by_id: Mapping[str, Entry], snapshot: Snapshot | None
) -> PromptShown:
    call = entry.submission_id.partition(":")[2]
    answered = next((one for one in turn if one.submission_id == f"PROMPT_RECEIVED:{call}"), None)
    answer = None if answered is None else payload_in(PromptReceived, answered)
    chars = 1 if snapshot is None else snapshot.config.attention.chars_per_token
    return PromptShown(
        sequence=entry.sequence,
        order=short(entry.provenance.work_order_id or ""),
        contract_id=said.contract_id,
        prompt_pack_id=said.prompt_pack_id,
        config_digest=said.config_digest,
        provider_id=said.provider_id,
        model_id=said.model_id,
        tools=said.tools,
        reserved_tokens=said.reserved_tokens,
        shown=tuple(_stretches(entry, said, by_id, snapshot, chars)),
        answered=None if answered is None else answered.sequence,
        **({} if answer is None else {name: getattr(answer, name) for name in _OF_AN_ANSWER}),
    )


_OF_AN_ANSWER = ("input_tokens", "output_tokens", "cached_tokens", "latency_ms", "cost_usd", "budget_remaining")


def _stretches(
    entry: Entry, said: PromptSent, by_id: Mapping[str, Entry], snapshot: Snapshot | None, chars_per_token: int
) -> Iterable[Shown]:
    request = _request(entry)
    if request is None:
        return
    texts = _texts_of_pack(said.prompt_pack_id, snapshot)
    for message in request.messages:
        for name, source, sequences, text in _parts(message, said.prompt_pack_id, texts, by_id):
            yield Shown(
                role=message.role,
                name=name,
                source=source,
                sequences=sequences,
                tokens=-(-len(text) // chars_per_token),
                text=text,
            )


def _texts_of_pack(pack_id: str, snapshot: Snapshot | None) -> tuple[str, ...]:
    """Empty where nobody knows them."""
    words = None if snapshot is None else snapshot.prompt_packs.get(pack_id)
    try:
        return () if words is None else parse_pack(pack_id, words).texts
    except ConfigError:
        return ()


def _parts(
    message: SentMessage, pack_id: str, texts: tuple[str, ...], by_id: Mapping[str, Entry]
) -> Iterable[tuple[str, str, tuple[int, ...], str]]:
    for part in message.parts:
        if isinstance(part, int):
            yield _PACK, pack_id, (), texts[part] if part < len(texts) else ERASED
        elif part.ref is None:
            yield part.name, "made for this prompt", (), part.text
        else:
            seen: list[Entry] = []
            text = text_behind(part.ref, by_id, seen.append)
            kinds = ", ".join(dict.fromkeys(one.event_type for one in seen))
            yield part.name, kinds or "not in this record", tuple(one.sequence for one in seen), text


def text_behind(ref: str, by_id: Mapping[str, Entry], seen: Callable[[Entry], object] = lambda _entry: None) -> str:
    """The text that a ref names, put together from its parts where it has any; `seen` is told of each entry."""
    submission_id, _, number = ref.rpartition("/")
    entry = by_id.get(submission_id)
    body = entry.bodies[int(number)] if entry is not None and int(number) < len(entry.bodies) else None
    if entry is None or body is None:
        return ERASED
    seen(entry)
    parts = text_parts.parts_in(body)
    if parts is None:
        return body.decode("utf-8", "replace")
    return "".join(
        text if one is None else text_parts.of_part(text, text_behind(one, by_id, seen)) for one, text in parts
    )


# --- what was made of the message -------------------------------------------------------------------------------------


def _classification(turn: Sequence[Entry]) -> tuple[Entry | None, dict[str, Any] | None]:
    """The end of the classification's order, and what it says."""
    orders = {
        one.provenance.work_order_id
        for one in turn
        if isinstance(said := _body(one), PromptSent) and "CLASSIFY" in said.contract_id
    }
    for one in turn:
        if one.provenance.work_order_id in orders and isinstance(said := _body(one), OrderEnd):
            return one, said.parsed
    return None, None


def _fact(entry: Entry) -> FactSeen:
    said = _body(entry)
    says = dict(named(said)) if isinstance(said, tuple) and hasattr(said, "_fields") else {}
    if entry.reason:
        says["reason"] = entry.reason
    return FactSeen(event=entry.event_type, sequence=entry.sequence, decision=entry.decision, says=says)


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory_of(found: Evidence, snapshot: Snapshot | None) -> AgentMemory | None:
    """The agent's memory as its record makes it; None without the rules that it went by."""
    rules = None if snapshot is None else snapshot.config.ho3
    agent_id = next((one.provenance.agent_id for one in found.turn if one.provenance.agent_id), "")
    if rules is None or not agent_id:
        return None
    memory = AgentMemory(agent_id, rules)
    for entry in found.memory:
        try:
            fact = fact_of(entry.sequence, entry)
        except (ValueError, TypeError, LookupError, RuntimeFault):
            continue
        if fact is not None and fact.agent_id == agent_id:
            memory.apply(fact)
    return memory


def _memory_shown(found: Evidence, memory: AgentMemory | None, snapshot: Snapshot | None) -> MemoryShown | None:
    """What CONTEXT_ASSEMBLED names, with where it came from; None without one."""
    assembled = ((one, said) for one in found.turn if isinstance(said := _body(one), ContextAssembled))
    entry, context = next(((one, said) for one, said in assembled if not said.contract_id), (None, None))
    if entry is None or context is None:
        return None
    budget = TokenBudget(context.budget, 1 if snapshot is None else snapshot.config.attention.chars_per_token)
    as_of = PointInTime(micros(context.as_of_ts), -1 if context.as_of_seq is None else context.as_of_seq)
    whose = _Whose(entry.provenance.session_id, _principal(found.session))
    in_force = [] if memory is None else _in_force(memory, as_of, whose)
    stored = (
        []
        if memory is None
        else list(memory.artifacts.overlays(as_of, signal_id=None, principal=None, active_only=False))
    )
    lines = [ERASED if line is None else line.decode("utf-8", "replace") for line in entry.bodies[1:]]
    sources = _Sources(found.memory, in_force, stored, context.as_of_ts)
    return MemoryShown(
        sequence=entry.sequence,
        as_of_ts=context.as_of_ts,
        as_of_seq=context.as_of_seq,
        shown_by=context.shown_by and short(context.shown_by),
        budget=context.budget,
        tokens_used=context.tokens_used,
        shown=tuple(
            sources.line(artifact_id, line, budget.cost(line))
            for artifact_id, line in zip(context.artifact_ids, lines, strict=False)
        ),
        left_out=tuple(_left_out(context, memory, as_of, whose, budget)),
    )


class _Whose(NamedTuple):
    """Whose memory a turn reads."""

    session_id: str
    principal: str


def _principal(session: Sequence[Entry]) -> str:
    """Of a session: its start names it."""
    for entry in session:
        taken = recorded(entry) if entry.event_type == "SESSION_START" else None
        if taken is not None and isinstance(taken.event.event, SessionStarted):
            return taken.event.event.principal
    return LOCAL


def _in_force(memory: AgentMemory, as_of: PointInTime, whose: _Whose) -> list[Bias]:
    return list(memory.active_biases(as_of, principal=whose.principal, session_id=whose.session_id))


class _Sources:
    """What the lines of a turn rest on."""

    def __init__(
        self, entries: Sequence[Entry], in_force: Sequence[Bias], stored: Sequence[Overlay], as_of_ts: str
    ) -> None:
        self._biases = {one.artifact.artifact_id: one for one in in_force}
        self._stored = {one.artifact.artifact_id: one.artifact for one in stored}
        self._made = {getattr(_body(one), "artifact_id", ""): one for one in entries if one.event_type == "HO3_OVERLAY"}
        self._events = {one.submission_id.partition("/")[2]: one for one in entries if one.event_type == "HO3_SIGNAL"}
        self._as_of_ts = as_of_ts

    def line(self, artifact_id: str, line: str, tokens: int) -> LineShown:
        """One line with the events behind it."""
        bias, made = self._biases.get(artifact_id), self._made.get(artifact_id)
        artifact = self._stored.get(artifact_id)
        return LineShown(
            artifact_id=artifact_id,
            line=line,
            tokens=tokens,
            weight=None if artifact is None else artifact.weight,
            score=None if bias is None else score(bias, self._as_of_ts),
            signals=() if artifact is None else tuple(artifact.source_signal_ids),
            events=() if artifact is None else tuple(map(self._event, artifact.source_event_ids)),
            sequence=None if made is None else made.sequence,
        )

    def _event(self, event_id: str) -> dict[str, Any]:
        entry = self._events.get(event_id)
        return {
            "event_id": event_id,
            "session_id": None if entry is None else entry.provenance.session_id,
            "sequence": None if entry is None else entry.sequence,
        }


def _left_out(
    context: ContextAssembled, memory: AgentMemory | None, as_of: PointInTime, whose: _Whose, budget: TokenBudget
) -> Iterable[LineLeftOut]:
    """Every artifact of the agent that was there and not shown, and the first reason for it."""
    if memory is None or context.as_of_seq is None:
        return
    labels = Labels(domain=list(context.domain_labels), task=list(context.task_labels))
    in_force = {one.artifact.artifact_id: one for one in _in_force(memory, as_of, whose)}
    matching = {one.artifact_id for one in select_biases(list(in_force.values()), labels, _UNBOUND, context.as_of_ts)}
    for overlay in memory.artifacts.overlays(as_of, signal_id=None, principal=None, active_only=False):
        artifact = overlay.artifact
        if artifact.artifact_id in context.artifact_ids:
            continue
        line: str | None = artifact.context_line
        if artifact.artifact_id not in in_force:
            reason, is_anothers = _not_in_force(overlay, memory, as_of, whose)
            line = None if is_anothers else line
        elif artifact.artifact_id not in matching:
            reason = f"its labels are not the turn's: {_named(artifact.labels)} against {_named(labels)}"
        else:
            cost = budget.cost(artifact.context_line)
            reason = f"it takes {cost} tokens, and stronger lines left no room for them in {budget.tokens}"
        yield LineLeftOut(artifact_id=artifact.artifact_id, line=line, reason=reason)


_UNBOUND = TokenBudget(sys.maxsize, 1)
_STATES = {
    "off": "a person switched it off",
    "pending": "it waits for a person: `hobus memory review`",
    "silent": "its weight is 0",
    "superseded": "a newer artifact of its signals stands in its place",
}


def _not_in_force(overlay: Overlay, memory: AgentMemory, as_of: PointInTime, whose: _Whose) -> tuple[str, bool]:
    """The first reason, and whether it is that the line is another's: that one's words are not told."""
    artifact = overlay.artifact
    if artifact.principal not in (None, whose.principal):
        return f"it is {artifact.principal}'s own", True
    if overlay.state in _STATES:
        return _STATES[overlay.state], False
    if overlay.state == "expired":
        return f"it expired at {artifact.expires_at_event_ts}", False
    if artifact.scope == "session" and artifact.session_id != whose.session_id:
        return "it holds in another session alone", False
    behind = [memory.weighed(one, principal=artifact.principal, as_of=as_of) for one in artifact.source_signal_ids]
    if not is_stated(artifact) and not any(is_open for _, is_open in behind):
        return "the evidence behind it has faded: its gates have closed again", False
    return f"what it rests on has faded to {max((share for share, _ in behind), default=0.0):.3f}", False


def _named(labels: Labels) -> str:
    return ", ".join([*labels.domain, *labels.task]) or "none"


def _gates(found: Evidence, memory: AgentMemory | None) -> tuple[GateSeen, ...]:
    """Of each signal of the turn, as of its own event."""
    logged = [(one, said) for one in found.turn if isinstance(said := _body(one), SignalLogged)]
    if memory is None or not logged:
        return ()
    last = max(one.sequence for one, _ in logged)
    seen: list[GateSeen] = []
    for one, said in logged:
        gate = memory.open_gate(said.signal_id, said.principal, PointInTime(micros(said.at), last))
        seen.append(
            GateSeen(
                signal_id=said.signal_id,
                sequence=one.sequence,
                crossed=gate.crossed,
                count=gate.count,
                sessions=gate.session_count,
                reason=gate.reason,
            )
        )
    return tuple(seen)


# --- time -------------------------------------------------------------------------------------------------------------


def spans_in(turn: Sequence[Entry]) -> tuple[Span, ...]:
    """Orders, calls of models and runs of tools, in the order in which they began."""
    spans: list[Span] = []
    for entry in turn:
        if entry.event_type not in _SPANS:
            continue
        what, ends = _SPANS[entry.event_type]
        end = next((one for one in turn if one.event_type in ends and _ends(entry, one)), None)
        spans.append(
            Span(
                what=what,
                order=short(entry.provenance.work_order_id or ""),
                begin_us=entry.ledger_at_us,
                end_us=None if end is None else end.ledger_at_us,
                sequences=(entry.sequence,) if end is None else (entry.sequence, end.sequence),
            )
        )
    return tuple(spans)


def _ends(begin: Entry, end: Entry) -> bool:
    if begin.event_type == "PROMPT_SENT":
        return end.submission_id.partition(":")[2] == begin.submission_id.partition(":")[2]
    same = end.provenance.work_order_id == begin.provenance.work_order_id
    return same and end.sequence > begin.sequence


# --- two turns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A stretch of the last prompt of two turns, where it is not the same in both; None: it is not there."""

    name: str
    before: str | None
    after: str | None


def differences(before: Explanation, after: Explanation) -> list[Difference]:
    """Between the prompts that asked for the two answers, by the names of their stretches, in their order."""
    left, right = (_by_name(one.prompts[-1].shown if one.prompts else ()) for one in (before, after))
    names = dict.fromkeys([*right, *left])
    return [
        Difference(name=name, before=left.get(name), after=right.get(name))
        for name in names
        if left.get(name) != right.get(name)
    ]


def _by_name(shown: Iterable[Shown]) -> dict[str, str]:
    """Stretches of one name are one text."""
    texts: dict[str, list[str]] = {}
    for one in shown:
        texts.setdefault(f"{one.role} {one.name}", []).append(one.text)
    return {name: "".join(parts) for name, parts in texts.items()}


def settings_of(one: Explanation) -> dict[str, Any]:
    """What a prompt was asked under, to be held against that of another turn."""
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
