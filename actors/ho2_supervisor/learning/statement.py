"""What somebody states about how to be served: a signal of its own, and the line that rests on it at once. Pure.

No gate and no model's words stand between: the line is the statement as the classification quoted it, its evidence the
turn in which it was made. It belongs to the session's principal, like everything that a turn teaches. A constraint,
which forbids or demands something beyond the form of answers, waits for a person to confirm it, since whoever is quoted
may not be who is served.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hobus.actors.ho2_supervisor.learning.answer_form import is_form_of_answers
from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.actors.ho2_supervisor.turn.classification import Stated, read_stated
from hobus.bus.errors import MemoryFault
from hobus.bus.messages.ids import artifact_id, signal_event_id, statement_signal_id
from hobus.bus.messages.memory import Artifact, Labels, LogConsolidationFailure, Signal
from hobus.bus.messages.session import Remembered
from hobus.config.sections.memory import Ho3Config
from hobus.config.sections.turns import ClassifyLabels

_WINDOW_KEY = "explicit"


def stated_in(ended: EndedRun, vocabulary: ClassifyLabels, memory: Ho3Config) -> Stated | None:
    """What a model read in the run's message; None where that is nothing, or nothing that is stated is to be learnt.

    It counts where it `is_said`. Whatever the model calls it, what is not about the form of answers is a constraint.
    """
    stated = read_stated(ended.classified, vocabulary) if memory.stated_weight > 0 else None
    if stated is None:
        return None
    return replace(stated, is_constraint=stated.is_constraint or not is_form_of_answers(stated.statement))


def signal_of(stated: Stated, ended: EndedRun, session_id: str, principal: str) -> Signal:
    """The event of the statement; made again in another turn it is another event of the same signal."""
    signal_id = statement_signal_id(stated.statement)
    return Signal(
        event_id=signal_event_id(session_id, ended.run_seq, signal_id),
        signal_id=signal_id,
        principal=principal,
        session_id=session_id,
        at=ended.requested_at,
    )


def artifact_of(stated: Stated, signal: Signal, memory: Ho3Config) -> Artifact:
    """The line that rests on the statement, in force from its event time on. It expires with its signal alone."""
    is_anywhere = not stated.domain
    return Artifact(
        artifact_id=artifact_id(signal.principal, [signal.signal_id], _WINDOW_KEY, model="", prompt_pack_version=""),
        principal=signal.principal,
        artifact_type="constraint" if stated.is_constraint else "interaction_style",
        labels=Labels(domain=[] if is_anywhere else [stated.domain]),
        weight=memory.stated_weight,
        scope="global" if is_anywhere else "agent",
        context_line=stated.statement,
        created_at_event_ts=signal.at,
        source_signal_ids=[signal.signal_id],
        source_event_ids=[signal.event_id],
        consolidation_event_ts=signal.at,
        window_start=signal.at,
        window_end=signal.at,
    )


def remembered(made: Artifact, state: Literal["active", "pending", "refused", "unanswered"]) -> Remembered:
    """What an answer says of it."""
    return Remembered(statement=made.context_line, artifact_id=made.artifact_id, state=state)


def failure_of(made: Artifact, agent_id: str, fault: MemoryFault) -> LogConsolidationFailure:
    """That memory refused it, with reason and line for the quarantine."""
    return LogConsolidationFailure(
        agent_id=agent_id,
        signal_id=made.source_signal_ids[0],
        principal=made.principal,
        code=fault.code,
        reason=fault.detail.removeprefix(f"{made.artifact_id}: "),
        line=made.context_line,
        at=made.created_at_event_ts,
    )
