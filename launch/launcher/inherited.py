"""What a process gets of the environment that a user's shell has: an allow-list, and secrets only to who needs them.

Theory of operation. A process shows the environment that it was executed with in `/proc/PID/environ` for its whole
life, and its copies (forks) inherit its memory. So the first process of a cluster, or of a worker, is executed anew
with the names in `launcher.environment` alone; all that the shell had besides reaches it through a descriptor, which it
reads when everything that must not know it is forked. What the configuration names goes on from there through pipes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn, cast

from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT, read_plain_file
from hobus.config.secret_refs import list_referred, select_allowed
from hobus.launch.cluster.kernel import keep_memory_private
from hobus.launch.console.errors import UsageFault
from hobus.launch.launcher import children

if TYPE_CHECKING:
    from pydantic import BaseModel

    from hobus.config.schema import AdminConfig

VARIABLE = "HOBUS_GIVEN"
"""Names the descriptor; never handed on."""

_NEEDED_BY: Mapping[str, str] = {"gateway": "gateway", "ho1": "tools"}
"""Role -> the section of the configuration whose references it resolves; no other role is given anything."""

_MAX_BYTES = 60_000
"""A pipe takes as much at once (64 KiB), so that the launcher never waits for a process that does not read."""


def is_handed_over() -> bool:
    """Return whether this process was executed by `hand_over` or `execute`, and has not taken what it was given."""
    return VARIABLE in os.environ


def names_of(config_file: Path) -> list[str]:
    """Return `launcher.environment` in this file, else as shipped.

    What is wrong with the file is told by who checks it.

    It is read as far as a governed file may be (`ledger.bodies_max_bytes`, as shipped), and only if it is one.
    """
    found: list[str] = []
    max_bytes: int | None = None
    for path in (SHIPPED_ROOT / ADMIN_CONFIG, config_file):
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            value = json.loads(read_plain_file(path, max_bytes))
            if max_bytes is None:
                max_bytes = int(value["ledger"]["bodies_max_bytes"])
            names = value["launcher"]["environment"]
            if all(isinstance(name, str) for name in names):
                found = list(names)
    return found


def hand_over(names: Sequence[str], given: Mapping[str, str] | None = None) -> tuple[dict[str, str], IO[bytes]]:
    """Return the environment of a process that is to be executed, and the file whose descriptor it must inherit.

    `given`: what this process was given itself. Raises OSError.
    """
    everything = children.make_environment() | dict(given or {})
    everything.pop(VARIABLE, None)
    kept = select_allowed(names, everything)
    file = _open_unnamed()
    file.write(json.dumps({name: value for name, value in everything.items() if name not in kept}).encode())
    file.seek(0)
    return kept | {VARIABLE: str(file.fileno())}, file


def execute(words: Sequence[str], names: Sequence[str], given: Mapping[str, str] | None = None) -> NoReturn:
    """Run `hobus WORDS` in place of this process, with these names in its environment alone. Raises OSError."""
    environ, file = hand_over(names, given)
    os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - positional only
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    argv = children.make_python_command("hobus", *words)
    os.execve(argv[0], argv, environ)  # noqa: S606 - this interpreter, this project's own command


def find_descriptor() -> int | None:
    """Return where this process may read what it was given, if anything; asked once, before a fork."""
    said = os.environ.pop(VARIABLE, "")
    if not said.isdigit():
        return None
    number = int(said)
    try:
        os.set_inheritable(number, False)  # noqa: FBT003 - positional only
    except OSError:
        return None
    return number


def take(number: int | None) -> dict[str, str]:
    """Read all of it; this process cannot read it a second time, one that it was forked from can."""
    if number is None:
        return {}
    try:
        return cast("dict[str, str]", json.loads(os.pread(number, os.fstat(number).st_size, 0)))
    finally:
        os.close(number)


def select_by_role(config: AdminConfig, given: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Map role to the variables that its processes are given; a role that needs none is not there.

    This process holds them, and its memory is nobody else's from now on. Raises CommandError.
    """
    found: dict[str, dict[str, str]] = {}
    for role in _NEEDED_BY:
        variables = select_for_role(role, config, given)
        if len(json.dumps(variables)) > _MAX_BYTES:
            raise UsageFault(
                f"the variables that {_NEEDED_BY[role]} names for {role} have more than {_MAX_BYTES} bytes together",
                hint="give large values as file:PATH",
            )
        if variables:
            found[role] = variables
    if found:
        keep_memory_private()
    return found


def select_for_role(role: str, config: AdminConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return what a process of this role is given: what its section refers to, and names for tools."""
    section: BaseModel = getattr(config, _NEEDED_BY[role])
    own = config.tools.environment if role == "ho1" else []
    return select_allowed(
        [*list_referred(section.model_dump(mode="json")), *own], children.make_environment() | dict(given)
    )


def select_for_tools(config: AdminConfig, given: Mapping[str, str]) -> dict[str, str]:
    return select_allowed(
        [*config.launcher.environment, *config.tools.environment], children.make_environment() | dict(given)
    )


def _open_unnamed() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("given"), "w+b")
    return cast("IO[bytes]", tempfile.TemporaryFile())
