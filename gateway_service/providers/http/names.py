"""Ids of this system as providers take them, and back. Pure.

A provider takes tool names of letters, digits, `_` and `-` only, and wants every call of a transcript under an id of
its own, while calls are numbered anew in each answer here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hobus.bus.messages.gateway import PromptMessage

_NAME_MAX_CHARS = 64
"""The shortest limit of any provider's."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class ToolNames:
    """Tool ids of one prompt under names that a provider takes: each its own, the same ones for the same ids."""

    def __init__(self, tool_ids: Sequence[str]) -> None:
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        for tool_id in tool_ids:
            if tool_id in self._names:
                continue
            wanted = _FOREIGN.sub("_", tool_id)[:_NAME_MAX_CHARS] or "_"
            name, number = wanted, 1
            while name in self._ids:
                number += 1
                name = f"{wanted[: _NAME_MAX_CHARS - 1 - len(str(number))]}_{number}"
            self._names[tool_id], self._ids[name] = name, tool_id

    def name(self, tool_id: str) -> str:
        """What the provider knows it as."""
        return self._names[tool_id]

    def tool_id(self, name: str) -> str:
        """What it is here; a name that a model made up is left as it is."""
        return self._ids.get(name, name)


def with_call_ids(messages: Sequence[PromptMessage]) -> Iterator[tuple[PromptMessage, list[str]]]:
    """Each message with the provider's ids of its calls, or of the call that it answers: the provider's own if there.

    An id that stood in an earlier answer too (some servers count anew each time) is made different.
    """
    used: set[str] = set()
    current: dict[str, str] = {}
    for number, message in enumerate(messages):
        if message.role == "assistant":
            current = {}
            for call in message.tool_calls:
                own = _FOREIGN.sub("_", call.provider_call_id)[:_NAME_MAX_CHARS]
                current[call.call_id] = own if own and own not in used else f"call_{number}_{call.call_id}"
                used.add(current[call.call_id])
            yield message, [current[call.call_id] for call in message.tool_calls]
        elif message.role == "tool":
            yield message, [current.get(message.tool_call_id, message.tool_call_id)]
        else:
            yield message, []
