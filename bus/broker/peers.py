"""A connected peer, a service, a pending request: what the broker keeps in memory. Nothing of it survives a restart.

They stand in one file because each knows the others; what only holds them (rooms, keys, times) knows none of them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from hobus.bus import limits
from hobus.bus.broker.admission import Announced, Announcement
from hobus.bus.broker.sticky import StickyTable
from hobus.bus.broker.transitions import REQUEST_TRANSITIONS, IllegalMove, RequestEvent, RequestState
from hobus.bus.broker.waiting import Place, WaitingRoom
from hobus.bus.catalog import CLIENT_ROLES, Row
from hobus.bus.envelope import Header, Kind
from hobus.bus.fair import get_principal, name_key_principal
from hobus.bus.lanes import BESIDE_BROKER
from hobus.bus.limits import AT_WORK, LAG, LAGGING_MS
from hobus.bus.messages.control import HELD_FOR, SEPARATOR, Beat, Leases

_POST = int(Kind.POST)
_BELIEVED, _ABOUT = ("ho2", "http"), ":about"


class Late(NamedTuple):
    """A request that ended while its worker still worked on it: an answer may come, and is nobody's."""

    holds_slot: bool
    attempt: int  # under which the worker has it; 0: it said so itself, in a hello


class BoundPeer:
    """One bound connection. `instance` is its principal; `connection` changes when the peer reconnects."""

    def __init__(self, connection: bytes, instance: str, role: str, now: float) -> None:
        self.connection = connection
        self.instance = instance
        self.name = instance.partition("@")[0]
        self.role = role
        self.principal = get_principal(instance)  # of what it asks for itself
        self.service: Service | None = None  # the one it answers for
        self.slots = 0
        self.used = 0  # slots taken, also by requests that expired but whose worker has not said so
        self.leased = 0  # slots that supervisors have leases of
        self.takes_leases = False  # or has a lane that they are of
        self.told_leases: Leases | None = None  # the last word on its own
        self.immediate = 0  # requests in flight that take no slot
        self.ready_state = "starting"
        self.reason = ""
        self.is_drained = False  # by an operator
        self.is_lost = False
        self.takes_work = False
        self.is_leaving = False
        self.connected_at = now
        self.last_seen = now
        self.in_flight: dict[str, OpenRequest] = {}  # request id -> what it works on
        self.late: OrderedDict[str, Late] = OrderedDict()
        self.keys: dict[str, None] = {}  # sticky keys, in order
        self.announced: dict[str, bool] = {}  # request ids it re-announced -> already answered
        self.tools: list[str] = []
        self.tool_queues: tuple[str, ...] = ()  # where requests wait that need one of these
        self.announced_tools: Announced | None = None  # what it said of them since its hello
        self.harmless_tools: list[str] = []  # of those, which may run twice and change nothing
        self.announcement = Announcement()  # what it is saying
        self.config_digest = ""
        self.version = ""
        self.host = ""  # its machine's name, as it says
        self.address = ""  # where it connects from; "" on a local socket
        self.key = ""  # its own, by which it has proved who it is; "" on a local socket
        self.beat = Beat()  # its last one
        self.beaten: bytes | None = None  # the bytes that it came as

    def can_run(self, tools: Iterable[str]) -> None:
        """Replace the tools that this peer has."""
        self.tools = list(tools)
        self.tool_queues = tuple(name_tool_queue(tool) for tool in self.tools)

    def judge(self) -> None:
        """Update `takes_work` and `is_leaving` after a change of state."""
        self.is_leaving = self.is_lost or self.is_drained or self.ready_state == "draining"
        self.takes_work = not self.is_leaving and self.ready_state != "starting"

    @property
    def has_slot(self) -> bool:
        """Return whether the peer may get a request that takes a slot: one is free, and its loop is not far behind."""
        return self.used + self.leased < self.slots and not (self.used and self.lags)

    @property
    def lags(self) -> bool:
        return self.beat.counters.get(LAG, 0) >= LAGGING_MS

    @property
    def counters(self) -> dict[str, int]:
        return self.beat.counters

    @property
    def at_work(self) -> int:
        """Requests that it has; by a lane beside the broker as many as it last said."""
        said = self.beat.counters.get(AT_WORK, 0) if self.role in BESIDE_BROKER else 0
        return max(len(self.in_flight), said)

    @property
    def shown_state(self) -> str:
        if self.is_lost:
            return "lost"
        return "draining" if self.is_drained else self.ready_state


def name_tool_queue(tool: str) -> str:
    """Return the name of the queue for whoever has this tool; no instance has such a name."""
    return f"tool:{tool}"


def find_principal(peer: BoundPeer, frame: Header) -> str:
    """Return the principal on whose behalf a request is made; nobody can ask in another's name.

    A client asks for itself; whoever works on a request asks for that request's principal. Two roles of this machine
    may state it: a supervisor, whose runs outlive the requests that began them, and the HTTP door, for its keys.
    """
    if frame.principal and not peer.address and peer.role in _BELIEVED:
        return frame.principal if peer.role != "http" else name_key_principal(frame.principal)
    if peer.role in CLIENT_ROLES:
        return peer.principal
    cause = peer.in_flight.get(frame.causation_id)
    return peer.principal if cause is None else cause.principal


def name_share(peer: BoundPeer, row: Row, principal: str) -> str:
    """Return whose share a request for `principal` counts in; "" for the cluster's own, caused by others.

    A command about what its sender has open has a share apart, so that the sender's own load does not keep it out.
    """
    if peer.role not in CLIENT_ROLES:
        return peer.principal if peer.address else ""
    return principal + _ABOUT if row.about else principal


class Service:
    """One addressable service: who offers it and what waits for it."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.offering: OrderedDict[BoundPeer, None] = (
            OrderedDict()
        )  # every bound peer that offers it, the one idle longest first
        self.announcing: dict[BoundPeer, None] = {}  # those of them that re-announced request ids
        self.waiting: WaitingRoom[OpenRequest] = WaitingRoom()
        self.sticky: StickyTable[BoundPeer] = StickyTable(limits.STICKY_IDLE_S, limits.STICKY_KEYS_MAX)
        self.absent_since: float | None = now  # nobody has offered it since; None while somebody does
        self.is_given_up = False
        self.is_flushed = False  # what waited for it was failed when the grace was over
        self.in_flight = 0
        self.delivered = 0
        self.failed: Counter[str] = Counter()
        self.early_cancels: OrderedDict[str, tuple[Header, str, bytes]] = OrderedDict()
        """Request id -> a cancel that came, after a restart, before the worker that may have the request."""

    def note_work(self, peer: BoundPeer) -> None:
        """Note that the peer has just got or answered a request: all others have been idle longer."""
        if peer in self.offering:
            self.offering.move_to_end(peer)

    def note_presence(self, now: float) -> None:
        """Update `absent_since`; one that finishes its work counts until it is gone, as its successor may come."""
        if self.offering:
            self.absent_since = None
        elif self.absent_since is None:
            self.absent_since = now
            self.is_flushed = False


@dataclass(slots=True, eq=False)
class OpenRequest:
    """One request without an answer, or one post without a taker."""

    header: Header
    body: bytes
    row: Row
    _: KW_ONLY
    service: Service
    requester: BoundPeer  # the newest one
    principal: str  # on whose behalf it is asked: it waits, and is counted, as that one's
    deadline: float
    came_at: float
    state: RequestState = "placing"
    waits_since: float = field(init=False)  # for a worker
    also: tuple[BoundPeer, ...] = ()
    """Earlier requesters that still live: whoever asks gets the answer."""
    direct: str = field(init=False)  # the one instance that it is for; "": any
    tool: str = field(init=False)  # the one that its worker must have announced; "": none
    sticky: str = field(init=False)  # goes to whoever owns this; "": to anybody
    is_post: bool = field(init=False)
    slotted: bool = field(init=False)
    unable_since: float | None = None  # nobody that has the tool is there since
    answers_from: int = 0  # a failure of an earlier attempt is that of a run that was stopped, or expired
    worker: BoundPeer | None = None  # while in flight or stopping
    place: Place | None = None  # while waiting
    share: str = ""  # of whose share it is while it is open; "": of none

    def __post_init__(self) -> None:
        header = self.header
        self.waits_since = self.came_at
        self.direct = header.destination if "/" in header.destination else ""
        key = "" if self.direct else header.key
        self.tool, _, holder = key.partition(HELD_FOR) if self.row.by_tool else ("", "", "")
        # Calls of one holder at one server go to one worker, whatever tool of it they need.
        held = f"{self.tool.partition(SEPARATOR)[0]}{HELD_FOR}{holder}" if holder else ""
        self.sticky = held if self.row.by_tool else key
        self.is_post = header.kind == _POST
        self.slotted = self.row.mode != "immediate" and not self.is_post

    def after(self, event: RequestEvent) -> RequestState:
        """Return the state that `event` leads to. Raises IllegalMove."""
        try:
            return REQUEST_TRANSITIONS[self.state][event]
        except KeyError:
            raise IllegalMove(f"{event} while {self.state}: {self.header.message_id}") from None

    def move(self, event: RequestEvent) -> None:
        """Move to the state that `event` leads to. Raises IllegalMove and changes nothing where there is none."""
        self.state = REQUEST_TRANSITIONS[self.state].get(event) or self.after(event)  # one look, at every step

    @property
    def shared_queue(self) -> str:
        """Return the queue of a request that no one instance is meant for: anybody's, or that of its tool."""
        return name_tool_queue(self.tool) if self.tool else ""

    def join(self, peer: BoundPeer) -> None:
        """Add a requester, or make a known one the newest; none loses its answer."""
        if peer is self.requester:
            return
        self.also = self._list_others(peer)
        self.requester = peer

    def leave(self, peer: BoundPeer) -> bool:
        """Remove a requester; return whether nobody wants the answer any more."""
        left = self._list_others(peer)
        if left:
            self.also, self.requester = left[:-1], left[-1]
        return not left and self.requester is peer

    def _list_others(self, peer: BoundPeer) -> tuple[BoundPeer, ...]:
        return tuple(other for other in (*self.also, self.requester) if other is not peer and not other.is_lost)

    def make_tap_header(self) -> Header:
        """Return the header marked sensitive as the catalog says, whatever the sender claims."""
        return self.header._replace(sensitive=self.row.sensitive)
