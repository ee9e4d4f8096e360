"""Who says something: its principal, and the door that it came in by. Both rest on what the broker stamped."""

from __future__ import annotations

from typing import NamedTuple

from hobus.bus.dispatch import Call
from hobus.bus.errors import BusError
from hobus.bus.messages.ids import KEY_PREFIX, LOCAL

_HTTP = "http"


class SaidBy(NamedTuple):
    """Who said it: `local` or `key/<name>`; and the instance that it came from."""

    principal: str
    door: str

    def __str__(self) -> str:
        name = self.door.partition("@")[0]
        return f"{self.principal} ({name})" if name else self.principal


def said_by(call: Call, key: str | None) -> SaidBy:
    """Return who said a message, for the record.

    `key`: as the message names it. The HTTP door alone is believed, which has seen the key; whoever else reaches this
    bus is the operating system user of its home. Raises BusError(denied) for an HTTP door that names none.
    """
    if call.role != _HTTP:
        return SaidBy(LOCAL, call.sender)
    if not (key or "").startswith(KEY_PREFIX):
        raise BusError("denied", "an HTTP door speaks for a key alone, and has to name it")
    return SaidBy(key or "", call.sender)
