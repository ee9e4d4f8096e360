"""Section `gateway`: providers and models, the routes and profiles that name them, and what bounds their calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from hobus.bus.settings import NonNegative, Positive, Section
from hobus.config.secret_refs import is_secret_ref


class ModelConfig(Section):
    """One model of a provider; price per million tokens, null when unknown."""

    model_id: str = Field(description="name by which routes and the provider know it")
    sees: bool = Field(description="takes images; another model is told the names of those that tools bring")
    input_usd_per_million: float | None = Field(
        description="price of prompt tokens; null: unknown, and reported as unknown"
    )
    output_usd_per_million: float | None = Field(description="price of answer tokens; null: unknown")
    cached_usd_per_million: float | None = Field(
        description="price of prompt tokens from the cache of the provider; null: unknown"
    )
    context_tokens: Positive | None = Field(
        default=None,
        description="its window: prompt and answer together; null: as its server says, if it does",
    )
    thinks_first: bool = Field(
        default=False,
        description="begins to think without `<think>`, which its template writes: nothing before `</think>` is told",
    )


def _plain_address(url: str) -> str:
    """Return an address of a server with nothing secret in it. Raises ValueError, which repeats nothing of it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("must be http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment; a key goes into `key`")
    if any(char.isspace() or not char.isprintable() for char in url):
        raise ValueError("must hold no blanks")
    return url


def _reference(text: str | None) -> str | None:
    """Return a reference to a secret, or none. Raises ValueError, which repeats nothing of what stands there."""
    if text is not None and not is_secret_ref(text):
        raise ValueError("must be `env:NAME`, `file:PATH` or null, and never the key itself")
    return text


BaseUrl = Annotated[str, AfterValidator(_plain_address)]

KeyReference = Annotated[str | None, AfterValidator(_reference)]


class ProviderConfig(Section):
    """What every provider instance has, whatever serves it."""

    models: list[ModelConfig] = Field(description="models that may be asked for, with their prices")
    any_model: bool = Field(description="a model outside `models` is asked for too, at an unknown price")
    concurrency_max: Positive | None = Field(
        description="calls at once, more wait; null: until it refuses (429, overload)"
    )


class OfflineProviderConfig(ProviderConfig):
    """The embedded rules: no key, no network."""

    kind: Literal["offline"] = Field(description="`offline`: the embedded rules; docs/providers.md describes each kind")
    latency_ms: NonNegative = Field(description="simulated thinking time")


class OpenAIProvider(ProviderConfig):
    """OpenAI, or any server that speaks its chat completions."""

    kind: Literal["openai"] = Field(description="`openai`: chat completions, by the official SDK (`hobus[openai]`)")
    base_url: BaseUrl = Field(description="the address before `/chat/completions`")
    key: KeyReference = Field(description="`env:NAME` or `file:PATH` (mode 0600); null: the server asks for none")
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        description="how a request names the cap of the answer"
    )
    structured: Literal["json_schema", "json_object", "none"] = Field(
        description="how a request asks for a schema, or not at all"
    )
    omit: list[Literal["temperature", "reasoning_effort", "stream_options", "text_parts"]] = Field(
        description="parts of a request that this server, or its models, refuse"
    )


class AnthropicProvider(ProviderConfig):
    """Anthropic, or a server that speaks its messages."""

    kind: Literal["anthropic"] = Field(description="`anthropic`: messages, by the official SDK (`hobus[anthropic]`)")
    base_url: BaseUrl = Field(description="the address before `/v1/messages`")
    key: KeyReference = Field(description="`env:NAME` or `file:PATH` (mode 0600); null: the server asks for none")
    structured: Literal["json_schema", "none"] = Field(description="how a request asks for a schema, or not at all")
    omit: list[Literal["temperature", "reasoning_effort"]] = Field(
        description="parts of a request that this server, or its models, refuse"
    )


class PluginProvider(ProviderConfig):
    """A class of an installed package."""

    kind: Literal["plugin"] = Field(description="`plugin`: a class of an installed package")
    entry_point: str = Field(description="its name in the group `hobus.providers`")
    key: KeyReference = Field(description="`env:NAME` or `file:PATH` (mode 0600); null: it is given none")
    options: dict[str, Any] = Field(description="what it is given besides, as it likes")


AnyProvider = Annotated[
    OfflineProviderConfig | OpenAIProvider | AnthropicProvider | PluginProvider, Field(discriminator="kind")
]


class Route(Section):
    """A provider and a model."""

    provider_id: str = Field(description="a key of gateway.providers")
    model_id: str = Field(description="a model of that provider")


class Profile(Section):
    """Named settings of a provider, which a session or a run may choose (`provider_profile_id`)."""

    provider_id: str = Field(description="a key of gateway.providers: whose settings these are")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        description="in place of the contract's; null: the contract's"
    )
    reasoning_effort: Literal["Low", "Medium", "High"] | None = Field(
        description="where the run names none; null: the model's own"
    )
    max_tokens: Positive | None = Field(
        description="cap of an answer, tokens, or a lower one of contract or run; null: none"
    )


class BreakerConfig(Section):
    """When a provider's model is left alone; only faults of the provider count."""

    failures: Positive = Field(description="calls in a row that it failed open it")
    open_ms: Positive = Field(description="open: nothing is sent for so long")
    probes: Positive = Field(description="half open: calls at a time; as many successes close it")
    silence_ms: Positive = Field(
        description="no whole answer within gateway.request_timeout_ms is the provider's fault if that is so long; a "
        "caller's own deadline is not, below half of host.turn_timeout_ms"
    )


class Fallback(Route):
    """What is asked when a model's provider fails."""

    routes: list[Route] = Field(min_length=1, description="asked one after the other, the first that answers counts")


class RateConfig(Section):
    """A token bucket for requests and one for tokens."""

    requests_per_minute: Positive | None = Field(description="calls; null: any number")
    requests_burst: Positive = Field(description="of these, so many at once")
    tokens_per_minute: Positive | None = Field(description="prompt and answer of calls, tokens; null: any number")
    tokens_burst: Positive = Field(description="of these, so many at once")


class GatewayConfig(Section):
    """The only door to a model."""

    providers: dict[str, AnyProvider] = Field(description="provider instances by id")
    default_route: Route = Field(description="of prompts without provider or routed tag")
    domain_tag_routes: dict[str, Route] = Field(description="domain tag -> route; the first tag that has one wins")
    profiles: dict[str, Profile] = Field(description="named settings of a provider, for sessions and runs to choose")
    fallbacks: list[Fallback] = Field(description="which models are asked after one whose provider is at fault")
    fallback_reserve_ms: Positive = Field(description="kept for each model that may still be asked")
    provider_rates: dict[str, RateConfig] = Field(description="rate limits by provider id; one not named has none")
    session_rate: RateConfig | None = Field(description="rate limits of each session; null: none")
    on_rate_limit: Literal["wait", "refuse"] = Field(
        description="over a rate limit: wait, or refuse with the time to come back"
    )
    attempts_max: Positive = Field(description="sends of one prompt to one model of its chain")
    outage_wait_ms: NonNegative = Field(
        description="a call without a fallback waits so long for a provider that is away; 0: fails at once"
    )
    request_timeout_ms: Positive = Field(description="longest wait for an answer that comes whole")
    stream_silence_ms: Positive = Field(
        description="longest silence of a streaming provider, also before the first piece"
    )
    breaker: BreakerConfig = Field(description="one circuit breaker per provider and model")
    on_ledger_outage: Literal["spool", "refuse"] = Field(
        description="spool: answer degraded calls, record them later; refuse: answer nothing unrecorded"
    )
    on_unknown_outcome: Literal["resend", "fail"] = Field(
        description="a call that a crash left without an end: send it again, or fail it"
    )

    def row(self, provider_id: str, model_id: str) -> ModelConfig | None:
        """Return what the configuration says of the model, its prices and its window; None: nothing."""
        instance = self.providers.get(provider_id)
        return next((row for row in instance.models if row.model_id == model_id), None) if instance else None
