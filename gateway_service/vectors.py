"""Texts as vectors: the call that is made of such a request, and who may be asked. Pure."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hobus.bus.errors import GatewayError
from hobus.bus.messages.base import Count, make_from
from hobus.bus.messages.gateway import Embed, Prompt, PromptMessage
from hobus.bus.messages.work_order import Segment
from hobus.config.sections.gateway import GatewayConfig, Route


class VectorPrompt(Prompt):
    """Messages that are wanted as vectors, as a provider is given them; it never crosses the wire."""

    vector_numbers: Annotated[Count, Meta(description="length of each vector; 0: the model's choice")]


def make_prompt(wanted: Embed) -> VectorPrompt:
    """Return one message a text; its answer has no length of its own, so that one token stands for it."""
    texts = [PromptMessage(role="user", segments=[Segment(text=text)]) for text in wanted.texts]
    return make_from(
        VectorPrompt, wanted, messages=texts, contract_id="", prompt_pack_id="", work_order_id="", max_tokens=1,
        temperature=0.0,
    )  # fmt: skip


def demand_vectors(route: Route, config: GatewayConfig) -> None:
    """Raise GatewayError(MODEL_UNFIT) for a provider that has none; whether a model makes them its server knows."""
    kind = config.providers[route.provider_id].kind
    if kind not in _WITH_VECTORS:
        others = ", ".join(sorted(name for name, one in config.providers.items() if one.kind in _WITH_VECTORS))
        raise GatewayError(
            "MODEL_UNFIT",
            f"provider {route.provider_id} is of kind {kind}, which makes no embeddings: name `PROVIDER/MODEL` of one "
            f"of kind {' or '.join(_WITH_VECTORS)} (configured: {others or 'none'}; hobus provider add)",
        )


_WITH_VECTORS = ("openai", "plugin")
