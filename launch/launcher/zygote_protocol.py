"""What launcher and zygote say to each other over their socket pair: one message per word, descriptors beside it.

    launcher -> zygote   Fork: number, argv          + descriptors [log, reading end of the liveness pipe]
                         Fork: number, no argv       + descriptor [the heir's end of its own socket pair]
    zygote -> launcher   Forked: number, pid, error  (pid 0: the system refused, `error` says why)

How a process ended is no word: the launcher is its parent (see zygote.py) and learns it from the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

WORD_MAX_BYTES = 65_536
"""The kernel keeps a word of this size whole; argv holds a role, a name and two paths."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Make a process that runs `launch.process` with these arguments; without any, an heir of this zygote."""

    number: int
    argv: Sequence[str]

    def to_bytes(self) -> bytes:
        """One word."""
        return json.dumps({"number": self.number, "argv": list(self.argv)}).encode()


@dataclass(frozen=True, slots=True)
class Forked:
    """What became of that order."""

    number: int
    pid: int
    error: str = ""

    def to_bytes(self) -> bytes:
        """One word."""
        return json.dumps({"number": self.number, "pid": self.pid, "error": self.error}).encode()


def read_fork(word: bytes) -> Fork:
    """The order; raises ValueError for anything else."""
    fields = _fields(word, {"number": int, "argv": list})
    argv = cast("list[Any]", fields["argv"])
    if not all(isinstance(item, str) for item in argv):
        raise ValueError("argv holds something that is no text")
    return Fork(fields["number"], argv)


def read_forked(word: bytes) -> Forked:
    """The answer; raises ValueError for anything else."""
    fields = _fields(word, {"number": int, "pid": int, "error": str})
    return Forked(fields["number"], fields["pid"], fields["error"])


def _fields(word: bytes, expected: dict[str, type]) -> dict[str, Any]:
    read: Any = json.loads(word)
    if not isinstance(read, dict):
        raise ValueError("not an object")  # noqa: TRY004 - a bad word, whatever is wrong with it
    fields = cast("dict[str, Any]", read)
    if {name: type(value) for name, value in fields.items()} != expected:
        raise ValueError(f"fields {sorted(fields)}")
    return fields
