"""Earlier turns of sessions as their newest prompts showed them: the next prompt brings only what is new."""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.errors import BusError
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt


class Histories:
    """By session, the least recently asked one goes first; what does not fit the digest that is named is not known."""

    def __init__(self, *, chars_max: int) -> None:
        self._chars_max = chars_max
        self._chars = 0
        self._texts: OrderedDict[str, str] = OrderedDict()

    def whole(self, prompt: Prompt) -> Prompt:
        """The prompt with all of its earlier turns. Raises BusError(history_unknown, retryable)."""
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
