"""What somebody states about how to be served: a signal of its own, and the line that rests on it. Pure.

No gate stands between: its evidence is the turn in which it was made. A model reads it, and a model may be fooled by
what a message quotes. So a wish of the closed list with which the message begins is in force at once, and all else is a
constraint, which waits for its person's yes. It belongs to the session's principal, like everything that a turn
teaches. Of several about the same the newest counts; what is switched off takes its older ones with it.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from hobus.actors.ho2_supervisor.learning.closed_forms import (
    counts_at_once,
    find_subject,
    is_told_before,
    normalise_wish,
)
from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.actors.ho2_supervisor.turn.classification import Stated
from hobus.bus.errors import MemoryFault
from hobus.bus.messages.ids import derive_artifact_id, derive_signal_event_id, derive_statement_id, normalise_words
from hobus.bus.messages.memory import Artifact, Labels, LogConsolidationFailure, Signal
from hobus.bus.messages.session import Remembered
from hobus.config.sections.record import Ho3Config


def judge_wish(stated: Stated, message: str, chars_max: int) -> Stated | None:
    """Return what to learn from the wish that a model read in this message; None: nothing.

    Of a message longer than `chars_max` nothing is learnt: nearly all of it is pasted.
    """
    if len(message) > chars_max or is_told_before(stated.statement, message):
        return None
    is_constraint = stated.is_constraint or not counts_at_once(stated.statement, message)
    about = find_subject(stated.statement) or ("" if stated.is_constraint else stated.about)
    return replace(stated, is_constraint=is_constraint, about=about or normalise_words(stated.statement))


def make_signal(stated: Stated, ended: EndedRun, session_id: str, principal: str) -> Signal:
    """Return the event of the statement; another turn that states the same gives another event of the same signal."""
    signal_id = derive_statement_id(stated.about)
    return Signal(
        event_id=derive_signal_event_id(session_id, ended.run_seq, signal_id),
        signal_id=signal_id,
        principal=principal,
        session_id=session_id,
        at=ended.requested_at,
    )


def make_artifact(stated: Stated, signal: Signal, memory: Ho3Config) -> Artifact:
    """Return the line that rests on the statement, from its event time on; one for all that say the same."""
    is_anywhere, words = not stated.domain, normalise_wish(stated.statement)
    return Artifact(
        artifact_id=derive_artifact_id(
            signal.principal, [signal.signal_id], "explicit", model="", prompt_pack_version=words
        ),
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


def make_remembered(made: Artifact, state: Literal["active", "pending", "refused", "unanswered"]) -> Remembered:
    return Remembered(statement=made.context_line, artifact_id=made.artifact_id, state=state)


def make_failure(made: Artifact, agent_id: str, fault: MemoryFault) -> LogConsolidationFailure:
    """Return the failure that memory's refusal is, with reason and line for the quarantine."""
    return LogConsolidationFailure(
        agent_id=agent_id,
        signal_id=made.source_signal_ids[0],
        principal=made.principal,
        code=fault.code,
        reason=fault.detail.removeprefix(f"{made.artifact_id}: "),
        line=made.context_line,
        at=made.created_at_event_ts,
    )
