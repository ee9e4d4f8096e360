"""A connected peer and a pending request: what the broker keeps in memory, and nothing of it survives a restart."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from bus.broker.bounds import Announced, Announcement
from bus.catalog import Row
from bus.envelope import Header
from bus.fair import principal_of

if TYPE_CHECKING:
    from bus.broker.state import Service


class Late(NamedTuple):
    """A request that ended here while its worker still worked on it: its answer is to come, and nobody's."""

    holds_slot: bool
    attempt: int  # under which the worker has it; 0: it said so itself, in a hello


class Peer:
    """One bound connection. `instance` is its principal; `connection` changes when it reconnects."""

    def __init__(self, connection: bytes, instance: str, role: str, now: float) -> None:
        self.connection = connection
        self.instance = instance
        self.name = instance.partition("@")[0]
        self.role = role
        self.principal = principal_of(instance)  # of what it asks for itself
        self.service: Service | None = None  # the one it answers for
        self.slots = 0
        self.used = 0  # slots taken, also by requests that expired but whose worker has not said so
        self.immediate = 0  # requests in flight that take no slot
        self.ready_state = "starting"
        self.reason = ""
        self.is_drained = False  # by an operator
        self.is_lost = False
        self.takes_work = False
        self.is_leaving = False
        self.connected_at = now
        self.last_seen = now
        self.idle_since = now  # of the last delivery or answer
        self.in_flight: dict[str, Pending] = {}  # request id -> what it works on
        self.late: OrderedDict[str, Late] = OrderedDict()
        self.keys: dict[str, None] = {}  # sticky keys, in order
        self.announced: dict[str, bool] = {}  # request ids it re-announced -> already answered
        self.tools: list[str] = []
        self.tool_queues: tuple[str, ...] = ()  # where requests wait that need one of these
        self.announced_tools: Announced | None = None  # what it said of them since its hello
        self.announcement = Announcement()  # what it is saying
        self.config_digest = ""
        self.version = ""
        self.host = ""  # its machine's name, as it says
        self.address = ""  # where it connects from; "" on a local socket
        self.counters: dict[str, int] = {}

    def can_run(self, tools: Iterable[str]) -> None:
        """It has these tools from now on, and no other."""
        self.tools = list(tools)
        self.tool_queues = tuple(tool_queue(tool) for tool in self.tools)

    def judge(self) -> None:
        """Keeps `takes_work` and `is_leaving` true after a change of state."""
        self.is_leaving = self.is_lost or self.is_drained or self.ready_state == "draining"
        self.takes_work = not self.is_leaving and self.ready_state != "starting"

    @property
    def shown_state(self) -> str:
        """The state that people are told."""
        if self.is_lost:
            return "lost"
        return "draining" if self.is_drained else self.ready_state


def tool_queue(tool: str) -> str:
    """The name of the queue for whoever has this tool; no instance is called so."""
    return f"tool:{tool}"


class Pending:
    """One request without an answer, or one post without a taker."""

    __slots__ = (
        "also",
        "asked_anew",
        "body",
        "came_at",
        "deadline",
        "direct",
        "header",
        "is_cancelled",
        "is_done",
        "is_post",
        "place",
        "principal",
        "requester",
        "row",
        "seen_at",
        "service",
        "share",
        "slotted",
        "tool",
        "unable_since",
        "waits_since",
        "worker",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - what a request consists of
        self,
        header: Header,
        body: bytes,
        row: Row,
        *,
        service: Service,
        direct: str,
        requester: Peer,
        principal: str,
        deadline: float,
        is_post: bool,
        now: float,
    ) -> None:
        self.came_at = now
        self.waits_since = now  # for a worker
        self.header = header
        self.body = body
        self.row = row
        self.service = service
        self.direct = direct  # the instance that it names, "" for anybody of the service
        self.requester = requester  # the newest one
        self.also: list[Peer] = []  # earlier ones that still live: whoever asks gets the answer
        self.deadline = deadline
        self.seen_at = deadline  # when the heap has it looked at; an earlier time than a deadline that was prolonged
        self.tool = header.key if row.by_tool and not direct else ""  # the one that its worker must have announced
        self.unable_since: float | None = None  # nobody that has the tool is there since
        self.slotted = row.mode != "immediate" and not is_post
        self.is_post = is_post
        self.is_cancelled = False
        self.asked_anew = False  # its worker may answer twice: for a run that was stopped or expired, and for this one
        self.is_done = False
        self.worker: Peer | None = None
        self.place: tuple[str, bool, bool] | None = None  # where it waits
        self.principal = principal  # on whose behalf it is asked: it waits, and is counted, as that one's
        self.share = ""  # of whose share it is while it is open; "": of none

    @property
    def shared_queue(self) -> str:
        """Where it waits when no one instance is meant: for anybody, or for whoever has its tool."""
        return tool_queue(self.tool) if self.tool else ""

    def join(self, peer: Peer) -> None:
        """One more requester, or a known one again; none loses its answer because another one came."""
        if peer is self.requester:
            return
        self.also = [other for other in (*self.also, self.requester) if other is not peer and not other.is_lost]
        self.requester = peer

    def leave(self, peer: Peer) -> bool:
        """This requester wants no answer any more; whether nobody else does."""
        left = [other for other in (*self.also, self.requester) if other is not peer and not other.is_lost]
        if left:
            self.requester = left.pop()
            self.also = left
        return not left and self.requester is peer

    def header_for_tap(self) -> Header:
        """The header with the catalog's word on whether its body is sensitive; the sender's counts for nothing."""
        return self.header._replace(sensitive=self.row.sensitive)
