"""What a model answered: take off one code fence, read JSON where the contract wants it, check it, ask for a repair.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hobus.actors.ho1_executor.contracts import CheckedContract, schema_faults
from hobus.bus.json_text import value_of
from hobus.bus.messages.gateway import PromptMessage, PromptResponse
from hobus.bus.messages.work_order import Segment

_FENCE = re.compile(r"\A\s*```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer against its contract; `faults` are sentences without the answer's text, empty if it is good."""

    parsed: dict[str, Any] | None
    faults: tuple[str, ...]


_FORM = """
Your answer is read by a program: give it as JSON alone, without a code fence or a word before or behind it, as one
object that this JSON Schema takes.
<output_schema>
{schema}
</output_schema>
"""

NO_CALL = Verdict(None, ("no tool is asked for, and one has to be",))
JSON_ALONE = "one JSON object and nothing else, no code fence"
WHOLE_TEXT = "the complete answer as text"
A_CALL = "a call of one of the tools"


def strip_fence(text: str) -> str:
    """The text without one code fence around all of it; anything else is left as it is."""
    fenced = _FENCE.match(text)
    return fenced.group(1) if fenced else text


def judge_output(checked: CheckedContract, content: str) -> Verdict:
    """Whether an answer (that asks for no tools) is what the contract wants."""
    if not checked.wants_json:
        if not content.strip():
            return Verdict(None, ("$: blank text",))
        return Verdict(None, tuple(schema_faults(checked.output, content)) if checked.output else ())
    try:
        value = value_of(strip_fence(content))
    except ValueError:
        return Verdict(None, ("$: not JSON",))
    if not isinstance(value, dict):
        return Verdict(None, ("$: not a JSON object",))
    faults = tuple(schema_faults(checked.output, value)) if checked.output else ()
    return Verdict(None if faults else value, faults)


def bare(answer: Segment, checked: CheckedContract) -> Segment:
    """The answer as whoever asked reads it: in a form of theirs the JSON alone, without the fence around it."""
    text = strip_fence(answer.text).strip() if checked.is_asked_for else answer.text
    return answer if text == answer.text else Segment(name=answer.name, text=text)


def with_form_told(messages: Sequence[PromptMessage], schema: dict[str, Any]) -> list[PromptMessage]:
    """The prompt with the form of its answer in words, where its user speaks last.

    In words too, beside what the provider is told: not each one keeps a schema, or takes every one.
    """
    at = max(number for number, message in enumerate(messages) if message.role == "user")
    told = Segment(name="output_schema", text=_FORM.format(schema=json.dumps(schema, ensure_ascii=False)))
    asking = messages[at].model_copy(update={"segments": [*messages[at].segments, told]})
    return [*messages[:at], asking, *messages[at + 1 :]]


def repair_messages(response: PromptResponse, faults: Sequence[str], shape: str) -> list[PromptMessage]:
    """What is added to the transcript to have a rejected answer mended: the answer, and what is wrong with it."""
    listed = "\n".join(f"- {fault}" for fault in faults)
    ask = f"Your answer was not accepted:\n{listed}\nAnswer again with {shape}."
    said = [Segment(name="answer", ref=response.content_ref, text=response.content)] if response.content else []
    return [
        *([PromptMessage(role="assistant", segments=said)] if said else []),
        PromptMessage(role="user", segments=[Segment(name="repair", text=ask)]),
    ]
