"""Settings of broker, lanes, endpoints and clients of the ledger, of `admin_config.json` (no field has a default)."""

from collections import deque
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
ADDRESS = r"^((\*|\[[0-9A-Fa-f:]+\]|[^\s:/]{1,255}):[0-9]{1,5})?$"
Address = Annotated[str, Field(pattern=ADDRESS)]


class Section(BaseModel):
    """A frozen part of the configuration; unknown keys are errors; units stand last in names."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class LedgerClientSettings(Section):
    """What a client of the ledger needs: the first part of section `ledger`."""

    lazy_commit_ms: Positive = Field(
        description="how long a write without a waiter may wait to share a frame, and again to share a sync"
    )
    outage_wait_ms: Positive = Field(description="how long a write with a waiter waits for the ledger's restart")


class BusSettings(Section):
    """Broker, lanes and endpoints."""

    service_grace_ms: Positive = Field(
        description="how long a request waits for a service, and a model call for tools that are connecting"
    )
    reannounce_grace_ms: NonNegative = Field(description="how long a restarted broker collects hellos")
    attempts_max: Positive = Field(description="deliveries of one redeliverable request")
    beat_interval_ms: Positive = Field(description="interval of heartbeats")
    peer_timeout_ms: Positive = Field(description="silence after which a peer is lost")
    listen: Address = Field(
        description="HOST:PORT for workers on other hosts, by CURVE; port 0: any free one; empty: none"
    )


def build_models() -> None:
    """Compile the checks of every configuration model, which is else done at its first use.

    For a process from which others are forked: whoever compiles one later writes to pages that all share.
    """
    models = deque(BaseModel.__subclasses__())
    while models:  # in the order in which they were made: what stands in another one is shared by it
        models += (model := models.popleft()).__subclasses__()
        model.model_rebuild()
