"""Settings of broker, lanes, endpoints and clients of the ledger, of `admin_config.json` (no field has a default)."""

from collections import deque
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A frozen part of the configuration; unknown keys are errors; units stand last in names."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class LedgerClientSettings(Section):
    """What a client of the ledger goes by: the first part of section `ledger`."""

    batch_entries_max: Positive = Field(description="entries of one sync, or one frame")
    batch_bytes_max: Positive = Field(description="the same in bytes; an entry that is larger goes alone")
    lazy_commit_ms: Positive = Field(
        description="how long a write that nobody waits for may wait to share a frame, and again to share a sync"
    )
    outage_wait_ms: Positive = Field(description="how long a barrier waits for a restart of the ledger")
    client_outstanding_max: Positive = Field(description="unacknowledged writes that a client keeps")
    client_frames_max: Positive = Field(description="frames of urgent writes that a client has on their way")
    request_timeout_ms: Positive = Field(description="a read or write unanswered this long is sent again")


class BusSettings(Section):
    """Broker, lanes and endpoints."""

    body_max_bytes: Positive = Field(description="a larger body is refused where it is made, naming size and limit")
    service_grace_ms: Positive = Field(
        description="a request waits so long for a service, a model call for tools on their way"
    )
    reannounce_grace_ms: NonNegative = Field(description="how long a restarted broker collects hellos")
    queue_max: Positive = Field(description="queued requests per service")
    mailbox_max: Positive = Field(description="immediate requests at once per instance")
    client_open_max_bytes: Positive = Field(description="bodies of one principal's open requests; more are `busy`")
    clients_open_max_bytes: Positive = Field(description="the same of all together; each may have one of 64 KiB beside")
    attempts_max: Positive = Field(description="deliveries of one redeliverable request")
    beat_interval_ms: Positive = Field(description="how often a peer tells that it lives")
    peer_timeout_ms: Positive = Field(description="silence after which a peer is lost")
    probe_interval_ms: Positive = Field(description="how often peers with work are probed")
    heartbeat_interval_ms: Positive = Field(description="ZMTP heartbeat")
    heartbeat_timeout_ms: Positive = Field(description="ZMTP heartbeat time-out")
    dedupe_window: Positive = Field(description="message ids remembered per receiver")
    tap_hwm: Positive = Field(description="batches queued for a slow tap reader")
    unbound_max_bytes: Positive = Field(
        description="a connection from elsewhere is heard for so long without a hello, then cut off"
    )
    record_interval_ms: Positive = Field(description="how often denials and dead letters are recorded, in batches")
    drain_ms: Positive = Field(description="bound of an endpoint's orderly stop")
    listen: Annotated[str, Field(pattern=r"^(\S{1,255}:[0-9]{1,5})?$")] = Field(
        description="HOST:PORT for workers on other hosts, by CURVE; port 0: any free one; empty: none"
    )
    join_ttl_max_s: Positive = Field(description="longest life of a join token")
    join_uses_max: Positive = Field(description="most workers that may join with one token")
    page_max_bytes: Positive = Field(description="rows of a page, tools of a part of an announcement")
    tools_max: Positive = Field(description="tools that one worker may announce")
    tool_max_bytes: Positive = Field(description="description and schema of one announced tool")
    announcement_max_bytes: Positive = Field(description="all parts of one worker's announcement")
    counters_max: Positive = Field(description="counters of one beat")
    hello_ids_max: Positive = Field(description="keys, and request ids of either kind, in one hello")
    refused_keys_max: Positive = Field(description="refused keys named in records and listings")


def build_models() -> None:
    """Compile the checks of every model of a configuration that is loaded, else done at its first use.

    For a process that others are forked from: whoever compiles one later writes to pages that all share.
    """
    models = deque(BaseModel.__subclasses__())
    while models:  # in the order in which they were made: what stands in another one is shared by it
        models += (model := models.popleft()).__subclasses__()
        model.model_rebuild()
