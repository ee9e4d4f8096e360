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
    """HO2 -> an executor on the cluster's own machine: the text of one file, for the context of a turn."""

    agent_id: str = Field(description="whose permissions.paths count")
    config_digest: str = Field(description="`sha256:<64 hex>` of the configuration that has the agent")
    path: str = Field(description="absolute, or relative to a root: the first one that has it counts")
    max_bytes: Annotated[int, Field(ge=1)] = Field(description="at most so much of it, and ho1.file_max_bytes")


class FileText(Message, wire="file.text"):
    """The file, or why it is not read: a fact for the context, and no fault of the request."""

    refused: Refused = Field(
        default="", description="empty: it was read; outside: it is not below a root, links followed"
    )
    warning: str = Field(default="", description="why it was refused, cut or may be torn, for people; empty: nothing")
    path: str = Field(default="", description="the file itself, links followed; empty: refused")
    text: str = Field(default="", description="its beginning up to the bound, whole characters only")
    digest: str = Field(default="", description="`sha256:<64 hex>` of the bytes of `text`; empty: refused")
    size_bytes: Count = Field(default=0, description="of the whole file")
    is_cut: bool = Field(default=False, description="true: `text` is not all of it")
