"""May this input start a run, join one, or was it answered? And may a session or a run have these settings? Pure.

Admission is one synchronous step of the supervisor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from hobus.actors.ho2_supervisor.session.commands import get_command_id
from hobus.actors.ho2_supervisor.session.journal import digest_input
from hobus.actors.ho2_supervisor.session.record import KnownInput
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.actors.ho2_supervisor.turn import caller_tools
from hobus.bus.errors import SessionFault
from hobus.bus.messages.ids import derive_image_id, follow_up_input, is_follow_up
from hobus.bus.messages.session import SessionConfig, TurnRequest, describe_form, render_words
from hobus.config.attention_rules import find_override_fault
from hobus.config.attention_template import Template
from hobus.config.json_schema import find_schema_fault
from hobus.config.sections.gateway import GatewayConfig

Templates = Mapping[str, Template]
Admission = KnownInput | SessionFault | Literal["begin", "attach", "go on"]
"""An input whose run is over, or that the host answered: give what the record says. A verdict, to be raised. Else a new
run begins, or the active run is about this very input: wait for its answer; or that run has failed and goes on."""


def admit(
    state: SessionState, inputs: Mapping[str, KnownInput], message: TurnRequest, *, said_before: str = ""
) -> Admission:
    """Decide what becomes of a request. A known input comes first: its answer stands whatever the session is by now.

    `said_before`: an earlier message that must have its run first; empty: none.
    """
    input_id, text, results, overrides = message.input_id, message.text, message.results, message.run_overrides
    if not results and not text.strip():
        return SessionFault("invalid_input", f"input {input_id} is blank; a turn needs text")
    if message.agent_id is not None and message.agent_id != state.agent_id:
        return SessionFault(
            "agent_mismatch",
            f"session {state.session_id} is one of agent {state.agent_id}; start another session for another agent",
        )
    known = inputs.get(input_id)
    if known is not None:
        if fault := find_conflict(known, digest_input(input_id, render_words(text, results)), describe_form(overrides)):
            return SessionFault("input_conflict", fault)
        if state.failed is not None and state.failed.input_id == input_id and state.status == "open":
            return "go on"
        return "attach" if known.became == "running" else known
    if state.status == "closed" or state.cell:
        return make_over_fault(state)
    active = f"run {state.run_id} answers input {state.run.input_id}" if state.run is not None else ""
    if said_before or active:
        return SessionFault("run_active", f"{said_before or active}; wait until it is over")
    if (
        fault := find_blank_fault(overrides)
        or find_files_fault(message)
        or find_settings_fault(overrides)
        or caller_tools.find_results_fault(results, text, state.open_calls)
    ):
        return SessionFault("invalid_input", fault)
    if is_follow_up(input_id):  # else the follow-up of that name could never begin
        return SessionFault(
            "invalid_input", f"no follow-up was said whose answer {input_id} asks for; use another input id"
        )
    return "begin"


def make_over_fault(state: SessionState) -> SessionFault:
    """Return the fault for a session that takes nothing new: it goes on in another cell, or has ended."""
    if not state.cell:
        return SessionFault("session_closed", f"session {state.session_id} has ended; start another one")
    return SessionFault("session_left", f"session {state.session_id} has moved to cell {state.cell}: ask there")


def find_blank_fault(settings: SessionConfig | None) -> str:
    """Return why the named model is not a valid name; empty if it is, or if none is named."""
    given = () if settings is None else (settings.provider, settings.model)
    is_blank = any(name is not None and not name.strip() for name in given)
    return "provider or model is blank; name it or leave it out" if is_blank else ""


def find_files_fault(message: TurnRequest) -> str:
    """Return why a message may not bring these files; empty if it brings none, or images of its own session."""
    own = derive_image_id(message.session_id, "")
    strange = [file.name for file in message.files if not file.ref.startswith(own)]
    return f"files: {strange[0][:80]!r} is no image of session {message.session_id}" if strange else ""


def find_conflict(known: KnownInput, digest: str, form: str) -> str:
    """Return why a request differs from the input that has its id; empty if it is the same."""
    if known.digest not in (None, digest):
        return f"input {known.input_id} came before with another text; a new text needs a new input id"
    if known.form not in (None, form):
        return f"input {known.input_id} came before with another output_schema; a new schema needs a new input id"
    return ""


def is_pending_follow_up(state: SessionState, input_id: str) -> bool:
    """Return whether this input is a follow-up whose run is still to come."""
    return any(follow_up_input(get_command_id(ref)) == input_id for ref in state.pending_follow_up)


def find_settings_fault(wanted: SessionConfig | None) -> str:
    """Return why no run can have these settings; empty if one can, as far as the session knows."""
    if fault := caller_tools.offer_fault(wanted):
        return fault
    schema = None if wanted is None else wanted.output_schema
    fault = "" if schema is None else find_schema_fault(schema)
    return f"output_schema {fault}" if fault else ""


def find_template_fault(whose: str, settings: SessionConfig | None, known: Templates) -> str:
    """Return why the attention template that these settings name cannot be used; empty if it can, or none is named.

    Asked before a session starts only: later turns go on without a removed template, and their records warn.
    """
    wanted = None if settings is None else settings.attention_template
    fault = "" if wanted is None else find_override_fault(known, wanted)
    return f"{whose}.attention_template: {fault}" if fault else ""


def find_agent_fault(agent_id: str | None, agents: Collection[str]) -> str:
    """Return why this agent cannot answer; empty if it can. An agent may be removed after a session's beginning."""
    if agent_id in agents:
        return ""
    return (
        f"agent {agent_id} of this session is not configured any more: put it back (config/agents/{agent_id}.json, or "
        "its package) and call hobus reload, or begin a session with another agent"
    )


def find_profile_fault(wanted: SessionConfig, gateway: GatewayConfig) -> str:
    """Return why no run can have the profile that a session's settings name; empty if it can, or none is named."""
    if wanted.provider_profile_id is None or wanted.provider_profile_id in gateway.profiles:
        return ""
    known = ", ".join(sorted(gateway.profiles)) or "none"
    return (
        f"session_config.provider_profile_id: there is no profile {wanted.provider_profile_id[:80]!r}; "
        f"configured are {known}"
    )
