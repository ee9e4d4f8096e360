"""May this input start a run, join one, or was it answered? Pure: one synchronous step of the supervisor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hobus.actors.ho2_supervisor.session.commands import command_of
from hobus.actors.ho2_supervisor.session.record import KnownInput
from hobus.actors.ho2_supervisor.session.state import SessionState, names_no_model
from hobus.actors.ho2_supervisor.settings import settings_fault
from hobus.actors.ho2_supervisor.turn import caller_tools
from hobus.bus.messages.ids import follow_up_input, is_follow_up
from hobus.bus.messages.session import CallResult, SessionConfig, form_of
from hobus.config.schema import SessionsConfig


@dataclass(frozen=True, slots=True)
class Begin:
    """A new run."""


@dataclass(frozen=True, slots=True)
class Attach:
    """The active run is about this very input: wait for its answer."""


@dataclass(frozen=True, slots=True)
class Known:
    """The input's run is over, or the host answered it: give what the record says."""

    known: KnownInput


@dataclass(frozen=True, slots=True)
class Refused:
    """A verdict: `code` of the session faults, and what is the matter."""

    code: str
    detail: str


Admission = Begin | Attach | Known | Refused


def admit(  # noqa: PLR0913 - what a request and a session are
    state: SessionState,
    inputs: Mapping[str, KnownInput],
    *,
    input_id: str,
    text: str,
    digest: str,
    agent_id: str | None,
    overrides: SessionConfig | None,
    results: Sequence[CallResult],
    limits: SessionsConfig,
) -> Admission:
    """What becomes of a request. A known input comes first: its answer stands whatever the session is by now."""
    if not results and not text.strip():
        return Refused("invalid_input", f"input {input_id} is blank; a turn needs text")
    if agent_id is not None and agent_id != state.agent_id:
        return Refused(
            "agent_mismatch",
            f"session {state.session_id} is one of agent {state.agent_id}; another agent needs another",
        )
    known = inputs.get(input_id)
    if known is not None:
        if fault := conflict(known, digest, form_of(overrides)):
            return Refused("input_conflict", fault)
        return Attach() if known.became == "running" else Known(known)
    if state.status == "closed":
        return Refused("session_closed", f"session {state.session_id} has ended; start another one")
    if state.run is not None:
        return Refused("run_active", f"run {state.run_id} answers input {state.run.input_id}; wait until it is over")
    if names_no_model(state.session_config, overrides):
        return Refused("invalid_input", "the run's provider or model is blank; name both or leave them out")
    if fault := settings_fault(overrides, limits) or caller_tools.results_fault(results, text, state.open_calls):
        return Refused("invalid_input", fault)
    if is_follow_up(input_id):  # else the follow-up of that name could never begin
        return Refused(
            "invalid_input", f"no follow-up was said whose answer {input_id} asks for; name the input otherwise"
        )
    return Begin()


def conflict(known: KnownInput, digest: str, form: str) -> str:
    """Why a request is another one than the input that has its id; empty: it is the same."""
    if known.digest not in (None, digest):
        return f"input {known.input_id} came before with another text; a new text needs a new input id"
    if known.form not in (None, form):
        return f"input {known.input_id} came before with another output_schema; another form needs a new input id"
    return ""


def is_pending_follow_up(state: SessionState, input_id: str) -> bool:
    """Whether this input is a message that waits for its turn: its run is still to come."""
    return any(follow_up_input(command_of(ref)) == input_id for ref in state.pending_follow_up)
