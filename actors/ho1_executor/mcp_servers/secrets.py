"""What a server needs to know and no configuration holds: references resolved in the server's own process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hobus.config.secret_refs import HIDDEN, is_secret_ref

_INHERITED = ("PATH", "HOME", "LOGNAME", "USER", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What every server gets of its process's environment, which has `launcher.environment` alone; nothing else of it."""


class NoSecret(Exception):
    """Say that a reference leads nowhere; the message names the reference, never a value."""


def resolve_references(values: Mapping[str, str], given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the values with references replaced, and the secret ones. Raises NoSecret."""
    found: dict[str, str] = {}
    secret: list[str] = []
    for name, value in values.items():
        if not is_secret_ref(value):
            found[name] = value
            continue
        found[name] = _resolve_value(name, value, given)
        secret.append(found[name])
    return found, secret


def make_environment(values: Mapping[str, str]) -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(values)


def without(text: str, secret: list[str]) -> str:
    """Return the text with every secret hidden, whatever a server made of it."""
    for value in secret:
        if value:
            text = text.replace(value, HIDDEN)
    return text


def _resolve_value(name: str, reference: str, given: Mapping[str, str]) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        value = given.get(where)
        if value is None:
            raise NoSecret(f"{name} refers to the environment variable {where}, which is not set")
        return value
    try:
        return Path(where).expanduser().read_text(encoding="utf-8").rstrip("\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise NoSecret(f"{name} refers to the file {where}: {reason}") from None
