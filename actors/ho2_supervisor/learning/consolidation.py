"""Turning a counted pattern into one line: the order, what of its answer is taken, the artifact. Pure.

The model gives type, labels, line and weight and nothing else; every other field is set here, from the gate and the
configuration.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, get_args

from msgspec import Struct

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, Fragment, trace_context
from hobus.actors.ho2_supervisor.limits import RECENT_EVENTS_MAX
from hobus.actors.ho2_supervisor.turn.classification import read_labels
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn
from hobus.actors.ho2_supervisor.turn.work_orders import plan_order
from hobus.bus.limits import CONTEXT_LINE_MAX_CHARS, SOURCE_EVENTS_MAX
from hobus.bus.messages.base import make_from
from hobus.bus.messages.ids import (
    RunId,
    compute_window_key,
    derive_artifact_id,
    derive_consolidation_id,
    format_iso,
    parse_iso,
)
from hobus.bus.messages.memory import Accumulator, Artifact, ArtifactType, GateResult, Labels
from hobus.bus.messages.session import ModelChoice
from hobus.bus.messages.work_order import CONSOLIDATION, Constraints, Fence, Segment, WorkOrder
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.text_parts import TextPart
from hobus.config.assets import AgentFile
from hobus.config.attention_template import CONSOLIDATIONS
from hobus.config.model_choice import get_named_route
from hobus.config.prompt_contracts import get_contract_id
from hobus.config.schema import AdminConfig
from hobus.config.sections.record import Ho3Config
from hobus.config.sections.turns import ClassifyLabels
from hobus.config.snapshot import Snapshot

_KEYS = frozenset({"artifact_type", "labels", "context_line", "weight"})
_TYPES: Mapping[Any, ArtifactType] = {kind: kind for kind in get_args(ArtifactType)}
_EVENT = re.compile(r"EVT-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-([1-9][0-9]*)-")
_HOUR_S = 3600


class Crossing(Struct, frozen=True):
    """An open gate, with everything that its consolidation rests on."""

    agent: AgentFile
    run_id: RunId  # of the turn that named it
    gate: GateResult
    evidence: Accumulator
    as_of_ts: str
    as_of_seq: int = -1

    @property
    def principal(self) -> str | None:
        """Return whose events opened the gate; None: everybody's."""
        return self.gate.principal

    @property
    def signal_id(self) -> str:
        return self.gate.signal_id


class Lesson(Struct, frozen=True):
    """What is taken of a model's answer."""

    artifact_type: ArtifactType
    labels: Labels
    context_line: str
    weight: float


class Judged(Struct, frozen=True):
    """A judged answer: the lesson, or what is wrong in words; and what was left out of it."""

    lesson: Lesson | None
    faults: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """Keys that nobody asked for, and `domain` or `task` per label outside the vocabulary."""
    line: str = ""
    """Without a lesson: the line that was refused with it."""


def run_of(event_id: str) -> RunId | None:
    """Return the run behind a turn's signal event; None for an event of another kind."""
    found = _EVENT.match(event_id)
    return None if found is None else RunId(session_id=found.group(1), run_seq=int(found.group(2)))


def derive_order_id(crossing: Crossing, number: int, config: Ho3Config) -> str:
    """Return the id of the n-th try of this signal in this window."""
    window = compute_window_key(crossing.as_of_ts, config.gate_window_hours)
    return derive_consolidation_id(crossing.agent.agent_id, crossing.principal, crossing.signal_id, window, number)


def make_order(  # noqa: PLR0913 - what an order is made of
    crossing: Crossing,
    wo_id: str,
    excerpts: Sequence[Segment],
    *,
    config: AdminConfig,
    memory: Ho3Config,
    package_id: str,
    digest: str,
    planned_at: str,
    model: ModelChoice,
) -> WorkOrder:
    """Make the consolidate order. It names a model if its agent does, else its tag routes it; ids are bounded."""
    gate, evidence, shown = crossing.gate, crossing.evidence, RECENT_EVENTS_MAX
    texts = {
        "signal_id": gate.signal_id,
        "count": str(gate.count),
        "session_count": str(gate.session_count),
        "session_ids": "\n".join(evidence.session_ids[-shown:]),
        "event_ids": "\n".join(evidence.event_ids[-shown:]),
        "domain_labels": ", ".join(config.classify_labels.domain),
        "task_labels": ", ".join(config.classify_labels.task),
    }
    agent, (provider_id, model_id) = crossing.agent, get_named_route(model)
    return plan_order(
        agent,
        wo_id=wo_id,
        package_id=package_id,
        fence=Fence(run_id=crossing.run_id, session_epoch=0, step_epoch=0),
        wo_type="consolidate",
        planned_at=planned_at,
        input_context=[*(Segment(name=name, text=text) for name, text in texts.items()), *excerpts],
        constraints=Constraints(
            prompt_contract_id=get_contract_id(agent, "consolidate"),
            token_budget=agent.budget_tokens("consolidate", config.budget),
            timeout_seconds=memory.consolidation_timeout_ms / 1000,
            domain_tags=[CONSOLIDATION],
            provider_id=provider_id,
            model_id=model_id,
            budget_mode=config.budget.budget_mode,
        ),
        config_digest=digest,
    )


def compute_excerpts_room(agent: AgentFile, config: AdminConfig) -> int:
    """Return the characters that all excerpts may take: half of the order's budget, so that the rest fits too."""
    return agent.budget_tokens("consolidate", config.budget) * config.attention.chars_per_token // 2


def cut_excerpts(turns: Sequence[DeliveredTurn], chars_max: int, *, room: int) -> list[Fragment]:
    """Return the turns in order, each cut to `chars_max` characters; a whole text keeps its ref.

    As many as fit `room` characters together, at least the first.
    """
    fragments: list[Fragment] = []
    for turn in turns:
        fragment = Fragment("history", turn.input_id, _cut_turn(turn, chars_max))
        room -= len(fragment.content)
        if fragments and room < 0:
            break
        fragments.append(fragment)
    return fragments


def make_segments(excerpts: Sequence[Fragment]) -> list[Segment]:
    parts = [part for fragment in excerpts for part in fragment.parts]
    return [Segment(name="recent_events", ref=part.ref, text=part.text) for part in parts]


def record_of(crossing: Crossing, context: AssembledContext) -> ContextAssembled:
    """Return CONTEXT_ASSEMBLED of a consolidation; its order says which excerpts there are."""
    trace = trace_context(context, as_of_ts=crossing.as_of_ts, as_of_seq=crossing.as_of_seq)
    return trace._replace(contract_id=CONSOLIDATIONS)


def _cut_turn(turn: DeliveredTurn, chars_max: int) -> tuple[TextPart, ...]:
    asked, answered = turn.input_text or "", turn.reply_text or ""
    used = f" (used {', '.join(turn.tool_ids)})" if turn.tool_ids else ""
    parts = [TextPart(None, "user: "), _cut_text(turn.input_ref, asked, chars_max)]
    if room := chars_max - len(asked[:chars_max]):
        parts += [TextPart(None, f"\nassistant{used}: "), _cut_text(turn.reply_ref, answered, room)]
    return (*parts, TextPart(None, "\n"))


def _cut_text(ref: str, text: str, chars_max: int) -> TextPart:
    if ref and len(text) <= chars_max:
        return TextPart(ref, text)
    return TextPart(None, text if len(text) <= chars_max else text[: chars_max - 1] + "…")


def judge(parsed: Mapping[str, Any] | None, vocabulary: ClassifyLabels, memory: Ho3Config) -> Judged:
    """Judge what may be taken of an answer. Unasked keys and labels outside the vocabulary are dropped."""
    if parsed is None:
        return Judged(None, ("the answer is not an object",))
    domain, task, labels_dropped = read_labels(parsed, vocabulary)
    dropped = (*(str(key) for key in parsed if key not in _KEYS), *labels_dropped)
    given_type = parsed.get("artifact_type")
    kind = _TYPES.get(given_type) if isinstance(given_type, str) else None
    line, weight = parsed.get("context_line"), parsed.get("weight")
    is_weight = isinstance(weight, int | float) and not isinstance(weight, bool) and isfinite(weight)
    has_place = bool(domain or task) or memory.artifact_scope == "global"
    faults = [
        *([] if kind is not None else [f"artifact_type is none of {', '.join(_TYPES)}"]),
        *([] if has_place else ["no label is of the vocabulary: no turn would ever match it"]),
        *_find_line_faults(line, CONTEXT_LINE_MAX_CHARS),
        *([] if is_weight and weight is not None and 0 <= weight <= 1 else ["weight is not a number from 0 to 1"]),
    ]
    if faults or kind is None or not isinstance(line, str) or not isinstance(weight, int | float):
        return Judged(None, tuple(faults), dropped, line if isinstance(line, str) else "")
    lesson = Lesson(kind, Labels(domain=list(domain), task=list(task)), line, float(weight))
    return Judged(lesson, dropped=dropped)


def _find_line_faults(line: Any, chars_max: int) -> list[str]:
    """Return what is wrong with the form of a line; HO3 refuses more (role markers, a second sentence)."""
    if not isinstance(line, str) or not line.strip():
        return ["context_line is blank"]
    if len(line) > chars_max:
        return [f"context_line has {len(line)} characters; at most {chars_max}"]
    if any(unicodedata.category(char).startswith(("C", "Zl", "Zp")) for char in line):
        return ["context_line holds control or invisible characters"]
    return []


def make_artifact(crossing: Crossing, lesson: Lesson, *, model: str, pack_version: str, memory: Ho3Config) -> Artifact:
    """Build the artifact: four fields of the lesson, the rest from the gate and the configuration."""
    window_key = compute_window_key(crossing.as_of_ts, memory.gate_window_hours)
    as_of_s = parse_iso(crossing.as_of_ts)
    return make_from(
        Artifact,
        lesson,
        artifact_id=derive_artifact_id(
            crossing.principal, [crossing.signal_id], window_key, model=model, prompt_pack_version=pack_version
        ),
        principal=crossing.principal,
        scope=memory.artifact_scope,
        session_id=crossing.run_id.session_id if memory.artifact_scope == "session" else None,
        created_at_event_ts=crossing.as_of_ts,
        expires_at_event_ts=format_iso(as_of_s + memory.artifact_expiry_hours * _HOUR_S),
        source_signal_ids=[crossing.signal_id],
        source_event_ids=crossing.evidence.event_ids[-SOURCE_EVENTS_MAX:],
        gate_snapshot=crossing.gate,
        model=model,
        prompt_pack_version=pack_version,
        consolidation_event_ts=crossing.as_of_ts,
        window_start=format_iso(as_of_s - memory.gate_window_hours * _HOUR_S),
        window_end=crossing.as_of_ts,
    )


def pack_version(snapshot: Snapshot, agent: AgentFile) -> str:
    """Return which words asked for the line: the prompt pack, under its contract's version."""
    contract = snapshot.contracts.get(get_contract_id(agent, "consolidate"))
    return "" if contract is None else f"{contract.prompt_pack_id}@{contract.version}"
