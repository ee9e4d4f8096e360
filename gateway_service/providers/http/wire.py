"""What both kinds of provider share: values that may be anything, names and ids as providers take them. Pure.

A provider takes tool names of letters, digits, `_` and `-` only, and wants every call of a transcript under an
id of its own, while calls are numbered anew in each answer here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from hobus.bus.messages.gateway import Prompt, PromptMessage, SeenImage
from hobus.bus.messages.work_order import ToolCall


class BadAnswer(Exception):
    """An answer that came, and is none; `used` is what it says that it cost, empty where it does not say."""

    def __init__(self, what: str, used: dict[str, int] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.used = used or {}


IN_PIECES = "it came in pieces, and nobody asked for that"

SENTENCES = ("message", "msg", "error_msg", "error_message", "errorMessage", "status_msg")
"""What servers call their own sentence of an error."""

ERROR_KEYS = frozenset({"errors", "detail", "base_resp", *SENTENCES})
"""Where servers that know no `error` say one."""


def read_facts(value: Any) -> dict[str, Any]:
    """Read the JSON object of what no answer is refused for; whatever else stands there counts as an empty one."""
    return value if isinstance(value, dict) else {}


def read_object(value: Any, where: str) -> dict[str, Any]:
    """Read a JSON object; all that is empty counts as one: some servers have one word for it (`[]`, `false`, `""`)."""
    return value if type(value) is dict else _read_kind(dict, value, where)


def read_list(value: Any, where: str) -> list[Any]:
    """Read a JSON array; all that is empty counts as one."""
    return value if type(value) is list else _read_kind(list, value, where)


def read_text(value: Any, where: str) -> str:
    """Read a text; all that is empty counts as one, and a number as its digits."""
    return value if type(value) is str else str(value) if type(value) is int else _read_kind(str, value, where)


def read_blocks(value: Any, where: str) -> list[dict[str, Any]]:
    """Return the parts of a content, which may be one text, one part, or a list of either."""
    parts = value if isinstance(value, list) else [value]
    return [part if isinstance(part, dict) else {"type": "text", "text": read_text(part, where)} for part in parts]


def _read_kind(kind: type[Any], value: Any, where: str) -> Any:
    if not value:
        return kind()
    if not isinstance(value, kind):
        raise BadAnswer(f"{where} is {name_kind(value)}, not {_KINDS[kind]}")
    return value


def name_kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")


_KINDS: dict[type[Any], str] = {str: "text", list: "a list", dict: "an object", bool: "a truth value"}


_NAME_MAX_CHARS = 64
"""The shortest limit of any provider's."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


@lru_cache(maxsize=1024)
def _make_taken(name: str) -> str:
    """Return what a provider takes in the place of a name or an id; cached, as the same ones come again and again."""
    return _FOREIGN.sub("_", name)[:_NAME_MAX_CHARS]


class ToolNames:
    """Map the tool ids of one prompt to names that a provider takes: unique, the same ones for the same ids."""

    def __init__(self, tool_ids: Sequence[str]) -> None:
        self.names: dict[str, str] = {}
        """Under which the provider knows a tool id."""
        self._ids: dict[str, str] = {}
        for tool_id in tool_ids:
            if tool_id in self.names:
                continue
            wanted = _make_taken(tool_id) or "_"
            name, number = wanted, 1
            while name in self._ids:
                number += 1
                name = f"{wanted[: _NAME_MAX_CHARS - 1 - len(str(number))]}_{number}"
            self.names[tool_id], self._ids[name] = name, tool_id

    @staticmethod
    def of(prompt: Prompt) -> ToolNames:
        asked = [call.tool_id for message in prompt.messages for call in message.tool_calls]
        return _names_of((*[tool.tool_id for tool in prompt.tools], *asked))

    def tool_id(self, name: str) -> str:
        """Return the tool id behind a provider's name for it; a name that a model made up is left as it is."""
        return self._ids.get(name, name)

    def go_on(self, name: str, piece: str, arguments: str) -> bool:
        """Return whether this piece continues the name of a call, before its arguments, and is no name of another."""
        if not name or piece in ("", name) or arguments:
            return False
        return name not in self._ids or any(known.startswith(name + piece) for known in self._ids)


_names_of = lru_cache(maxsize=64)(ToolNames)
"""Only speed depends on the number kept: nearly every prompt of an agent offers the same tools."""


class CallIds(dict[str, str]):
    """Map call ids of a transcript's newest calls to the provider's; what is unknown stays as it is."""

    def __init__(self) -> None:
        self._used = set[str]()
        self._count = 0

    def add(self, calls: Iterable[ToolCall]) -> None:
        """Add the calls of the next answer, under the provider's own ids if there.

        An id that stood in an earlier answer too (some servers count anew each time) is made different.
        """
        for call in calls:
            own = _make_taken(call.provider_call_id)
            if not own or own in self._used:
                own = f"call_{self._count}_{call.call_id}"
            self._used |= {own}
            self._count += 1
            self[call.call_id] = own

    def __missing__(self, call_id: str) -> str:
        return call_id


def with_images(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Return a person's messages that brought images, or stand where earlier ones are shown; nearly always none."""
    return [one for one in messages if one.role == "user" for segment in one.segments if segment.files]


def split_images(message: PromptMessage, text: str) -> list[str | SeenImage]:
    """Return a person's words verbatim, each image in the place of its line; before them those of earlier messages.

    The line of an image that is not shown stands in a block of its own, which says so.
    """
    files = [file.told for segment in message.segments for file in segment.files]
    left: dict[str, str | SeenImage] = {told: f"<not_shown>{told}</not_shown>" for told in files}
    left |= {image.told: image for image in message.images}
    lines, parts, said = frozenset(left), list[str | SeenImage](), list[str]()
    for line in [*text.split("\n"), None]:
        if line is not None and line not in lines:
            said.append(line)
            continue
        if (words := "\n".join(said)).strip():
            parts.append(words)
        said = []
        if image := left.pop(line or "", None):
            parts.append(image)
    earlier = [image for image in left.values() if isinstance(image, SeenImage)]
    named = ((f"[the image {image.name} of an earlier message]", image) for image in earlier)
    return [*(part for pair in named for part in pair), *parts]


def find_given_back(call: ToolCall, model_id: str, part: str) -> dict[str, Any]:
    """Return this part of what this model wants back with its call; nothing of another model's."""
    kept = call.given_back
    return kept[part] if part in kept and kept.get("model") == model_id else {}


_WINDOW = (
    "max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens", "n_ctx",
    "n_ctx_train",
)  # fmt: skip
"""What servers call a model's window in their list of models: vLLM, OpenRouter, Groq, Mistral, Anthropic, llama.cpp."""


def read_window(model: dict[str, Any]) -> int | None:
    """Return the window of a model of such a list, in tokens; None where it does not say."""
    meta = model.get("meta")
    told = model | meta if isinstance(meta, dict) else model
    return next((told[name] for name in _WINDOW if type(told.get(name)) is int and told[name] > 0), None)
