"""What peers and the broker (or a lane's server) say about the connection itself, and what the broker answers.

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
    role: str = Field(description="text of the instance before its first `/`")
    offers: list[str] = Field(default_factory=list[str], description="services it answers for")
    slots: Count = Field(description="how many credit-bound requests it takes at once")
    version: str = Field(description="of the software")
    protocol: int = Field(description="version of bus/PROTOCOL.md that the peer speaks")
    config_digest: str = Field(default="", description="snapshot that it runs under; empty: none yet")
    tools: list[str] = Field(default_factory=list[str], description="tools a ho1 worker can run")
    keys: list[str] = Field(default_factory=list[str], description="sticky routing keys it holds (re-announced)")
    in_progress: list[str] = Field(default_factory=list[str], description="request ids it works on (re-announced)")
    answered: list[str] = Field(default_factory=list[str], description="recently answered request ids")


class Welcome(Message):
    """The connection is bound to its principal."""

    TYPE: ClassVar[str] = "bus.welcome"

    epoch: str = Field(description="of the broker or lane server; a new one means it restarted")
    beat_interval_ms: Count = Field(description="how often the peer beats")
    peer_timeout_ms: Count = Field(description="silence after which the peer is lost")


class Refused(Message):
    """Hello was refused; the connection stays unbound."""

    TYPE: ClassVar[str] = "bus.refused"

    code: Literal["bad_token", "name_taken", "bad_protocol", "role_mismatch", "malformed"] = Field(description="why")
    detail: str = Field(description="what was refused, in words")


class Rehello(Message):
    """The server does not know this connection: say hello again."""

    TYPE: ClassVar[str] = "bus.rehello"


class Ready(Message):
    """The peer's own view of its readiness; re-sent on every change."""

    TYPE: ClassVar[str] = "bus.ready"

    state: Literal["starting", "ready", "degraded", "draining"] = Field(description="the peer's own view")
    reason: str = Field(default="", description="why it is not ready; empty when it is")


class Beat(Message):
    """From the actor's loop: it is not stuck. Carries its counters."""

    TYPE: ClassVar[str] = "bus.beat"

    counters: dict[str, int] = Field(default_factory=dict, description="small integers of this incarnation, by name")


class Credit(Message):
    """The peer's number of slots changed (0 while it drains)."""

    TYPE: ClassVar[str] = "bus.credit"

    slots: Count = Field(description="credit-bound requests at once")


class Bye(Message):
    """The peer leaves; what it holds is redelivered or failed at once."""

    TYPE: ClassVar[str] = "bus.bye"


class Cancelled(Message):
    """Body of a cancel frame; its correlation id names the request."""

    TYPE: ClassVar[str] = "bus.cancel"

    reason: Literal["requester", "deadline"] = Field(
        default="requester", description="a short reason code or words; empty: none"
    )


class InstanceLost(Message):
    """Launcher -> broker, post: this child is dead (its exit was seen)."""

    TYPE: ClassVar[str] = "broker.instance_lost"

    instance: str = Field(description="`<role>/<n>@<epoch>`")
    exit: str = Field(description="e.g. `signal 9`, `exit 1`")


class ServiceGivenUp(Message):
    """Launcher -> broker, post: nobody will offer this service (given_up) or somebody may again."""

    TYPE: ClassVar[str] = "broker.service_given_up"

    service: str = Field(description="name of a service")
    given_up: bool = Field(description="false: somebody may offer it again")


class ReadPeers(Message):
    """Ask who is connected."""

    TYPE: ClassVar[str] = "broker.read_peers"


class ReadPeer(Message):
    """Ask about one peer."""

    TYPE: ClassVar[str] = "broker.read_peer"

    instance: str = Field(description="`<role>/<n>@<epoch>`")


class PeerRow(Message):
    """One peer as the broker knows it."""

    TYPE: ClassVar[str] = "broker.peer"

    instance: str = Field(description="`<role>/<n>@<epoch>`")
    role: str = Field(description="text of the instance before its first `/`")
    offers: list[str] = Field(description="services it answers for")
    state: Literal["starting", "ready", "degraded", "draining", "lost"] = Field(description="its own view, or lost")
    reason: str = Field(default="", description="why it is not ready; empty when it is")
    slots: Count = Field(description="credit-bound requests at once")
    in_flight: Count = Field(description="requests delivered and not answered")
    keys: Count = Field(description="sticky routing keys it holds")
    last_beat_ms: Count = Field(description="since the last frame of this peer")
    connected_ms: Count = Field(description="since its hello")
    tools: list[str] = Field(default_factory=list[str], description="tools it can run")
    config_digest: str = Field(
        default="", description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet"
    )
    version: str = Field(default="", description="of the software")
    counters: dict[str, int] = Field(default_factory=dict, description="small integers of this incarnation, by name")


class Peers(Message):
    """Answer to ReadPeers, sorted by instance."""

    TYPE: ClassVar[str] = "broker.peers"

    epoch: str = Field(description="of the broker; a new one means it restarted")
    peers: list[PeerRow]


class ReadQueues(Message):
    """Ask how many requests wait and run."""

    TYPE: ClassVar[str] = "broker.read_queues"


class QueueRow(Record):
    """One service."""

    service: str = Field(description="name of a service")
    queued: Count = Field(description="requests that wait for a worker")
    in_flight: Count = Field(description="requests delivered and not answered")
    delivered: Count = Field(description="requests delivered since start")
    failed: dict[str, int] = Field(default_factory=dict, description="failures by code since start")


class Queues(Message):
    """Answer to ReadQueues."""

    TYPE: ClassVar[str] = "broker.queues"

    queues: list[QueueRow]


class Drain(Message):
    """Operator, launcher -> broker: give this instance no new work."""

    TYPE: ClassVar[str] = "broker.drain"

    instance: str = Field(description="`<role>/<n>@<epoch>`")


class Done(Message):
    """Plain acknowledgement."""

    TYPE: ClassVar[str] = "bus.done"


class Probe(Message):
    """Anyone -> any actor: answered by the shell itself with its readiness."""

    TYPE: ClassVar[str] = "bus.probe"


class Probed(Message):
    """Answer to Probe."""

    TYPE: ClassVar[str] = "bus.probed"

    instance: str = Field(description="`<role>/<n>@<epoch>`")
    state: Literal["starting", "ready", "degraded", "draining"] = Field(description="the peer's own view")
    reason: str = Field(default="", description="why it is not ready; empty when it is")
