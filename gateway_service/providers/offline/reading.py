"""What the offline model sees in a prompt: the message, what was said before, what the tools answered. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bus.messages.gateway import Prompt, PromptMessage
from bus.messages.work_order import ToolCall

_SPOKEN = re.compile(r"^(?:- )?(user|assistant)(?: \(used [^)]*\))?: ", re.MULTILINE)
_DIGEST_NOTES = re.compile(r" \([a-z_, ]+(?:; degraded)?\)$|\s*\(degraded\)$")


@dataclass(frozen=True, slots=True)
class Said:
    """One earlier utterance."""

    who: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """One tool call of this turn with what came back."""

    call: ToolCall
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A prompt, taken apart by segment names; a name that the prompt lacks reads as empty text."""

    user_input: str
    history: tuple[Said, ...]
    answered: tuple[Answered, ...]
    segments: dict[str, str]
    steers: tuple[str, ...] = ()  # what was said while this turn was at work

    def named(self, name: str) -> str:
        """The text of all segments of this name."""
        return self.segments.get(name, "").strip()


def read_prompt(prompt: Prompt) -> Reading:
    """The reading of a prompt; without a segment `user_input` the last user message counts as one."""
    segments: dict[str, str] = {}
    steers: list[str] = []
    for message in prompt.messages:
        for segment in message.segments:
            if segment.name == "steer" and segment.text.strip():
                steers.append(segment.text.strip())
            if message.role != "tool" and segment.name:
                segments[segment.name] = segments.get(segment.name, "") + segment.text
    spoken = [message for message in prompt.messages if message.role == "user"]
    user_input = segments.get("user_input") or (spoken[-1].text if spoken else "")
    return Reading(
        user_input=user_input.strip(),
        history=tuple(said_in(segments.get("history", ""))),
        answered=tuple(_answered(prompt.messages)),
        segments=segments,
        steers=tuple(steers),
    )


def said_in(history: str) -> list[Said]:
    """Earlier utterances out of `user: …` and `assistant: …` paragraphs, or one-line digests of user messages."""
    pieces = _SPOKEN.split(history)
    said: list[Said] = []
    for who, text in zip(pieces[1::2], pieces[2::2], strict=True):
        said.append(Said("user" if who == "user" else "assistant", _DIGEST_NOTES.sub("", text.strip())))
    return said


def _answered(messages: Sequence[PromptMessage]) -> list[Answered]:
    """The tool calls of this turn and their results, in order; a call without a result is not among them."""
    found: list[Answered] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "assistant":
            waiting = {call.call_id: call for call in message.tool_calls}
        elif message.role == "tool" and (call := waiting.get(message.tool_call_id)) is not None:
            found.append(Answered(call, message.text))
    return found
