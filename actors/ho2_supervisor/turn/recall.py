"""The memory lines of a turn: read as of its event time, chosen by numbers, recorded before a prompt shows them.

Driven again after a crash, a turn shows the lines that its recorded order holds and asks nobody anew.
"""

from __future__ import annotations

from hobus.actors.ho2_supervisor.learning.memory import Memory, Recalled
from hobus.actors.ho2_supervisor.turn.biases import TokenBudget, select_biases
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.ids import requested_id
from hobus.bus.messages.memory import Artifact, Labels
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.payloads.orders import ContextAssembled

SEGMENT = "ho3_biases"


async def recorded_lines(run: Run) -> list[Segment] | None:
    """The memory lines of an earlier drive of this run; None if it had sent no prompt yet."""
    recorded = await run.recorded_inputs(2 if run.is_classified else 1)
    return None if recorded is None else [segment for segment in recorded if segment.name == SEGMENT]


async def recalled(run: Run, memory: Memory) -> Recalled:
    """What memory has in force as of the turn's event time."""
    return await memory.recall(run.agent.agent_id, run.session.session_id, as_of_ts=run.requested.at, trace=run.trace)


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
        run.resources.own_entries.ho2m(
            "CONTEXT_ASSEMBLED", payload, texts=[artifact.context_line for artifact in chosen],
            stream="ho2_context_authority",
            provenance=run.session.provenance(run.run_id.run_seq),
            parents=[requested_id(run.session.session_id, run.requested.input_id)],
            at_us=run.session.at_us(), reason=found.code, trace=run.trace,
        )
    )  # fmt: skip
    return _segments(chosen)


def _segments(chosen: list[Artifact]) -> list[Segment]:
    """Every line verbatim in a segment of its own, line feeds between them."""
    parts: list[Segment] = []
    for artifact in chosen:
        if parts:
            parts.append(Segment(name=SEGMENT, text="\n"))
        parts.append(Segment(name=SEGMENT, text=artifact.context_line, artifact_id=artifact.artifact_id))
    return parts
