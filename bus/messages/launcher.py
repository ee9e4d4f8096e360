"""Commands to the launcher of a running cluster: how many processes, which one anew, which one to rest.

Answered as soon as they are accepted; what follows is seen in the run file and with `hobus ps`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from hobus.bus.messages.base import Message, Record


class MemberRow(Record):
    """One supervised place after the command was accepted."""

    actor: str = Field(description="its place, e.g. `ho1/2`")
    state: Literal["starting", "ready", "degraded", "draining", "backoff", "failed", "stopped"] = Field(
        description="see `hobus ps`"
    )
    instance: str = Field(description="`<actor>@<epoch>` of the present incarnation, '' before the first")


class Members(Message):
    """The places that the command concerns, as they are now."""

    TYPE: ClassVar[str] = "launcher.members"

    members: list[MemberRow] = Field(description="in the order of their names")


class Scale(Message):
    """So many processes of a role: missing ones are started, the highest numbers finish their work and end."""

    TYPE: ClassVar[str] = "launcher.scale"

    role: str = Field(description="one of the roles that can have several processes", max_length=16)
    count: int = Field(description="how many there are to be", ge=1, le=1000)


class Restart(Message):
    """This process anew: it finishes its work, ends, and is started; also if it failed or was drained."""

    TYPE: ClassVar[str] = "launcher.restart"

    actor: str = Field(description="its place, e.g. `ho1/2`", max_length=80)
    kill: bool = Field(default=False, description="SIGKILL instead of letting it finish")


class DrainMember(Message):
    """This process finishes its work, ends, and stays stopped until it is restarted."""

    TYPE: ClassVar[str] = "launcher.drain"

    actor: str = Field(description="its place, e.g. `ho1/2`", max_length=80)
