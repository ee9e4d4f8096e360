"""What peers and the broker (or a lane's server) say to each other about the connection itself, and what the broker answers.

Control frames are the only bodies that a broker decodes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from bus.messages.base import Count, Message, Record


class Hello(Message):
    """First frame of a connection; nothing else is accepted before its Welcome."""

    TYPE: ClassVar[str] = "bus.hello"

    instance: str = Field(description="`<role>/<n>@<epoch>`; bound to the token")
    token: str = Field(description="secret made for this incarnation; empty where CURVE identifies the peer")
    role: str
    offers: list[str] = Field(default_factory=list[str], description="services it answers for")
    slots: Count = Field(description="how many credit-bound requests it takes at once")
    version: str = Field(description="of the software")
    protocol: int
    config_digest: str = ""
    tools: list[str] = Field(default_factory=list[str], description="tools a ho1 worker can run")
    keys: list[str] = Field(default_factory=list[str], description="sticky routing keys it holds (re-announced)")
    in_progress: list[str] = Field(default_factory=list[str], description="request ids it works on (re-announced)")
    answered: list[str] = Field(default_factory=list[str], description="recently answered request ids")


class Welcome(Message):
    """The connection is bound to its principal."""

    TYPE: ClassVar[str] = "bus.welcome"

    epoch: str = Field(description="of the broker or lane server; a new one means it restarted")
    beat_interval_ms: Count
    peer_timeout_ms: Count


class Refused(Message):
    """Hello was refused; the connection stays unbound."""

    TYPE: ClassVar[str] = "bus.refused"

    code: Literal["bad_token", "name_taken", "bad_protocol", "role_mismatch", "malformed"]
    detail: str


class Rehello(Message):
    """The server does not know this connection: say hello again."""

    TYPE: ClassVar[str] = "bus.rehello"


class Ready(Message):
    """The peer's own view of its readiness; re-sent on every change."""

    TYPE: ClassVar[str] = "bus.ready"

    state: Literal["starting", "ready", "degraded", "draining"]
    reason: str = ""


class Beat(Message):
    """From the actor's loop: it is not stuck. Carries its counters."""

    TYPE: ClassVar[str] = "bus.beat"

    counters: dict[str, int] = Field(default_factory=dict)


class Credit(Message):
    """The peer's number of slots changed (0 while it drains)."""

    TYPE: ClassVar[str] = "bus.credit"

    slots: Count


class Bye(Message):
    """The peer leaves; what it holds is redelivered or failed at once."""

    TYPE: ClassVar[str] = "bus.bye"


class Cancelled(Message):
    """Body of a cancel frame; its correlation id names the request."""

    TYPE: ClassVar[str] = "bus.cancel"

    reason: Literal["requester", "deadline"] = "requester"


class InstanceLost(Message):
    """Launcher -> broker, post: this child is dead (its exit was seen)."""

    TYPE: ClassVar[str] = "broker.instance_lost"

    instance: str
    exit: str = Field(description="e.g. `signal 9`, `exit 1`")


class ServiceGivenUp(Message):
    """Launcher -> broker, post: nobody will offer this service (given_up) or somebody may again."""

    TYPE: ClassVar[str] = "broker.service_given_up"

    service: str
    given_up: bool


class ReadPeers(Message):
    TYPE: ClassVar[str] = "broker.read_peers"


class ReadPeer(Message):
    TYPE: ClassVar[str] = "broker.read_peer"

    instance: str


class PeerRow(Message):
    """One peer as the broker knows it."""

    TYPE: ClassVar[str] = "broker.peer"

    instance: str
    role: str
    offers: list[str]
    state: Literal["starting", "ready", "degraded", "draining", "lost"]
    reason: str = ""
    slots: Count
    in_flight: Count
    keys: Count
    last_beat_ms: Count = Field(description="since the last frame of this peer")
    connected_ms: Count
    tools: list[str] = Field(default_factory=list[str])
    config_digest: str = ""
    version: str = ""
    counters: dict[str, int] = Field(default_factory=dict)


class Peers(Message):
    TYPE: ClassVar[str] = "broker.peers"

    epoch: str
    peers: list[PeerRow]


class ReadQueues(Message):
    TYPE: ClassVar[str] = "broker.read_queues"


class QueueRow(Record):
    service: str
    queued: Count
    in_flight: Count
    delivered: Count
    failed: dict[str, int] = Field(default_factory=dict, description="failures by code since start")


class Queues(Message):
    TYPE: ClassVar[str] = "broker.queues"

    queues: list[QueueRow]


class Drain(Message):
    """Operator, launcher -> broker: give this instance no new work."""

    TYPE: ClassVar[str] = "broker.drain"

    instance: str


class Done(Message):
    """Plain acknowledgement."""

    TYPE: ClassVar[str] = "bus.done"


class Probe(Message):
    """Anyone -> any actor: answered by the shell itself with its readiness."""

    TYPE: ClassVar[str] = "bus.probe"


class Probed(Message):
    TYPE: ClassVar[str] = "bus.probed"

    instance: str
    state: Literal["starting", "ready", "degraded", "draining"]
    reason: str = ""
