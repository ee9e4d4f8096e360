"""What a Python package needs to offer a tool to agents: a decorator, the call's own facts, and one exception.

    # my_package/tools.py
    from hobus import Invocation, ToolFault, tool

    @tool(idempotent=False, writes=True)
    def open_ticket(title: str, urgent: bool = False, *, call: Invocation) -> dict[str, str]:
        \"\"\"Opens a ticket and gives its number.\"\"\"
        return {"ticket": tickets.create(title, urgent, key=call.idempotency_key)}

An agent in Python lists the function; in the files of a home `"open_ticket = my_package.tools:open_ticket"` among
`tools.entry_points` names it, or a file with it. The function stays a plain function; it runs in a killable tool
process, a `def` alone in it, an `async def` beside others that wait. What it returns is shown as JSON; an `Image` or a
`File`, alone or anywhere in it, is kept and shown as what it is. Light on imports: tool processes load this and nothing
else of the bus. See docs/tools.md.
"""

from __future__ import annotations

import json
import mimetypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from msgspec import Struct, field

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__hobus_tool__"
"""Where the decorator leaves its word on the function."""
ANSWERS = "HOBUS_TOOL_ANSWERS"
"""Names, in a test's tool processes, the file of what its cassette has of calls: they bring that, and are not made."""
IMPORTING: list[Path] = []
"""Files of tools that this process imports right now: each process of a tool does what stands at their top."""


class ToolFault(Exception):
    """Say in one sentence, which the model is shown, why a tool could not do what it was asked."""


class Invocation(Struct, frozen=True):
    """What a tool may know of the call that it answers: a parameter annotated with this class is given it."""

    idempotency_key: str
    """The same for every try of one call, and of no other: to be passed on to whatever is changed."""
    session_id: str
    agent_id: str


_BEGINNINGS = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def find_image_type(data: bytes) -> str:
    """Return the media type by which every model that sees takes this image; empty: none does, or it is no image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), "")


class File:
    """A file that a tool returns: `File("report.pdf")`, or `File(data=…, name="report.pdf")`.

    The model is told its name, type and size; the record keeps its bytes. Raises OSError.
    """

    kind = "file"

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, data: bytes = b"", media_type: str = "", name: str = ""
    ) -> None:
        self.data = data if path is None else Path(path).read_bytes()
        name = name or ("" if path is None else Path(path).name)
        guessed = media_type or find_image_type(self.data) or mimetypes.guess_type(name)[0]
        self.media_type = guessed or "application/octet-stream"
        self.name = name or f"{self.kind}{mimetypes.guess_extension(self.media_type) or ''}"


class Image(File):
    """An image that a tool returns, which a model that sees is shown: PNG, JPEG, GIF or WebP."""

    kind = "image"


FileBytes = tuple[str, str, bytes]
"""Name, media type, bytes of a file that a call brought."""


class ToolResult(Struct):
    """What a call brought. `code` is empty, or one of a failed order: tool_failed, unknown_outcome and others."""

    ok: bool
    code: str
    text: str
    truncated: bool = False
    traceback: str = ""  # of what the tool raised and did not mean to
    printed: str = ""  # to its standard output and error
    files: list[FileBytes] = field(default_factory=list[FileBytes])  # told in the text
    held_by: str = ""  # the process that may hold state for the next call; "": none does


class Declared(Struct, frozen=True):
    """What the decorator was told."""

    idempotent: bool
    writes: bool
    timeout_s: float | None


def call_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return what a call is found by in the file that `ANSWERS` names."""
    return f"{tool} {json.dumps(arguments, sort_keys=True)}"


def parse_entry_point(entry: str) -> tuple[str, str]:
    """Return name and target of one of `tools.entry_points`."""
    name, _, target = entry.partition("=")
    return name.strip(), target.strip()


@overload
def tool(function: F) -> F: ...


@overload
def tool(*, idempotent: bool = ..., writes: bool = ..., timeout: float | None = ...) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, *, idempotent: bool = False, writes: bool = True, timeout: float | None = None
) -> F | Callable[[F], F]:
    """Make a function a tool: `@tool` with the careful defaults, or `@tool(idempotent=True, writes=False)`.

    `idempotent`: running it twice is as good as once, so that a call is made again after a crash. `writes`: it changes
    something, so that an agent needs its exact name among its permissions. `timeout`: seconds that one call may take,
    in place of `tools.timeout_ms`. The docstring is its description, the annotations are the schema of its arguments.
    """

    def mark(function: F) -> F:
        setattr(function, MARK, Declared(idempotent, writes, timeout))
        return function

    return mark if function is None else mark(function)
