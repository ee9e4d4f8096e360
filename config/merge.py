"""What a home's own `admin_config.json` says, laid over the shipped one. Pure."""

from __future__ import annotations

from typing import Any

_MARKS = ("kind", "transport")
"""Settings that say which settings stand beside them: another one there makes another object."""


def merged(shipped: Any, own: Any) -> Any:
    """`own` wherever it says something, else `shipped`: objects key by key at every depth, all else whole.

    So a file may hold only what differs, and adds a provider, a route or a server by its name. A key that nobody knows
    stays, and is refused with its path. `null` is a value: it stands for whatever was shipped there.
    """
    if not (isinstance(shipped, dict) and isinstance(own, dict)):
        return own
    if any(mark in own and mark in shipped and own[mark] != shipped[mark] for mark in _MARKS):
        return own
    return shipped | {key: merged(shipped.get(key), value) for key, value in own.items()}
