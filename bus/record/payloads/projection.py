"""Stream `ho2_context_authority`: what a turn's projection was made of.

Which kind of overlay it is says the entry's type, which session and which turn its provenance.

Intents and orders are named by what follows the session's id in theirs: `001` of `INT-<session>-001`, `3.2.1` of
`WO-<session>-3.2.1`.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

Mode = Literal["shadow", "enforce"]


class ProjectionComputed(NamedTuple):
    """PROJECTION_COMPUTED: a turn's projection."""

    mode: Annotated[Mode, Meta(description="enforce: the model was shown it; shadow: it was only computed")]
    timestamp: Annotated[str, Meta(description="the turn's event time; ISO 8601, UTC")]
    token_budget: Annotated[int, Meta(description="tokens that it may take")]
    tokens_used: Annotated[int, Meta(description="tokens that it takes, by the estimate of section attention")]
    fragment_count: Annotated[int, Meta(description="intents, orders and memory lines in it")]
    context_hash: Annotated[bytes, Meta(description="SHA-256 of its text")]
    ruleset_hash: Annotated[str, Meta(description="`sha256:<64 hex>` of the rules of intents and projection")]
    active_intents: Annotated[tuple[str, ...], Meta(description="as the turn went on")] = ()
    open_work_orders: Annotated[tuple[str, ...], Meta(description="dispatched, and without an end")] = ()
    failed_items: Annotated[tuple[str, ...], Meta(description="orders that failed, the newest last")] = ()
    escalations: Annotated[tuple[str, ...], Meta(description="those of them whose answer was not good enough")] = ()
    ho3_artifacts_injected: Annotated[tuple[str, ...], Meta(description="`ART-…` of each memory line")] = ()


class ShadowCompare(NamedTuple):
    """PROJECTION_SHADOW_COMPARE: a projection in shadow mode, beside the context in use."""

    shown_hash: Annotated[bytes, Meta(description="SHA-256 of the context that was shown: body 1")]
    projected_hash: Annotated[bytes, Meta(description="SHA-256 of the projection: body 2")]
    shown_tokens: Annotated[int, Meta(description="of the context, by the estimate of section attention")]
    projected_tokens: Annotated[int, Meta(description="of the projection")]
    only_shown: Annotated[tuple[str, ...], Meta(description="source ids of fragments that the projection has not")] = ()
    only_projected: Annotated[tuple[str, ...], Meta(description="of those that the context has not")] = ()
