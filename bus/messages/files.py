"""What is asked of files on the cluster's own machine: text, below the roots that an agent's permissions name."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from hobus.bus.messages.base import Count, Message

AT_HOME = "verify_ledger"
"""The routing key of ReadFile: a tool that only workers beside the record announce, so that no other machine's file is
ever taken for one of this machine."""

Refused = Literal["", "not_permitted", "outside", "not_found", "not_a_path", "not_a_file", "unreadable", "not_text"]


class ReadFile(Message, wire="file.read"):
    """HO2 -> an executor on the cluster's own machine: one file's text, for a context."""

    agent_id: Annotated[str, Meta(description="its permissions.paths apply")]
    config_digest: Annotated[str, Meta(description="`sha256:<64 hex>` of the configuration that has the agent")]
    path: Annotated[str, Meta(description="absolute, or below the first root that has it")]
    max_bytes: Annotated[int, Meta(ge=1, description="at most 256 KiB")]


class FileText(Message, wire="file.text"):
    """The file, or why it was not read."""

    refused: Annotated[Refused, Meta(description="empty: it was read; outside: below no root")] = ""
    warning: Annotated[str, Meta(description="why refused, cut or inconsistent, for people")] = ""
    path: Annotated[str, Meta(description="the file itself, links followed; empty: refused")] = ""
    text: Annotated[str, Meta(description="its beginning, whole characters")] = ""
    digest: Annotated[str, Meta(description="`sha256:<64 hex>` of the bytes of `text`; empty: refused")] = ""
    size_bytes: Annotated[Count, Meta(description="of the whole file")] = 0
    is_cut: Annotated[bool, Meta(description="not all of it")] = False
