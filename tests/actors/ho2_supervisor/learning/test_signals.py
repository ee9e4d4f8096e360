"""What a run teaches: one signal per fact, derived ids, no fact invented and none that a model made up."""

from __future__ import annotations

from typing import Any

from hobus.actors.ho2_supervisor.learning.learning import list_signals
from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.config.sections.turns import ClassifyLabels
from tests.actors.ho2_supervisor.rig import SESSION

VOCABULARY = ClassifyLabels(domain=["system", "config"], task=["inspect", "debug"])
AT = "2026-01-01T00:00:00.000000Z"


def ended(**changes: Any) -> EndedRun:
    """A run that was classified, used two tools and was answered."""
    values: dict[str, Any] = {
        "run_seq": 3, "input_id": "i1", "requested_at": AT,
        "classified": {"speech_act": "question", "labels": {"domain": ["system", "config"], "task": "inspect"}},
        "tool_ids": ("list_tools", "list_packages"), "outcome": "success", "ended_by": "RunCompleted:x",
    }  # fmt: skip
    return EndedRun(**{**values, **changes})


def ids(run: EndedRun) -> list[str]:
    """The signals of a run whose agent has three tools."""
    tools = ("list_packages", "list_tools", "bad tool")
    return [
        signal.signal_id for signal in list_signals(run, SESSION, principal="local", tools=tools, vocabulary=VOCABULARY)
    ]


def test_every_fact_is_one_signal_in_a_fixed_order() -> None:
    """Intent, labels, tools, outcome; each at the turn's event time, under an id that follows from the run."""
    assert ids(ended()) == [
        "intent:question", "domain:system", "domain:config", "task:inspect", "tool:list_tools", "tool:list_packages",
        "outcome:success",
    ]  # fmt: skip
    first = list_signals(ended(), SESSION, principal="local", tools=(), vocabulary=VOCABULARY)[0]
    assert (first.event_id, first.session_id, first.at) == (f"EVT-{SESSION}-3-intent:question", SESSION, AT)
    assert list_signals(ended(), SESSION, principal="local", tools=(), vocabulary=VOCABULARY)[0] == first


def test_a_missing_field_gives_no_signal_and_no_error() -> None:
    """A failed classification, no tools, a cancelled run: what is left is what is known."""
    assert ids(ended(classified=None, tool_ids=())) == ["outcome:success"]
    assert ids(ended(classified={"speech_act": "question"}, tool_ids=(), outcome="failed")) == [
        "intent:question", "outcome:failed",
    ]  # fmt: skip
    assert ids(ended(classified=None, tool_ids=(), outcome="")) == []


def test_what_a_model_made_up_is_no_signal() -> None:
    """Labels outside the vocabulary, tools that the agent has not, and names that no id can hold."""
    made_up = {"speech_act": "question", "labels": {"domain": ["weather"], "task": ["inspect", "inspect"]}}
    run = ended(classified=made_up, tool_ids=("rm_rf", "bad tool", "list_tools"))
    assert ids(run) == ["intent:question", "task:inspect", "tool:list_tools", "outcome:success"]


def test_a_wildcard_of_the_agent_names_its_tools():
    """All of a server's are its own; another server's are not."""
    run = ended(tool_ids=("s__read", "t__read"))
    found = [
        signal.signal_id
        for signal in list_signals(run, SESSION, principal="local", tools=("s__*",), vocabulary=VOCABULARY)
    ]
    assert "tool:s__read" in found
    assert "tool:t__read" not in found
