"""What prompts have in common and need not bring again: earlier turns of a session, tools, and standing parts."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeVar

from hobus.bus.errors import BusError
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt, hash_tools
from hobus.bus.messages.work_order import Segment, ToolSpec
from hobus.bus.window import remember
from hobus.gateway_service.limits import SHARED_PARTS_MAX, TOOLS_KEPT_MAX

T = TypeVar("T")


class Histories:
    """Earlier turns by session; the least recently asked session goes first."""

    def __init__(self, *, chars_max: int) -> None:
        self._chars_max = chars_max
        self._chars = 0
        self._texts: OrderedDict[str, str] = OrderedDict()

    def whole(self, prompt: Prompt) -> Prompt:
        """Return the prompt with all of its earlier turns. Raises BusError(history_unknown, retryable)."""
        place = next((n for n, one in enumerate(prompt.messages) if one.role == transcript.NAME and one.segments), None)
        if place is None:
            return prompt
        message = prompt.messages[place]
        said = message.segments[0]
        known, text = self._texts.pop(prompt.session_id, ""), said.text
        self._chars -= len(known)
        if prompt.history_after is not None:
            found = transcript.join_whole(known, text, prompt.history_after)
            if found is None:
                raise BusError(transcript.UNKNOWN, "ask with all of it", retryable=True, retry_after_ms=0)
            text = found
        self._texts[prompt.session_id] = text
        self._chars += len(text)
        while self._chars > self._chars_max:
            self._chars -= len(self._texts.popitem(last=False)[1])
        if prompt.history_after is None:
            return prompt
        segments = [said.model_copy(update={"text": text}), *message.segments[1:]]
        messages = list(prompt.messages)
        messages[place] = message.model_copy(update={"segments": segments})
        return prompt.model_copy(update={"messages": messages, "history_after": None})


class SharedParts:
    """What prompts of an agent under a contract repeat, held once for all that wait: instructions, tools and schema."""

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str], tuple[dict[str, Any], list[Segment], list[ToolSpec]]] = OrderedDict()
        self._tools: OrderedDict[bytes, list[ToolSpec]] = OrderedDict()  # by their digest

    def share(self, prompt: Prompt) -> None:
        """Replace parts of the prompt by equal ones, in the same places, of the one before; put in tools left out.

        Raises BusError(history_unknown, retryable).
        """
        key, said = (prompt.agent_id, prompt.contract_id), prompt.messages[0].segments if prompt.messages else []
        schema, segments, tools = self._newest.get(key, ({}, [], []))
        if prompt.output_schema and prompt.output_schema == schema:
            prompt.output_schema.update(schema)
        said[: len(segments)] = map(_same, said, segments)
        self._fill_in(prompt, tools)
        newest = (prompt.output_schema or {}, said, prompt.tools)
        remember(self._newest, key, newest, at_most=SHARED_PARTS_MAX)

    def _fill_in(self, prompt: Prompt, newest: list[ToolSpec]) -> None:
        """Put in the tools that the prompt names by their digest; keep those that it brings, under their own."""
        digest = prompt.tools_digest
        if prompt.tools:
            prompt.tools[: len(newest)] = map(_same, prompt.tools, newest)
            digest = None if digest is None else hash_tools(prompt.tools)
        elif digest is not None:
            if digest not in self._tools:
                raise BusError(transcript.UNKNOWN, "ask with its tools", retryable=True, retry_after_ms=0)
            prompt.tools.extend(self._tools[digest])
        if digest is not None:
            remember(self._tools, digest, prompt.tools, at_most=TOOLS_KEPT_MAX)


def _same(own: T, earlier: T) -> T:
    return earlier if own == earlier else own
