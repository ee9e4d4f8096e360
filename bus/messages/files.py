"""What is asked of files on the cluster's own machine: text, below the roots that an agent's permissions name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hobus.bus.messages.base import Count, Message

AT_HOME = "verify_ledger"
"""The routing key of ReadFile: a tool that only workers beside the record announce, so that no other machine's file is
ever taken for one of this machine."""

Refused = Literal["", "not_permitted", "outside", "not_found", "not_a_path", "not_a_file", "unreadable", "not_text"]


class ReadFile(Message, wire="file.read"):
    """HO2 -> an executor on the cluster's own machine: one file's text, for a context."""

    agent_id: str = Field(description="whose permissions.paths count")
    config_digest: str = Field(description="`sha256:<64 hex>` of the configuration that has the agent")
    path: str = Field(description="absolute, or below the first root that has it")
    max_bytes: Annotated[int, Field(ge=1)] = Field(description="at most ho1.file_max_bytes")


class FileText(Message, wire="file.text"):
    """The file, or why it is not read."""

    refused: Refused = Field(default="", description="empty: it was read; outside: below no root")
    warning: str = Field(default="", description="why refused, cut or maybe torn, for people")
    path: str = Field(default="", description="the file itself, links followed; empty: refused")
    text: str = Field(default="", description="its beginning, whole characters")
    digest: str = Field(default="", description="`sha256:<64 hex>` of the bytes of `text`; empty: refused")
    size_bytes: Count = Field(default=0, description="of the whole file")
    is_cut: bool = Field(default=False, description="not all of it")
