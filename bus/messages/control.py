"""What peers and the broker (or a lane's server) say about the connection itself, and what the broker answers.

Control frames are the only bodies that a broker decodes. Every field that another process fills has a bound: the shape
of a name or a reason stands here, how many there may be in `LIMITED_BY`, which names the limit.
"""

from typing import Annotated, Literal

from msgspec import Meta, field, structs

from hobus.bus.limits import JOIN_TTL_MAX_S, LEASED_TOOLS_MAX
from hobus.bus.messages.base import Count, Message, Record
from hobus.bus.messages.ids import ID_MAX_CHARS
from hobus.bus.text import cut

Printable = Annotated[str, Meta(pattern=r"^[ -~]*\Z")]
"""What a peer says of itself and people are shown: no control characters, so that no row of a table can be forged."""

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[!-~]+\Z")]
"""A printable word."""

Instance = Annotated[str, Meta(max_length=200)]
"""`<role>/<n>@<epoch>`."""

Id = Annotated[str, Meta(max_length=ID_MAX_CHARS)]
"""A message id or a routing key."""

Role = Annotated[str, Meta(max_length=16)]
Digest = Annotated[str, Meta(max_length=128)]
Address = Annotated[str, Meta(max_length=300)]

REASON_MAX_CHARS = 400
Reason = Annotated[str, Meta(max_length=REASON_MAX_CHARS)]
"""Why a peer is as it is, in its own words; whoever says it cuts it (`bus.text.cut`)."""

DETAIL_MAX_CHARS = 1000

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

    instance: Annotated[Printable, Meta(max_length=200, description="`<role>/<n>@<epoch>`; bound to the token")]
    token: Annotated[
        str, Meta(max_length=200, description="secret of this incarnation; empty: CURVE identifies the peer")
    ]
    role: Annotated[Role, Meta(description="text of the instance before its first `/`")]
    offers: Annotated[list[Name], Meta(max_length=16, description="services it answers for")] = field(
        default_factory=list[Name]
    )
    slots: Annotated[Count, Meta(description="credit-bound requests at once")]
    version: Annotated[Printable, Meta(max_length=64, description="of the software")]
    protocol: Annotated[int, Meta(description="version of this page that it speaks")]
    config_digest: Annotated[Digest, Meta(description="snapshot that it runs under; empty: none yet")] = ""
    tools: Annotated[list[Name], Meta(description="tools a ho1 worker can run")] = field(default_factory=list[Name])
    keys: Annotated[list[Id], Meta(description="sticky routing keys it holds (re-announced)")] = field(
        default_factory=list[Id]
    )
    in_progress: Annotated[list[Id], Meta(description="request ids it works on (re-announced)")] = field(
        default_factory=list[Id]
    )
    answered: Annotated[list[Id], Meta(description="recently answered request ids")] = field(default_factory=list[Id])
    host: Annotated[Printable, Meta(max_length=255, description="its machine's name; empty: the broker's")] = ""
    leases: Annotated[bool, Meta(description="an executor with a lane, or a supervisor that accepts leases")] = False


class Welcome(Message, wire="bus.welcome"):
    """The connection is bound to its principal."""

    epoch: Annotated[Name, Meta(description="of the server; a new one: it restarted")]
    beat_interval_ms: Annotated[Count, Meta(description="how often the peer beats")]
    peer_timeout_ms: Annotated[Count, Meta(description="silence after which the peer is lost")]
    config_digest: Annotated[Digest, Meta(description="snapshot that the broker runs under; empty at a lane")] = ""


class Join(Message, wire="bus.join"):
    """First frame of a worker elsewhere, by a token's key, or by its own that is rotated: enrol this key.

    These fields never change, so that any broker can name what does not fit.
    """

    public_key: Annotated[str, Meta(max_length=40, description="the worker's own CURVE key, Z85")]
    role: Annotated[str, Meta(max_length=16, description="what it will be")]
    version: Annotated[Printable, Meta(max_length=64, description="of the software")]
    protocol: Annotated[int, Meta(description="version of this page that it speaks")]
    host: Annotated[Printable, Meta(max_length=255, description="its machine's name, unchecked")]


class Joined(Message, wire="bus.joined"):
    """The key is enrolled, durably: connect with it from now on."""

    name: Annotated[Name, Meta(description="`<role>/<n>` of every incarnation with this key")]
    config_digest: Annotated[Digest, Meta(description="snapshot that the broker runs under")]


class Refused(Message, wire="bus.refused"):
    """Hello, or Join, was refused; the connection stays unbound."""

    code: Annotated[Literal[
        "bad_token", "name_taken", "bad_protocol", "role_mismatch", "malformed",
        "token_expired", "token_used", "bad_version", "other_config", "not_enrolled", "unavailable",
    ], Meta(description="why; those after `malformed` only for workers on other hosts")]  # fmt: skip
    detail: Annotated[
        str, Meta(description=f"the reason in words, with quotations; cut to {DETAIL_MAX_CHARS} characters")
    ]

    def __post_init__(self) -> None:
        """Cut the detail where it is made and where it is read."""
        structs.force_setattr(self, "detail", cut(self.detail, DETAIL_MAX_CHARS))


class Rehello(Message, wire="bus.rehello"):
    """The server does not know this connection: say hello again."""


class Ready(Message, wire="bus.ready"):
    """The peer's own view of its readiness; re-sent on every change."""

    state: Annotated[Literal["starting", "ready", "degraded", "draining"], Meta(description="the peer's own view")]
    reason: Annotated[Reason, Meta(description="why it is not ready")] = ""
    config_digest: Annotated[
        Digest, Meta(description="snapshot under which it begins new work; empty: its hello's")
    ] = ""


class Beat(Message, wire="bus.beat"):
    """Heartbeat with counters; from the broker: ready roles."""

    counters: Annotated[dict[Name, int], Meta(description="small integers of this incarnation, by name")] = field(
        default_factory=dict[Name, int]
    )
    ready_roles: Annotated[list[Role], Meta(max_length=16, description="from the broker: with a ready peer")] = field(
        default_factory=list[Role]
    )
    is_whole: Annotated[
        bool, Meta(description="from the broker: the list is complete; false while it waits for old peers")
    ] = False
    ready_count: Annotated[Count, Meta(description="from the broker: ready peers")] = 0
    config_digest: Annotated[Digest, Meta(description="from the broker: the cluster's snapshot")] = ""


class Credit(Message, wire="bus.credit"):
    """The peer's number of slots changed (0 while it drains)."""

    slots: Annotated[Count, Meta(description="credit-bound requests at once")]


class Lease(Record):
    """The right to send an executor so much by its own lane; while its giver and its holder are connected."""

    instance: Annotated[Instance, Meta(description="of the executor")]
    slots: Annotated[Count, Meta(description="orders at once; 0: none that is new")]
    tools: Annotated[
        list[Name],
        Meta(
            max_length=LEASED_TOOLS_MAX,
            description="of its own, which may run twice and change nothing: their calls go by the lane as well",
        ),
    ] = field(default_factory=list[Name])


class Leases(Message, wire="bus.leases"):
    """From the broker, to a supervisor: all its leases from now on; an executor that is not named is gone."""

    leases: Annotated[list[Lease], Meta(max_length=4096)]


class ToolWord(Record):
    """One tool of a worker."""

    tool_id: Annotated[Name, Meta(description="its name for models and orders")]
    source: Annotated[Name, Meta(description="`builtin`, `python`, or an MCP server's name")]
    description: Annotated[str, Meta(description="for the model")]
    parameters: Annotated[str, Meta(description="JSON Schema of its arguments, as text, at most 128 levels deep")]
    idempotent: Annotated[bool, Meta(description="may run twice")]
    writes: Annotated[bool, Meta(description="may change something; needs its exact name among an agent's permissions")]


class ToolSource(Record):
    """A source of tools at a worker."""

    name: Annotated[Name, Meta(description="`builtin`, `python`, or an MCP server's name")]
    kind: Annotated[Literal["builtin", "python", "mcp"], Meta(description="what it is")]
    state: Annotated[Literal["starting", "ready", "failed"], Meta(description="failed: retried, or needs a fix")]
    detail: Annotated[Printable, Meta(max_length=REASON_MAX_CHARS, description="the fault, else the server's name")] = (
        ""
    )
    refused: Annotated[
        list[Annotated[Printable, Meta(max_length=REASON_MAX_CHARS)]],
        Meta(max_length=REFUSED_SHOWN_MAX, description="tools not taken, each with the reason"),
    ] = field(default_factory=list[Printable])

    def may_bring(self, tool_id: str) -> bool:
        """Return whether the source may bring a tool of this id: a server's name stands before its tools'."""
        server, separator, _ = tool_id.partition(SEPARATOR)
        return server == self.name if separator else self.kind == "python"


class AnnounceTools(Message, wire="bus.tools"):
    """The complete list of a worker's tools."""

    tools: Annotated[list[ToolWord], Meta(description="each id once in all parts")]
    sources: Annotated[list[ToolSource], Meta(max_length=SOURCES_MAX, description="each name once in all parts")]
    part: Annotated[int, Meta(ge=1, description="from 1, which begins anew")] = 1
    parts: Annotated[int, Meta(ge=1, description="how many there are")] = 1


class Bye(Message, wire="bus.bye"):
    """The peer leaves; its requests are redelivered or fail at once."""


class Cancelled(Message, wire="bus.cancel"):
    """Body of a cancel frame; its correlation id names the request."""

    reason: Annotated[Literal["requester", "deadline"], Meta(description="why")] = "requester"


class InstanceLost(Message, wire="broker.instance_lost"):
    """Launcher -> broker, post: this process exited."""

    instance: Annotated[Instance, Meta(description="`<role>/<n>@<epoch>`")]
    exit: Annotated[str, Meta(max_length=200, description="e.g. `signal 9`, `exit 1`")]


class ServiceGivenUp(Message, wire="broker.service_given_up"):
    """Launcher -> broker, post: this service is given up, or offered again."""

    service: Annotated[Role, Meta(description="name of a service")]
    given_up: Annotated[bool, Meta(description="false: it may be offered again")]


class UseSnapshot(Message, wire="broker.use_snapshot"):
    """Launcher -> broker: use this recorded snapshot from now on; the broker tells all."""

    config_digest: Annotated[Digest, Meta(description="`sha256:<64 hex>` of it")]


class LaneFrame(Record):
    """A frame of a lane, without its body."""

    ago_us: Annotated[Count, Meta(description="microseconds since it came or left")]
    verdict: Annotated[str, Meta(max_length=16, description="a verdict of the tap")]
    header: Annotated[bytes, Meta(max_length=4096, description="with the stamped sender")]
    size: Annotated[Count, Meta(description="bytes of its body")]
    sha256: Annotated[bytes, Meta(min_length=32, max_length=32, description="SHA-256 of its body")]


class LaneFrames(Message, wire="broker.lane_frames"):
    """Gateway -> broker, post: the frames of its own lane since the last one, in order, for the tap."""

    frames: list[LaneFrame]


class ReadPeers(Message, wire="broker.read_peers"):
    """Ask who is connected: one page, of about 1 MiB."""

    after: Annotated[str, Meta(max_length=500, description="`next` of the page before; empty: first page")] = ""


class ReadPeer(Message, wire="broker.read_peer"):
    """Ask about one peer."""

    instance: Annotated[Instance, Meta(description="`<role>/<n>@<epoch>`")]


class PeerRow(Message, wire="broker.peer"):
    """One peer as the broker knows it."""

    instance: Annotated[Instance, Meta(description="`<role>/<n>@<epoch>`")]
    role: Annotated[Instance, Meta(description="text of the instance before its first `/`")]
    offers: Annotated[list[Name], Meta(max_length=16, description="services it answers for")]
    state: Annotated[
        Literal["starting", "ready", "degraded", "draining", "lost"], Meta(description="its own view, or lost")
    ]
    reason: Annotated[Reason, Meta(description="why it is not ready")] = ""
    slots: Annotated[Count, Meta(description="credit-bound requests at once")]
    in_flight: Annotated[Count, Meta(description="requests delivered and not answered")]
    keys: Annotated[Count, Meta(description="sticky routing keys it holds")]
    last_beat_ms: Annotated[Count, Meta(description="since the last frame of this peer")]
    connected_ms: Annotated[Count, Meta(description="since its hello")]
    tools: Annotated[list[Name], Meta(description="tools it can run")] = field(default_factory=list[Name])
    missing_tools: Annotated[list[Name], Meta(max_length=SOURCES_MAX, description="failed sources of tools")] = field(
        default_factory=list[Name]
    )
    config_digest: Annotated[
        Digest, Meta(description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet")
    ] = ""
    version: Annotated[str, Meta(max_length=64, description="of the software")] = ""
    counters: Annotated[dict[Name, int], Meta(description="small integers of this incarnation, by name")] = field(
        default_factory=dict[Name, int]
    )
    host: Annotated[str, Meta(max_length=255, description="its machine's name; empty: the broker's")] = ""
    address: Annotated[Address, Meta(description="as the broker sees it; empty: a local socket")] = ""


class ReadTools(Message, wire="broker.read_tools"):
    """Ask which tools there are, and where: one page."""

    after: Annotated[str, Meta(max_length=500, description="`next` of the page before; empty: first page")] = ""


class ToolRow(ToolWord):
    """One tool and who can run it."""

    workers: Annotated[
        list[Instance], Meta(max_length=WORKERS_SHOWN_MAX, description="that announce it, sorted, the first ones")
    ]
    worker_count: Annotated[Count, Meta(description="how many announce it")]


class SourceRow(ToolSource):
    """One source of tools at one worker."""

    instance: Annotated[Instance, Meta(description="`<role>/<n>@<epoch>`")]
    tools: Annotated[Count, Meta(description="how many tools it brings there")]


class Tools(Message, wire="broker.tools"):
    """Answer to ReadTools: sources by worker, then tools by id."""

    epoch: Annotated[Name, Meta(description="of the broker; another one: begin again")]
    tools: list[ToolRow]
    sources: list[SourceRow]
    next: Annotated[str, Meta(max_length=500, description="`after` of the next page; empty: the last")] = ""


class RefusedKey(Record):
    """Connections with a key that nobody enrolled."""

    key: Annotated[str, Meta(max_length=80, description="its fingerprint")]
    address: Annotated[Address, Meta(description="where the last one came from")]
    count: Annotated[Count, Meta(description="how many, since the broker's start")]
    last_ms: Annotated[Count, Meta(description="since the last one")]


class Peers(Message, wire="broker.peers"):
    """Answer to ReadPeers, sorted by instance."""

    epoch: Annotated[Name, Meta(description="of the broker; another one: begin again")]
    peers: list[PeerRow]
    listens: Annotated[Address, Meta(description="`HOST:PORT` for workers elsewhere; empty: none")] = ""
    refused_keys: Annotated[list[RefusedKey], Meta(description="latest last; on the first page")] = field(
        default_factory=list[RefusedKey]
    )
    next: Annotated[str, Meta(max_length=500, description="`after` of the next page; empty: the last")] = ""


class ReadQueues(Message, wire="broker.read_queues"):
    """Ask how many requests wait and run, by service."""


class QueueRow(Record):
    """One service."""

    service: Annotated[Role, Meta(description="name of a service")]
    queued: Annotated[Count, Meta(description="requests that wait for a worker")]
    in_flight: Annotated[Count, Meta(description="requests delivered and not answered")]
    delivered: Annotated[Count, Meta(description="requests delivered since start")]
    failed: Annotated[dict[Name, int], Meta(max_length=64, description="failures by code since start")] = field(
        default_factory=dict[Name, int]
    )


class Queues(Message, wire="broker.queues"):
    """Answer to ReadQueues."""

    queues: Annotated[list[QueueRow], Meta(max_length=64)]


class Drain(Message, wire="broker.drain"):
    """Operator, launcher -> broker: give this instance no new work; broker -> worker elsewhere: finish, then end."""

    instance: Annotated[Instance, Meta(description="`<role>/<n>@<epoch>`")]


class RevokeKey(Message, wire="broker.revoke_key"):
    """Operator -> broker: revoke a token, or a worker's key: cut its connection, give its orders to others."""

    name: Annotated[str, Meta(max_length=80, description="`ho1/remote-<n>`, or the token's id")]


class RotateKey(Message, wire="broker.rotate_key"):
    """Operator -> broker: this worker is to have another key; to that worker: finish, enrol one (Join), come back."""

    name: Annotated[str, Meta(max_length=80, description="`ho1/remote-<n>`, as `hobus keys list` shows it")]
    grace_s: Annotated[int, Meta(ge=0, le=JOIN_TTL_MAX_S, description="seconds after which the old key ends")] = 0


class CreateToken(Message, wire="broker.create_token"):
    """Operator -> broker: whoever connects with this key may enrol one of its own."""

    public_key: Annotated[str, Meta(max_length=40, description="Z85; only the token holds its secret half")]
    role: Annotated[Literal["ho1"], Meta(description="what the worker will be")]
    ttl_s: Annotated[int, Meta(gt=0, description="seconds; at most 30 days")]
    uses: Annotated[int, Meta(gt=0, description="workers that may join; at most 1000")]
    gone_s: Annotated[
        int,
        Meta(ge=0, description="seconds of absence after which a worker's key is revoked and its use freed; 0: never"),
    ] = 0


class TokenCreated(Message, wire="broker.token_created"):
    """The token is durable and valid."""

    token_id: Annotated[Name, Meta(description="its name in lists and records")]
    address: Annotated[Address, Meta(description="`HOST:PORT` where the broker listens")]
    broker_key: Annotated[str, Meta(max_length=40, description="the broker's public key, Z85")]
    expires_at_us: Annotated[Count, Meta(description="microseconds since 1970 UTC")]


class Done(Message, wire="bus.done"):
    """Plain acknowledgement."""


class Probe(Message, wire="bus.probe"):
    """Anyone -> any actor: ask for its readiness; the shell answers."""


class Probed(Message, wire="bus.probed"):
    """Answer to Probe."""

    instance: Annotated[Instance, Meta(description="`<role>/<n>@<epoch>`")]
    state: Annotated[Literal["starting", "ready", "degraded", "draining"], Meta(description="the peer's own view")]
    reason: Annotated[Reason, Meta(description="why it is not ready")] = ""


LIMITED_BY: dict[tuple[type[Record], str], str] = {
    (Hello, "tools"): "tools_max",
    (Hello, "keys"): "hello_ids_max",
    (Hello, "in_progress"): "hello_ids_max",
    (Hello, "answered"): "hello_ids_max",
    (Beat, "counters"): "counters_max",
    (AnnounceTools, "tools"): "tools_max",
    (LaneFrames, "frames"): "lane_frames_max",
    (ToolWord, "description"): "tool_max_bytes",
    (ToolWord, "parameters"): "tool_max_bytes",
    (PeerRow, "tools"): "tools_max",
    (PeerRow, "counters"): "counters_max",
    (Tools, "tools"): "page_max_bytes",
    (Tools, "sources"): "page_max_bytes",
    (Peers, "peers"): "page_max_bytes",
    (Peers, "refused_keys"): "refused_keys_max",
}
"""(message, field) -> the limit (bus/limits.py) that bounds it; every other field is bounded by its type."""
