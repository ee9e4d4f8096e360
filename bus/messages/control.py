"""What peers and the broker (or a lane's server) say about the connection itself, and what the broker answers.

Control frames are the only bodies that a broker decodes.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bus.messages.base import Count, Message, Record

Printable = Annotated[str, Field(pattern=r"^[ -~]*$")]
"""What a peer says of itself and people are shown: no control characters, so that no row of a table can be forged."""

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
"""A printable word."""


class Hello(Message):
    """First frame of a connection; nothing else is accepted before its Welcome."""

    TYPE: ClassVar[str] = "bus.hello"

    instance: Printable = Field(max_length=200, description="`<role>/<n>@<epoch>`; bound to the token")
    token: str = Field(description="secret made for this incarnation; empty where CURVE identifies the peer")
    role: str = Field(description="text of the instance before its first `/`")
    offers: list[Name] = Field(default_factory=list[Name], description="services it answers for")
    slots: Count = Field(description="how many credit-bound requests it takes at once")
    version: Printable = Field(max_length=64, description="of the software")
    protocol: int = Field(description="version of bus/PROTOCOL.md that the peer speaks")
    config_digest: str = Field(default="", description="snapshot that it runs under; empty: none yet")
    tools: list[Name] = Field(default_factory=list[Name], description="tools a ho1 worker can run")
    keys: list[str] = Field(default_factory=list[str], description="sticky routing keys it holds (re-announced)")
    in_progress: list[str] = Field(default_factory=list[str], description="request ids it works on (re-announced)")
    answered: list[str] = Field(default_factory=list[str], description="recently answered request ids")
    host: Printable = Field(
        default="", max_length=255, description="its machine's name, as it says; empty: the broker's own"
    )


class Welcome(Message):
    """The connection is bound to its principal."""

    TYPE: ClassVar[str] = "bus.welcome"

    epoch: str = Field(description="of the broker or lane server; a new one means it restarted")
    beat_interval_ms: Count = Field(description="how often the peer beats")
    peer_timeout_ms: Count = Field(description="silence after which the peer is lost")
    config_digest: str = Field(default="", description="snapshot that the broker runs under; empty at a lane")


class Join(Message):
    """First frame of a worker elsewhere, on a connection made with its token's key: enrol my own key.

    These fields never change, so that a broker of any version can name what does not fit.
    """

    TYPE: ClassVar[str] = "bus.join"

    public_key: str = Field(max_length=40, description="the worker's own CURVE key, Z85; its secret never leaves it")
    role: str = Field(max_length=16, description="what it will be; the token's word counts")
    version: Printable = Field(max_length=64, description="of the software")
    protocol: int = Field(description="version of bus/PROTOCOL.md that it speaks")
    host: Printable = Field(max_length=255, description="its machine's name, as it says")


class Joined(Message):
    """The key is enrolled, durably: connect with it from now on."""

    TYPE: ClassVar[str] = "bus.joined"

    name: str = Field(description="`<role>/<n>` of every incarnation with this key")
    config_digest: str = Field(description="snapshot that the broker runs under")


class Refused(Message):
    """Hello, or Join, was refused; the connection stays unbound."""

    TYPE: ClassVar[str] = "bus.refused"

    code: Literal[
        "bad_token", "name_taken", "bad_protocol", "role_mismatch", "malformed",
        "token_expired", "token_used", "bad_version", "other_config", "not_enrolled", "unavailable",
    ] = Field(description="why; those after `malformed` only at workers elsewhere")  # fmt: skip
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


class ToolWord(Record):
    """One tool, as the worker that can run it tells of it."""

    tool_id: Name = Field(description="by which models ask for it and orders are routed")
    source: Name = Field(description="where it comes from: `builtin`, `python`, or the name of an MCP server")
    description: str = Field(description="for the model; of a server's tool the server's own words")
    parameters: str = Field(description="JSON Schema of its arguments, as JSON text")
    idempotent: bool = Field(description="running it twice is as good as once")
    writes: bool = Field(description="it may change something; an agent needs its exact name among its permissions")


class ToolSource(Record):
    """Where tools of one worker come from, and how that is going."""

    name: Name = Field(description="`builtin`, `python`, or the name of an MCP server")
    kind: Literal["builtin", "python", "mcp"] = Field(description="what it is")
    state: Literal["starting", "ready", "failed"] = Field(description="failed: it is tried again, or says what to mend")
    detail: Printable = Field(default="", max_length=400, description="what is wrong; of a server in order who it is")
    refused: list[Printable] = Field(
        default_factory=list[Printable], description="tools that it offers and that are not taken, each with the reason"
    )


class AnnounceTools(Message):
    """What a worker can run from now on: it replaces what its hello and every earlier announcement said."""

    TYPE: ClassVar[str] = "bus.tools"

    tools: list[ToolWord]
    sources: list[ToolSource]


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


class LaneFrame(Message):
    """Gateway -> broker, post: a frame of the gateway's own lane, for the tap (lane=direct); its body stays there."""

    TYPE: ClassVar[str] = "broker.lane_frame"

    verdict: str = Field(description="what the lane did with it: a verdict of the tap")
    header: bytes = Field(description="its header, with the sender as the lane stamped it")
    size: Count = Field(description="bytes of its body")
    sha256: bytes = Field(min_length=32, max_length=32, description="SHA-256 of its body")


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
    missing_tools: list[str] = Field(
        default_factory=list[str], description="sources of tools that failed there; `broker.read_tools` says why"
    )
    config_digest: str = Field(
        default="", description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet"
    )
    version: str = Field(default="", description="of the software")
    counters: dict[str, int] = Field(default_factory=dict, description="small integers of this incarnation, by name")
    host: str = Field(default="", description="its machine's name, as it says; empty: the broker's own")
    address: str = Field(default="", description="where it connects from, as the broker sees it; empty: a local socket")


class ReadTools(Message):
    """Ask which tools there are, and where."""

    TYPE: ClassVar[str] = "broker.read_tools"


class ToolRow(ToolWord):
    """One tool and who can run it."""

    workers: list[str] = Field(description="instances that announce it, sorted")


class SourceRow(ToolSource):
    """One source of tools at one worker."""

    instance: str = Field(description="`<role>/<n>@<epoch>`")


class Tools(Message):
    """Answer to ReadTools: tools sorted by id (of the first worker that announces one), sources by worker."""

    TYPE: ClassVar[str] = "broker.tools"

    tools: list[ToolRow]
    sources: list[SourceRow]


class RefusedKey(Record):
    """Connections with a key that nobody enrolled."""

    key: str = Field(description="its fingerprint")
    address: str = Field(description="where the last one came from")
    count: Count = Field(description="how many, since the broker's start")
    last_ms: Count = Field(description="since the last one")


class Peers(Message):
    """Answer to ReadPeers, sorted by instance."""

    TYPE: ClassVar[str] = "broker.peers"

    epoch: str = Field(description="of the broker; a new one means it restarted")
    peers: list[PeerRow]
    listens: str = Field(default="", description="`HOST:PORT` for workers elsewhere; empty: none")
    refused_keys: list[RefusedKey] = Field(default_factory=list[RefusedKey], description="latest last, bounded")


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


class RevokeKey(Message):
    """Operator -> broker: this worker's key is taken back, its connection cut off, its orders given to others."""

    TYPE: ClassVar[str] = "broker.revoke_key"

    name: str = Field(max_length=80, description="`ho1/remote-<n>`, as `hobus keys list` shows it")


class CreateToken(Message):
    """Operator -> broker: whoever connects with this key may enrol one of its own."""

    TYPE: ClassVar[str] = "broker.create_token"

    public_key: str = Field(max_length=40, description="Z85; its secret half stands in the token and nowhere else")
    role: Literal["ho1"] = Field(description="what the worker will be")
    ttl_s: int = Field(gt=0, description="seconds; at most bus.join_ttl_max_s")
    uses: int = Field(gt=0, description="how many workers may join with it; at most bus.join_uses_max")


class TokenCreated(Message):
    """The key counts from now on, durably."""

    TYPE: ClassVar[str] = "broker.token_created"

    token_id: str = Field(description="its name in lists and records")
    address: str = Field(description="`HOST:PORT` where the broker listens")
    broker_key: str = Field(description="the broker's public key, Z85")
    expires_at_us: Count = Field(description="microseconds since 1970 UTC")


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
