"""Section `gateway`: providers and models, the routes and profiles that name them, and what bounds their calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from hobus.bus.settings import NonNegative, Positive, Section
from hobus.config.secret_refs import Id, is_secret_ref


class ModelConfig(Section):
    """One model of a provider; price per million tokens, null when unknown."""

    model_id: str = Field(description="its name, for routes and the provider")
    sees: bool = Field(description="takes images; another model reads only their names")
    input_usd_per_million: float | None = Field(description="price of prompt tokens; null: unknown")
    output_usd_per_million: float | None = Field(description="price of answer tokens; null: unknown")
    cached_usd_per_million: float | None = Field(description="price of cached prompt tokens; null: unknown")
    context_tokens: Positive | None = Field(
        default=None,
        description="its window, prompt and answer together; null: what its server says, if anything",
    )
    thinks_first: bool = Field(
        default=False,
        description="its template writes `<think>`, so the answer begins with thinking: nothing before "
        "`</think>` streams",
    )


def _check_address(url: str) -> str:
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


def _check_reference(text: str | None) -> str | None:
    """Return a reference to a secret, or none. Raises ValueError, which repeats nothing of what stands there."""
    if text is not None and not is_secret_ref(text):
        raise ValueError("must be `env:NAME`, `file:PATH` or null, and never the key itself")
    return text


BaseUrl = Annotated[str, AfterValidator(_check_address)]

KeyReference = Annotated[str | None, AfterValidator(_check_reference)]


class ProviderConfig(Section):
    """What every provider instance has, whatever serves it."""

    models: list[ModelConfig] = Field(description="models to offer, with their prices")
    any_model: bool = Field(description="allow models outside `models`, at an unknown price")
    concurrency_max: Positive | None = Field(
        description="calls at once; null: adaptive, lowered when it refuses (429, overload)"
    )


class OfflineProviderConfig(ProviderConfig):
    """The embedded rules: no key, no network."""

    kind: Literal["offline"] = Field(description="`offline`: the embedded rules; docs/providers.md describes each kind")
    latency_ms: NonNegative = Field(description="simulated thinking time")


class OpenAIProvider(ProviderConfig):
    """OpenAI, or any server that speaks its chat completions."""

    kind: Literal["openai"] = Field(description="`openai`: chat completions, by the official SDK (`hobus[openai]`)")
    base_url: BaseUrl = Field(description="the address before `/chat/completions`")
    key: KeyReference = Field(description="`env:NAME` or `file:PATH` (mode 0600); null: none")
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        description="a request's field for the longest answer"
    )
    structured: Literal["json_schema", "json_object", "none"] = Field(
        description="how a request passes a schema, if at all"
    )
    omit: list[Literal["temperature", "reasoning_effort", "stream_options", "text_parts"]] = Field(
        description="parts of a request that this server or its models refuse"
    )


class AnthropicProvider(ProviderConfig):
    """Anthropic, or a server that speaks its messages."""

    kind: Literal["anthropic"] = Field(description="`anthropic`: messages, by the official SDK (`hobus[anthropic]`)")
    base_url: BaseUrl = Field(description="the address before `/v1/messages`")
    key: KeyReference = Field(description="`env:NAME` or `file:PATH` (mode 0600); null: none")
    structured: Literal["json_schema", "none"] = Field(description="how a request passes a schema, if at all")
    omit: list[Literal["temperature", "reasoning_effort"]] = Field(
        description="parts of a request that this server or its models refuse"
    )


class PluginProvider(ProviderConfig):
    """A class of an installed package."""

    kind: Literal["plugin"] = Field(description="`plugin`: a class of an installed package")
    entry_point: str = Field(description="its name in the group `hobus.providers`")
    key: KeyReference = Field(description="`env:NAME` or `file:PATH` (mode 0600); null: none")
    options: dict[str, Any] = Field(description="further arguments of the class")


AnyProvider = Annotated[
    OfflineProviderConfig | OpenAIProvider | AnthropicProvider | PluginProvider, Field(discriminator="kind")
]


class Route(Section):
    """A provider and a model."""

    provider_id: str = Field(description="a key of gateway.providers")
    model_id: str = Field(description="a model of that provider")


class Profile(Section):
    """Named settings of a provider, which a session or a run may choose (`provider_profile_id`)."""

    provider_id: str = Field(description="a key of gateway.providers")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        description="replaces the contract's; null: the contract's"
    )
    reasoning_effort: Literal["Low", "Medium", "High"] | None = Field(
        description="if the run names none; null: the model's own"
    )
    max_tokens: Positive | None = Field(description="longest answer, unless contract or run says less; null: no limit")


class BreakerConfig(Section):
    """When a provider's model is left alone; only faults of the provider count."""

    failures: Positive = Field(description="failed calls in a row that open it")
    open_ms: Positive = Field(description="how long it stays open, without calls")
    probes: Positive = Field(description="test calls at once when half open; as many successes close it")
    silence_ms: Positive = Field(
        description="a time-out counts as the provider's failure if gateway.request_timeout_ms is at "
        "least this; a caller's deadline counts from half of host.turn_timeout_ms"
    )


class Fallback(Route):
    """What is asked when a model's provider fails."""

    routes: list[Route] = Field(min_length=1, description="asked in order until one answers")


class RateConfig(Section):
    """A token bucket for requests and one for tokens."""

    requests_per_minute: Positive | None = Field(description="calls; null: any number")
    requests_burst: Positive = Field(description="most of these at once")
    tokens_per_minute: Positive | None = Field(description="tokens of prompts and answers; null: any number")
    tokens_burst: Positive = Field(description="most of these at once")


class GatewayConfig(Section):
    """The one process that calls models."""

    providers: dict[Id, AnyProvider] = Field(description="provider instances by id")
    default_route: Route = Field(description="the route of prompts without provider or routed tag")
    domain_tag_routes: dict[str, Route] = Field(description="domain tag -> route; the first tag that has one wins")
    profiles: dict[Id, Profile] = Field(description="named settings of a provider, for sessions and runs to choose")
    fallbacks: list[Fallback] = Field(description="models to ask when another one's provider fails")
    fallback_reserve_ms: Positive = Field(description="time kept for each remaining fallback")
    provider_rates: dict[str, RateConfig] = Field(description="rate limits by provider id; others have none")
    session_rate: RateConfig | None = Field(description="rate limits of each session; null: none")
    on_rate_limit: Literal["wait", "refuse"] = Field(
        description="over a rate limit: wait, or refuse with a time to retry"
    )
    attempts_max: Positive = Field(description="attempts of one prompt per model")
    outage_wait_ms: NonNegative = Field(
        description="how long a call without fallback waits for an unavailable provider; 0: not at all"
    )
    request_timeout_ms: Positive = Field(description="longest wait for an answer that does not stream")
    stream_silence_ms: Positive = Field(description="longest silence of a stream, also before its first piece")
    breaker: BreakerConfig = Field(description="one circuit breaker per provider and model")
    on_ledger_outage: Literal["spool", "refuse"] = Field(
        description="degraded calls without the ledger: spool answers and records later, refuse does not answer"
    )
    on_unknown_outcome: Literal["resend", "fail"] = Field(
        description="a call whose end a crash lost: resend it, or fail"
    )

    def row(self, provider_id: str, model_id: str) -> ModelConfig | None:
        """Return what the configuration says of the model, its prices and its window; None: nothing."""
        instance = self.providers.get(provider_id)
        for row in instance.models if instance else ():
            if row.model_id == model_id:
                return row
        return None
