"""Answers of models: fences, JSON, schemas, repairs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho1_executor.contracts import (
    JSON_ALONE,
    WHOLE_TEXT,
    judge_output,
    make_repair_messages,
    strip_fence,
)
from hobus.bus.messages.base import pack
from tests.actors.ho1_executor.rig import answer
from tests.actors.ho1_executor.test_contracts import checked

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "maximum": 3}}}


def judge(text: str, schema: dict[str, Any] | None = None) -> tuple[Any, tuple[str, ...]]:
    """The parsed document and the faults of an answer under a schema."""
    verdict = judge_output(checked(output_schema=schema or SCHEMA), text)
    return verdict.parsed, verdict.faults


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("```json\n{}\n```", "{}"),
        ("```\nx\n```", "x"),
        ("  \n```JSON \r\nx\r\n```  \n", "x"),
        ("```\n```a```\n```", "```a```"),
        ("```json\n\n```", ""),
        ("before\n```json\n{}\n```", "before\n```json\n{}\n```"),
        ("```json\n{}\n``` after", "```json\n{}\n``` after"),
        ("```json {} ```", "```json {} ```"),
        ("{}", "{}"),
        ("", ""),
    ],
)
def test_one_fence_around_everything_is_taken_off(text: str, inner: str) -> None:
    assert strip_fence(text) == inner


@given(st.text(alphabet="ab{}\n ").map(str.strip))
def test_a_fenced_text_comes_back_whole(text: str) -> None:
    assert strip_fence(f"```json\n{text}\n```") == text
    assert strip_fence(text) == text


@pytest.mark.parametrize("text", ['{"n": 3}', '```json\n{"n": 3}\n```', ' {"n": 3, "more": [1.5, null]} '])
def test_a_good_document_is_parsed(text: str) -> None:
    """Additional properties do no harm unless the schema forbids them."""
    parsed, faults = judge(text)
    assert (parsed or {})["n"] == 3
    assert faults == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "$: not JSON"),
        ("hello", "$: not JSON"),
        ("[1]", "$: not a JSON object"),
        ('{"n": NaN}', "$: not JSON"),
        ('{"n": 1e999}', "$: not JSON"),
        ('{"n": 1, "m": ' + "9" * 30 + "}", "$: not JSON"),
        ('{"n": 1, "s": "\\ud800"}', "$: not JSON"),
        ("[" * 100_000, "$: not JSON"),
        ('{"n": 4}', "$.n: maximum 3"),
        ('{"n": "§"}', '$.n: type "integer"'),
        ("{}", "$: required, missing n"),
    ],
)
def test_a_bad_document_has_its_fault_named(text: str, fault: str) -> None:
    assert judge(text) == (None, (fault,))


@given(st.text())
def test_nothing_a_model_writes_breaks_the_judge(text: str) -> None:
    parsed, faults = judge(text)
    assert (parsed is None) == bool(faults)
    pack(parsed)


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_blank_text_is_never_an_answer(text: str) -> None:
    assert judge(text, {"type": "string"}) == (None, ("$: blank text",))


def test_text_is_checked_against_its_schema() -> None:
    assert judge("abc", {"type": "string", "maxLength": 2}) == (None, ("$: maxLength 2",))
    assert judge("ab", {"type": "string", "maxLength": 2}) == (None, ())


def test_a_repair_shows_the_answer_by_ref_and_says_what_is_wrong() -> None:
    """The rejected answer is recorded already; the model sees it again with the faults."""
    said, asked = make_repair_messages(answer("{", content_ref="PROMPT_RECEIVED:k/1/1"), ["$: not JSON"], JSON_ALONE)
    assert (said.role, said.text, said.segments[0].ref) == ("assistant", "{", "PROMPT_RECEIVED:k/1/1")
    assert asked.role == "user"
    assert "- $: not JSON\n" in asked.text


def test_a_repair_of_nothing_shows_nothing() -> None:
    """An empty assistant message is no valid transcript for a provider."""
    assert [message.role for message in make_repair_messages(answer(""), ["$: blank text"], WHOLE_TEXT)] == ["user"]
