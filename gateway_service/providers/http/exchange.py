"""One request to a provider as its transport sees it: was any of it sent, and what came back."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_SENDING = ".send_request_headers.started"


class AnswerRefused(Exception):
    """More came, or in another form, than anybody reads; the message names the limit and its setting."""


@dataclass
class Exchange:
    """What is known of it."""

    is_sent: bool = False
    """Whether a byte of it may have left: from then on nobody can say that the provider did not work on it."""

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:  # noqa: ARG002 - the shape of the HTTP library's hook
        """Told by the HTTP library what it is about to do."""
        if event.endswith(_SENDING):
            self.is_sent = True


current: ContextVar[Exchange | None] = ContextVar("the exchange of this task", default=None)
