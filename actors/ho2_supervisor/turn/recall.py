"""The memory lines of a turn: read as of its event time, chosen by numbers, recorded before a prompt shows them.

Filtered on fields, ranked by numbers, fitted to the budget, copied verbatim: meaning is never read here. Driven again
after a crash, a turn shows the lines that its recorded order holds and asks nobody anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hobus.actors.ho2_supervisor.learning.learning import Recalled
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.ids import parse_iso, requested_id
from hobus.bus.messages.memory import ArtifactFacts, Bias, Labels
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.payloads.orders import ContextAssembled

SEGMENT = "ho3_biases"


async def recorded_lines(run: Run) -> list[Segment] | None:
    """The memory lines of an earlier drive of this run; None if it had sent no prompt yet."""
    recorded = await run.recorded_inputs(2 if run.is_classified else 1)
    return None if recorded is None else [segment for segment in recorded if segment.name == SEGMENT]


def chosen_lines(run: Run, labels: Classification, found: Recalled) -> list[Segment]:
    """The lines that this turn's labels and its budget admit; the record of it leaves before the prompt does."""
    config = run.config
    turn_labels = Labels(domain=list(labels.domain), task=list(labels.task))
    budget = TokenBudget(config.budget.ho3_bias_budget, config.attention.chars_per_token)
    chosen = select_biases(found.biases, turn_labels, budget, run.requested.at)
    payload = ContextAssembled(
        as_of_ts=run.requested.at if found.as_of is None else found.as_of.as_of_ts,
        as_of_seq=None if found.as_of is None else found.as_of.as_of_seq,
        in_force=len(found.biases),
        budget=budget.tokens,
        tokens_used=sum(budget.cost(artifact.context_line) for artifact in chosen),
        artifact_ids=tuple(artifact.artifact_id for artifact in chosen),
        domain_labels=tuple(turn_labels.domain),
        task_labels=tuple(turn_labels.task),
    )
    run.session.along(
        run.resources.entry(
            "CONTEXT_ASSEMBLED", payload, texts=[artifact.context_line for artifact in chosen],
            stream="ho2_context_authority",
            provenance=run.session.provenance(run.run_id.run_seq),
            parents=[requested_id(run.session.session_id, run.requested.input_id)],
            reason=found.code, trace=run.trace,
        )
    )  # fmt: skip
    return _segments(chosen)


def _segments(chosen: Sequence[ArtifactFacts]) -> list[Segment]:
    """Every line verbatim in a segment of its own, line feeds between them."""
    parts: list[Segment] = []
    for artifact in chosen:
        if parts:
            parts.append(Segment(name=SEGMENT, text="\n"))
        parts.append(Segment(name=SEGMENT, text=artifact.context_line, artifact_id=artifact.artifact_id))
    return parts


_DAY_S = 86_400
_DECIMALS = 9
"""Every float that is ranked is rounded to so many decimals first, so that all machines rank alike."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """How much text fits, by the estimate of section `attention`."""

    tokens: int
    chars_per_token: int

    def cost(self, text: str) -> int:
        """The estimate of one text."""
        return len(text) // self.chars_per_token


def select_biases(
    artifacts: Sequence[Bias], turn_labels: Labels, budget: TokenBudget, as_of_ts: str
) -> list[ArtifactFacts]:
    """The artifacts whose lines go into this turn's prompt, the strongest first.

    One that does not fit what is left of the budget is skipped, and the next one tried.
    """
    fitting = [bias for bias in artifacts if _applies(bias.artifact, turn_labels, as_of_ts)]
    fitting.sort(key=lambda bias: (-score(bias, as_of_ts), -bias.artifact.weight, bias.artifact.artifact_id))
    chosen: list[ArtifactFacts] = []
    left = budget.tokens
    for bias in fitting:
        cost = budget.cost(bias.artifact.context_line)
        if cost <= left:
            left -= cost
            chosen.append(bias.artifact)
    return chosen


def score(bias: Bias, as_of_ts: str) -> float:
    """The rank: weight x decay x recency; recency = decay_modifier ** days since the consolidation."""
    artifact = bias.artifact
    days = max(0.0, parse_iso(as_of_ts) - parse_iso(artifact.consolidation_event_ts)) / _DAY_S
    return round(artifact.weight * bias.decay * artifact.decay_modifier**days, _DECIMALS)


def _applies(artifact: ArtifactFacts, turn_labels: Labels, as_of_ts: str) -> bool:
    """In force as of then, and about what the turn is about: one shared (kind, label) pair, or of global scope."""
    if not artifact.enabled or artifact.weight <= 0:
        return False
    # Timestamps have one width, so that text order is time order.
    if artifact.expires_at_event_ts is not None and artifact.expires_at_event_ts < as_of_ts:
        return False
    return artifact.scope == "global" or not set(_pairs(artifact.labels)).isdisjoint(_pairs(turn_labels))


def _pairs(labels: Labels) -> Iterable[tuple[str, str]]:
    return [*(("domain", label) for label in labels.domain), *(("task", label) for label in labels.task)]
