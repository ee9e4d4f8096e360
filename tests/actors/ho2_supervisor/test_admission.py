"""Admission: what becomes of a request, in every situation of its input."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho2_supervisor.admission import Admission, admit
from hobus.actors.ho2_supervisor.session.journal import digest_input
from hobus.actors.ho2_supervisor.session.record import AnswerKind, KnownInput
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.errors import SessionFault
from hobus.bus.messages.session import SessionConfig, TurnRequest, describe_form
from hobus.bus.messages.work_order import ToolFile
from hobus.bus.record.session_facts import SessionEnded
from tests.actors.ho2_supervisor.journals import SESSION, at, fold, running, started

SAME = digest_input("i1", "hello")
CLOSED = fold(started(), SessionEnded(reason="x", turn_count=0, at=at(1)))


def known(became: AnswerKind, digest: str | None = SAME, form: str | None = "") -> KnownInput:
    """An input of the session."""
    return KnownInput("i1", digest, "in/1", None, became, form=form)


def asked(state: SessionState, *inputs: KnownInput, **changes: Any) -> Admission:
    """The decision about a request."""
    of = {one.input_id: one for one in inputs}
    message = TurnRequest(**{"session_id": SESSION, "input_id": "i1", "text": "hello"} | changes)
    return admit(state, of, message)


def code(decision: Admission) -> str:
    """A refusal's code; empty for anything else."""
    return decision.code if isinstance(decision, SessionFault) else ""


def test_new_input_begins_in_an_idle_session_only() -> None:
    """One run at a time, none in a closed session."""
    assert asked(started()) == "begin"
    assert code(asked(running(), input_id="i2")) == "run_active"
    assert code(asked(CLOSED)) == "session_closed"


def test_a_follow_ups_input_begins_by_its_command_alone() -> None:
    """Its answer may be asked for; a turn under its id would leave the command of that name without one."""
    assert code(asked(started(), input_id="followup:x")) == "invalid_input"
    one = KnownInput("followup:x", digest_input("followup:x", "hello"), "in/1", None, "answered")
    assert asked(started(), one, input_id="followup:x") is one


@pytest.mark.parametrize("state", [started(), running(), CLOSED], ids=["idle", "running", "closed"])
@pytest.mark.parametrize("became", ["answered", "failed", "degraded"])
def test_answered_input_gives_its_answer_whatever_the_session_is_by_now(
    state: SessionState, became: AnswerKind
) -> None:
    """A retry is never told that a run is active or the session closed."""
    one = known(became)
    assert asked(state, one) is one


def test_input_in_progress_is_attached_to() -> None:
    """The same input joins its own run."""
    assert asked(running(), known("running")) == "attach"


@pytest.mark.parametrize("became", ["running", "answered", "failed", "degraded"])
def test_another_text_under_a_known_input_is_a_conflict(became: AnswerKind) -> None:
    """In every situation of that input; an input whose text was erased cannot conflict."""
    assert code(asked(started(), known(became, "other"))) == "input_conflict"
    assert code(asked(started(), known(became, None))) == ""


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_blank_text_is_invalid(text: str) -> None:
    """Before anything else is looked at."""
    assert code(asked(started(), known("answered"), text=text)) == "invalid_input"


def test_blank_model_is_invalid() -> None:
    """An override that leaves the run without a model never begins."""
    assert code(asked(started(), run_overrides=SessionConfig(model=""))) == "invalid_input"


def test_a_message_brings_images_of_its_own_session_alone() -> None:
    """A ref elsewhere would show a model what somebody else sent."""
    own, other = (ToolFile(name="a", media_type="image/png", size_bytes=1, ref=ref) for ref in (
        f"TURN_IMAGE:{SESSION}/0/1", "TURN_IMAGE:another/0/1",
    ))  # fmt: skip
    assert asked(started(), files=[own]) == "begin"
    assert code(asked(started(), files=[own, other])) == "invalid_input"


def test_another_form_under_a_known_input_is_a_conflict() -> None:
    """Unless nobody recorded in which form it was asked for: then its answer stands."""
    wanted = SessionConfig(output_schema={"type": "object"})
    assert code(asked(started(), known("answered"), run_overrides=wanted)) == "input_conflict"
    assert code(asked(started(), known("answered", form=describe_form(wanted)), run_overrides=wanted)) == ""
    assert code(asked(started(), known("answered", form=describe_form(wanted)))) == "input_conflict"
    assert code(asked(started(), known("degraded", form=None), run_overrides=wanted)) == ""


def test_a_session_answers_for_its_own_agent_alone() -> None:
    """Whoever names another one is told, also for an input that was answered; who names none is answered."""
    assert code(asked(started(), agent_id="OTHER")) == "agent_mismatch"
    assert code(asked(started(), known("answered"), agent_id="OTHER")) == "agent_mismatch"
    assert asked(started(), agent_id=started().agent_id) == "begin"
