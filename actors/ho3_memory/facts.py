"""What the record says, entry by entry: the only thing that the derived state is made of."""

from __future__ import annotations

from typing import NamedTuple

from hobus.bus.messages.memory import Artifact


class SignalFact(NamedTuple):
    """A source event stands in the record."""

    seq: int
    agent_id: str
    submission_id: str
    event_id: str
    signal_id: str
    session_id: str
    at_us: int


class OverlayFact(NamedTuple):
    """An artifact was logged, for the first time or again."""

    seq: int
    agent_id: str
    submission_id: str
    artifact: Artifact


class DeactivatedFact(NamedTuple):
    """An artifact was switched off."""

    seq: int
    agent_id: str
    submission_id: str
    artifact_id: str
    at_us: int


class WeightFact(NamedTuple):
    """An artifact got another weight."""

    seq: int
    agent_id: str
    submission_id: str
    artifact_id: str
    new_weight: float
    at_us: int


class FailureFact(NamedTuple):
    """A consolidation failed."""

    seq: int
    agent_id: str
    submission_id: str
    signal_id: str
    at_us: int


Fact = SignalFact | OverlayFact | DeactivatedFact | WeightFact | FailureFact
