"""What `reduce` answers: a new state with effects, or a rejection that changed nothing."""

from __future__ import annotations

from dataclasses import dataclass

from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.session import Lifecycle


@dataclass(frozen=True, slots=True)
class Rejected:
    """The event does not apply; the state is the one before it, timestamps included."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReceiptIgnored:
    """A receipt came too late, twice, or under an old fence: journaled, and without influence (IgnoredStale)."""

    about: str


@dataclass(frozen=True, slots=True)
class BatchComplete:
    """Every call of the batch is terminal: the owner may record BatchSettled."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunOver:
    """The run reached its terminal state; whoever drives it stops."""

    run_id: RunId
    input_id: str
    terminal: Lifecycle


@dataclass(frozen=True, slots=True)
class RunStops:
    """The run is being cancelled: whoever drives it issues nothing more, closes what is open, and ends it."""

    run_id: RunId
    reason: str


@dataclass(frozen=True, slots=True)
class RunGoesOn:
    """The run no longer waits: it was resumed, or its last held call was decided."""

    run_id: RunId


Effect = ReceiptIgnored | BatchComplete | RunOver | RunStops | RunGoesOn


Verdict = tuple[SessionState, tuple[Effect, ...]] | Rejected
"""What one rule says of one event: the state after it, but for when it changed last."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`state` is the new state, or the unchanged one beside `rejection`."""

    state: SessionState
    effects: tuple[Effect, ...] = ()
    rejection: Rejected | None = None
