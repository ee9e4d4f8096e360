"""What a tool's question to a service becomes: one typed message of the executor, if it is on the list.

The list holds reads alone, so that no tool can write, prompt or drain through its worker's identity; the broker's
policy applies on top.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hobus.actors.ho1_executor.tools.definition import Request, ToolFault
from hobus.bus.catalog import find_row
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import name_fields
from hobus.bus.messages.files import FileText, ReadFile
from hobus.bus.port import Bus

READS = frozenset(
    {
        ("gateway", "gateway.read_budget"),
        ("gateway", "gateway.read_breakers"),
        ("broker", "broker.read_peers"),
        ("broker", "broker.read_peer"),
        ("ledger", "ledger.query"),
        ("ledger", "ledger.read_stats"),
        ("ledger", "ledger.search"),
    }
)
ABOUT = {"ledger.search": ("session_id",), "file.read": ("agent_id", "config_digest")}
"""Type -> fields that are the call's own, whatever the tool says: it searches its session, and reads as its agent."""

ReadText = Callable[[ReadFile], Awaitable[FileText]]
"""A file of this machine, as far as its agent may read it."""


def make_request_way(bus: Bus, *, timeout_s: float, about: Mapping[str, str], read_file: ReadText | None) -> Request:
    """Return the one way from a tool to a service; each request is bounded by `timeout_s`.

    `about`: fields of the call; `read_file`: None at a worker that is elsewhere.
    """

    async def request(service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        row = find_row(service, type_name)
        is_file = type_name == ReadFile.TYPE and read_file is not None
        if row is None or row.reply is None or not (is_file or (service, type_name) in READS):
            raise ToolFault(f"a tool may not send {type_name[:64]} to {service[:64]}")
        try:
            message = row.cls.model_validate({**body, **{name: about[name] for name in ABOUT.get(type_name, ())}})
        except ValueError:
            raise ToolFault(f"not a {type_name}") from None
        try:
            if isinstance(message, ReadFile) and read_file is not None:  # of this machine: nobody else is asked
                return name_fields(await read_file(message))
            reply = await bus.request(service, message, expect=row.reply, timeout_s=timeout_s)
        except RuntimeFault as fault:
            raise ToolFault(f"the {service} did not answer: {fault.code}") from None
        document: dict[str, Any] = name_fields(reply)
        return document

    return request
