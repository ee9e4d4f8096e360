"""What peers and the broker (or a lane's server) say about the connection itself, and what the broker answers.

Control frames are the only bodies that a broker decodes. Every field that another process fills has a bound: the shape
of a name or a reason stands here, how many there may be in `LIMITED_BY`, which names the setting.
"""

from typing import Annotated, Literal

from pydantic import Field

from hobus.bus.messages.base import Count, Message, Record, cut_to
from hobus.bus.messages.ids import ID_MAX_CHARS

Printable = Annotated[str, Field(pattern=r"^[ -~]*$")]
"""What a peer says of itself and people are shown: no control characters, so that no row of a table can be forged."""

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
"""A printable word."""

Instance = Annotated[str, Field(max_length=200)]
"""`<role>/<n>@<epoch>`."""

Id = Annotated[str, Field(max_length=ID_MAX_CHARS)]
"""A message id or a routing key."""

Role = Annotated[str, Field(max_length=16)]
Digest = Annotated[str, Field(max_length=128)]
Address = Annotated[str, Field(max_length=300)]

REASON_MAX_CHARS = 400
Reason = Annotated[str, Field(max_length=REASON_MAX_CHARS)]
"""Why a peer is as it is, in its own words; whoever says it cuts it (`bus.text.cut`)."""

Detail = Annotated[str, cut_to(1000), Field(max_length=1000)]
"""A server's words, which may quote what was sent to it: what is longer is cut, and marked as cut."""

REFUSED_SHOWN_MAX = 64
"""Most tools of one source that are named with the reason why they are not taken."""
PARAMETERS_DEPTH_MAX = 128
"""Levels of a tool's schema; the format's own bound, not a setting: what reads schemas goes level by level."""
SOURCES_MAX = 1024
"""Most sources of tools of one worker."""
SEPARATOR = "__"
"""In a tool's id, between the name of its MCP server and the server's own name for it; no other id has it."""
HELD_FOR = " "
"""In the key of an order, between the tool that it needs and, where that is a server's, whom it keeps state for."""
WORKERS_SHOWN_MAX = 64
"""Most workers that are named beside one tool."""


class Hello(Message, wire="bus.hello"):
    """First frame of a connection; nothing else is accepted before its Welcome."""

    instance: Printable = Field(max_length=200, description="`<role>/<n>@<epoch>`; bound to the token")
    token: str = Field(max_length=200, description="secret of this incarnation; empty: CURVE identifies the peer")
    role: Role = Field(description="text of the instance before its first `/`")
    offers: list[Name] = Field(default_factory=list[Name], max_length=16, description="services it answers for")
    slots: Count = Field(description="credit-bound requests at once")
    version: Printable = Field(max_length=64, description="of the software")
    protocol: int = Field(description="version of this page that it speaks")
    config_digest: Digest = Field(default="", description="snapshot that it runs under; empty: none yet")
    tools: list[Name] = Field(default_factory=list[Name], description="tools a ho1 worker can run")
    keys: list[Id] = Field(default_factory=list[Id], description="sticky routing keys it holds (re-announced)")
    in_progress: list[Id] = Field(default_factory=list[Id], description="request ids it works on (re-announced)")
    answered: list[Id] = Field(default_factory=list[Id], description="recently answered request ids")
    host: Printable = Field(default="", max_length=255, description="its machine's name; empty: the broker's")


class Welcome(Message, wire="bus.welcome"):
    """The connection is bound to its principal."""

    epoch: Name = Field(description="of the server; a new one: it restarted")
    beat_interval_ms: Count = Field(description="how often the peer beats")
    peer_timeout_ms: Count = Field(description="silence after which the peer is lost")
    config_digest: Digest = Field(default="", description="snapshot that the broker runs under; empty at a lane")


class Join(Message, wire="bus.join"):
    """First frame of a worker elsewhere: enrol my own key.

    These fields never change, so that any broker can name what does not fit.
    """

    public_key: str = Field(max_length=40, description="the worker's own CURVE key, Z85")
    role: str = Field(max_length=16, description="what it will be")
    version: Printable = Field(max_length=64, description="of the software")
    protocol: int = Field(description="version of this page that it speaks")
    host: Printable = Field(max_length=255, description="its machine's name, as it says")


class Joined(Message, wire="bus.joined"):
    """The key is enrolled, durably: connect with it from now on."""

    name: Name = Field(description="`<role>/<n>` of every incarnation with this key")
    config_digest: Digest = Field(description="snapshot that the broker runs under")


class Refused(Message, wire="bus.refused"):
    """Hello, or Join, was refused; the connection stays unbound."""

    code: Literal[
        "bad_token", "name_taken", "bad_protocol", "role_mismatch", "malformed",
        "token_expired", "token_used", "bad_version", "other_config", "not_enrolled", "unavailable",
    ] = Field(description="why; those after `malformed` only at workers elsewhere")  # fmt: skip
    detail: Detail = Field(description="what was refused, in words")


class Rehello(Message, wire="bus.rehello"):
    """The server does not know this connection: say hello again."""


class Ready(Message, wire="bus.ready"):
    """The peer's own view of its readiness; re-sent on every change."""

    state: Literal["starting", "ready", "degraded", "draining"] = Field(description="the peer's own view")
    reason: Reason = Field(default="", description="why it is not ready")
    config_digest: Digest = Field(default="", description="snapshot under which it begins new work; empty: its hello's")


class Beat(Message, wire="bus.beat"):
    """The loop is not stuck, and its counters; from the broker: who is ready."""

    counters: dict[Name, int] = Field(
        default_factory=dict[Name, int], description="small integers of this incarnation, by name"
    )
    ready_roles: list[Role] = Field(
        default_factory=list[Role], max_length=16, description="from the broker: with a ready peer"
    )
    is_whole: bool = Field(
        default=False, description="from the broker: no other role has one; false while it waits for old peers"
    )
    ready_count: Count = Field(default=0, description="from the broker: ready peers")
    config_digest: Digest = Field(default="", description="from the broker: the cluster's snapshot")


class Credit(Message, wire="bus.credit"):
    """The peer's number of slots changed (0 while it drains)."""

    slots: Count = Field(description="credit-bound requests at once")


class ToolWord(Record):
    """One tool of a worker."""

    tool_id: Name = Field(description="what models and orders call it")
    source: Name = Field(description="`builtin`, `python`, or an MCP server's name")
    description: str = Field(description="for the model")
    parameters: str = Field(description="JSON Schema of its arguments, as text, at most 128 levels deep")
    idempotent: bool = Field(description="may run twice")
    writes: bool = Field(description="may change something; needs its exact name among an agent's permissions")


class ToolSource(Record):
    """A source of tools at a worker."""

    name: Name = Field(description="`builtin`, `python`, or an MCP server's name")
    kind: Literal["builtin", "python", "mcp"] = Field(description="what it is")
    state: Literal["starting", "ready", "failed"] = Field(description="failed: tried again, or to be mended")
    detail: Printable = Field(
        default="", max_length=REASON_MAX_CHARS, description="what is wrong, else who the server is"
    )
    refused: list[Annotated[Printable, Field(max_length=REASON_MAX_CHARS)]] = Field(
        default_factory=list[Printable],
        max_length=REFUSED_SHOWN_MAX,
        description="tools not taken, each with the reason",
    )

    def may_bring(self, tool_id: str) -> bool:
        """Whether a tool of this id would be one of its: a server's name stands before its tools'."""
        server, separator, _ = tool_id.partition(SEPARATOR)
        return server == self.name if separator else self.kind == "python"


class AnnounceTools(Message, wire="bus.tools"):
    """What a worker can run from now on, in place of all that it said before."""

    tools: list[ToolWord] = Field(description="each id once in all parts")
    sources: list[ToolSource] = Field(max_length=SOURCES_MAX, description="each name once in all parts")
    part: int = Field(default=1, ge=1, description="from 1, which begins anew")
    parts: int = Field(default=1, ge=1, description="how many there are")


class Bye(Message, wire="bus.bye"):
    """The peer leaves; what it holds is redelivered or failed at once."""


class Cancelled(Message, wire="bus.cancel"):
    """Body of a cancel frame; its correlation id names the request."""

    reason: Literal["requester", "deadline"] = Field(default="requester", description="why")


class InstanceLost(Message, wire="broker.instance_lost"):
    """Launcher -> broker, post: this child is dead (its exit was seen)."""

    instance: Instance = Field(description="`<role>/<n>@<epoch>`")
    exit: str = Field(max_length=200, description="e.g. `signal 9`, `exit 1`")


class ServiceGivenUp(Message, wire="broker.service_given_up"):
    """Launcher -> broker, post: nobody will offer this service (given_up) or somebody may again."""

    service: Role = Field(description="name of a service")
    given_up: bool = Field(description="false: somebody may offer it again")


class UseSnapshot(Message, wire="broker.use_snapshot"):
    """Launcher -> broker: the cluster runs under this recorded snapshot from now on; all are told."""

    config_digest: Digest = Field(description="`sha256:<64 hex>` of it")


class LaneFrame(Message, wire="broker.lane_frame"):
    """Gateway -> broker, post: a frame of its own lane, for the tap, without its body."""

    verdict: str = Field(max_length=16, description="a verdict of the tap")
    header: bytes = Field(max_length=4096, description="with the stamped sender")
    size: Count = Field(description="bytes of its body")
    sha256: bytes = Field(min_length=32, max_length=32, description="SHA-256 of its body")


class ReadPeers(Message, wire="broker.read_peers"):
    """Ask who is connected: one page, of `bus.page_max_bytes`."""

    after: str = Field(default="", max_length=500, description="`next` of the page before; empty: first page")


class ReadPeer(Message, wire="broker.read_peer"):
    """Ask about one peer."""

    instance: Instance = Field(description="`<role>/<n>@<epoch>`")


class PeerRow(Message, wire="broker.peer"):
    """One peer as the broker knows it."""

    instance: Instance = Field(description="`<role>/<n>@<epoch>`")
    role: Instance = Field(description="text of the instance before its first `/`")
    offers: list[Name] = Field(max_length=16, description="services it answers for")
    state: Literal["starting", "ready", "degraded", "draining", "lost"] = Field(description="its own view, or lost")
    reason: Reason = Field(default="", description="why it is not ready")
    slots: Count = Field(description="credit-bound requests at once")
    in_flight: Count = Field(description="requests delivered and not answered")
    keys: Count = Field(description="sticky routing keys it holds")
    last_beat_ms: Count = Field(description="since the last frame of this peer")
    connected_ms: Count = Field(description="since its hello")
    tools: list[Name] = Field(default_factory=list[Name], description="tools it can run")
    missing_tools: list[Name] = Field(
        default_factory=list[Name],
        max_length=SOURCES_MAX,
        description="failed sources of tools",
    )
    config_digest: Digest = Field(
        default="", description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet"
    )
    version: str = Field(default="", max_length=64, description="of the software")
    counters: dict[Name, int] = Field(
        default_factory=dict[Name, int], description="small integers of this incarnation, by name"
    )
    host: str = Field(default="", max_length=255, description="its machine's name; empty: the broker's")
    address: Address = Field(default="", description="as the broker sees it; empty: a local socket")


class ReadTools(Message, wire="broker.read_tools"):
    """Ask which tools there are, and where: one page."""

    after: str = Field(default="", max_length=500, description="`next` of the page before; empty: first page")


class ToolRow(ToolWord):
    """One tool and who can run it."""

    workers: list[Instance] = Field(
        max_length=WORKERS_SHOWN_MAX, description="that announce it, sorted, the first ones"
    )
    worker_count: Count = Field(description="how many announce it")


class SourceRow(ToolSource):
    """One source of tools at one worker."""

    instance: Instance = Field(description="`<role>/<n>@<epoch>`")
    tools: Count = Field(description="how many tools it brings there")


class Tools(Message, wire="broker.tools"):
    """Answer to ReadTools: sources by worker, then tools by id."""

    epoch: Name = Field(description="of the broker; another one: begin again")
    tools: list[ToolRow]
    sources: list[SourceRow]
    next: str = Field(default="", max_length=500, description="`after` of the next page; empty: the last")


class RefusedKey(Record):
    """Connections with a key that nobody enrolled."""

    key: str = Field(max_length=80, description="its fingerprint")
    address: Address = Field(description="where the last one came from")
    count: Count = Field(description="how many, since the broker's start")
    last_ms: Count = Field(description="since the last one")


class Peers(Message, wire="broker.peers"):
    """Answer to ReadPeers, sorted by instance."""

    epoch: Name = Field(description="of the broker; another one: begin again")
    peers: list[PeerRow]
    listens: Address = Field(default="", description="`HOST:PORT` for workers elsewhere; empty: none")
    refused_keys: list[RefusedKey] = Field(
        default_factory=list[RefusedKey], description="latest last; on the first page"
    )
    next: str = Field(default="", max_length=500, description="`after` of the next page; empty: the last")


class ReadQueues(Message, wire="broker.read_queues"):
    """Ask how many requests wait and run, by service."""


class QueueRow(Record):
    """One service."""

    service: Role = Field(description="name of a service")
    queued: Count = Field(description="requests that wait for a worker")
    in_flight: Count = Field(description="requests delivered and not answered")
    delivered: Count = Field(description="requests delivered since start")
    failed: dict[Name, int] = Field(
        default_factory=dict[Name, int], max_length=64, description="failures by code since start"
    )


class Queues(Message, wire="broker.queues"):
    """Answer to ReadQueues."""

    queues: list[QueueRow] = Field(max_length=64)


class Drain(Message, wire="broker.drain"):
    """Operator, launcher -> broker: give this instance no new work."""

    instance: Instance = Field(description="`<role>/<n>@<epoch>`")


class RevokeKey(Message, wire="broker.revoke_key"):
    """Operator -> broker: revoke this worker's key, cut its connection, give its orders to others."""

    name: str = Field(max_length=80, description="`ho1/remote-<n>`, as `hobus keys list` shows it")


class CreateToken(Message, wire="broker.create_token"):
    """Operator -> broker: whoever connects with this key may enrol one of its own."""

    public_key: str = Field(max_length=40, description="Z85; its secret half stands in the token alone")
    role: Literal["ho1"] = Field(description="what the worker will be")
    ttl_s: int = Field(gt=0, description="seconds; at most bus.join_ttl_max_s")
    uses: int = Field(gt=0, description="workers that may join; at most bus.join_uses_max")


class TokenCreated(Message, wire="broker.token_created"):
    """The key counts from now on, durably."""

    token_id: Name = Field(description="its name in lists and records")
    address: Address = Field(description="`HOST:PORT` where the broker listens")
    broker_key: str = Field(max_length=40, description="the broker's public key, Z85")
    expires_at_us: Count = Field(description="microseconds since 1970 UTC")


class Done(Message, wire="bus.done"):
    """Plain acknowledgement."""


class Probe(Message, wire="bus.probe"):
    """Anyone -> any actor: answered by the shell itself with its readiness."""


class Probed(Message, wire="bus.probed"):
    """Answer to Probe."""

    instance: Instance = Field(description="`<role>/<n>@<epoch>`")
    state: Literal["starting", "ready", "degraded", "draining"] = Field(description="the peer's own view")
    reason: Reason = Field(default="", description="why it is not ready")


LIMITED_BY: dict[tuple[type[Record], str], str] = {
    (Hello, "tools"): "tools_max",
    (Hello, "keys"): "hello_ids_max",
    (Hello, "in_progress"): "hello_ids_max",
    (Hello, "answered"): "hello_ids_max",
    (Beat, "counters"): "counters_max",
    (AnnounceTools, "tools"): "tools_max",
    (ToolWord, "description"): "tool_max_bytes",
    (ToolWord, "parameters"): "tool_max_bytes",
    (PeerRow, "tools"): "tools_max",
    (PeerRow, "counters"): "counters_max",
    (Tools, "tools"): "page_max_bytes",
    (Tools, "sources"): "page_max_bytes",
    (Peers, "peers"): "page_max_bytes",
    (Peers, "refused_keys"): "refused_keys_max",
}
"""(message, field) -> the setting of section `bus` that bounds it; every other field is bounded by its type."""
