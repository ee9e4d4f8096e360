"""What prompts have in common: earlier turns of a session, of which the next brings what is new, and standing parts."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from hobus.bus.errors import BusError
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.work_order import Segment, ToolSpec
from hobus.bus.window import remember
from hobus.gateway_service.limits import CONTRACTS_SHARED_MAX, TOLD_TOOLS_MAX


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
            found = transcript.whole(known, text, prompt.history_after)
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


class Standing:
    """What prompts tell again and again, held once for all that wait: tools, and a contract's instructions and schema.

    The newest of each; what was told longest ago goes first.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, ToolSpec] = OrderedDict()
        self._last: list[ToolSpec] = []  # of the last prompt that told of others than the one before
        self._contracts: OrderedDict[str, tuple[dict[str, Any], list[Segment]]] = OrderedDict()

    def share(self, prompt: Prompt) -> None:
        """Replace parts of the prompt by equal ones of an earlier prompt."""
        self._share_tools(prompt)
        schema, said = prompt.output_schema or {}, prompt.messages[0].segments if prompt.messages else []
        earlier_schema, earlier = self._contracts.get(prompt.contract_id, ({}, []))
        if schema == earlier_schema:
            schema.update(earlier_schema)
        said[: len(earlier)] = [was if was == own else own for own, was in zip(said, earlier, strict=False)]
        remember(self._contracts, prompt.contract_id, (schema, said), at_most=CONTRACTS_SHARED_MAX)

    def _share_tools(self, prompt: Prompt) -> None:
        if prompt.tools == self._last:
            prompt.tools[:] = self._last
            return
        known = self._known
        for place, tool in enumerate(prompt.tools):
            earlier = known.get(tool.tool_id)
            prompt.tools[place] = tool if earlier is None or earlier != tool else earlier
            remember(known, tool.tool_id, prompt.tools[place], at_most=TOLD_TOOLS_MAX)
        self._last = list(prompt.tools)
