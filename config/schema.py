"""The shape of `admin_config.json`: the one source of every threshold, time-out, retry count, window, limit and budget.

Frozen models that reject unknown keys. No field has a default: a missing value is a start-up error naming its path.
Units stand last in names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from hobus.bus.settings import BusSettings, LedgerClientSettings, NonNegative, Positive, Section
from hobus.config.secret_refs import is_secret_ref

PositiveFloat = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class SearchConfig(Section):
    """Search of the record by words."""

    enabled: bool = Field(description="false: no text is indexed, what was is removed, and nothing can be searched")
    text_max_bytes: Positive = Field(description="of one text so much is searched, from its beginning")
    query_max_chars: Positive = Field(
        description="of a question so much is looked at: of a longer one its beginning and its end"
    )
    words_max: Positive = Field(
        description="different words of a question; streams and types that it may name, of each"
    )
    postings_max: Positive = Field(
        description="texts that are looked at for a question: of its words the rarest are looked for, as many as stand "
        "in so many texts together, and one at least, in its newest so many; the others count in scores alone"
    )
    hits_max: Positive = Field(description="texts of an answer, and texts whose scores are compared")
    excerpt_chars: Positive = Field(description="of a text that is found, around the first of the words")
    wait_ms: NonNegative = Field(
        description="a question waits so long for entries that are not indexed yet, then says how far it saw"
    )


class LedgerConfig(LedgerClientSettings):
    """The record."""

    segment_bytes: Positive = Field(description="size of one file of the record")
    reserve_bytes: NonNegative = Field(description="kept free on the disk beside one segment")
    zero_fill_chunk_bytes: Positive = Field(description="how much of a segment is zero-filled ahead at once")
    entry_max_bytes: Positive = Field(description="one entry without its bodies")
    bodies_max_bytes: Positive = Field(description="bodies of one entry together; with the entry they must fit a reply")
    read_bytes_max: Positive = Field(description="a page of entries ends here, though one entry is always given")
    read_entries_max: Positive = Field(
        description="most entries of a page, whatever was asked for: nobody else is answered while one is made"
    )
    outstanding_max: Positive = Field(description="unacknowledged writes before `busy`")
    outstanding_max_bytes: Positive = Field(description="the same in bytes of their bodies; any one write is taken")
    index_interval_ms: Positive = Field(description="how far the index may trail the record")
    known_filter_bytes: Positive = Field(
        description="memory for what is known of ids without asking the index: two bytes per entry keep nearly all "
        "new ids from being looked up; with less, more of them are"
    )
    principal_tails_max: Positive = Field(
        description="long polls of one principal (a client's process with all its connections) that wait at once"
    )
    denied_interval_ms: Positive = Field(description="how often what was denied is recorded, in batches")
    denied_max: Positive = Field(description="different denials kept for one such interval; the rest is a number")
    spool_retry_ms: Positive = Field(
        description="pause before records that the ledger could not take (its disk is full) are handed over again"
    )
    search: SearchConfig = Field(description="texts found by their words (docs/ledger.md, Search)")


class ModelConfig(Section):
    """One model of a provider; price per million tokens, null when unknown."""

    model_id: str = Field(description="name by which routes and the provider know it")
    input_usd_per_million: float | None = Field(
        description="price of prompt tokens; null: unknown, and reported as unknown"
    )
    output_usd_per_million: float | None = Field(description="price of answer tokens; null: unknown")
    cached_usd_per_million: float | None = Field(
        description="price of prompt tokens from the cache of the provider; null: unknown"
    )


def _plain_address(url: str) -> str:
    """An address of a server, and nothing secret in it. Raises ValueError, which repeats nothing of it."""
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
    """A reference to a secret, or none. Raises ValueError, which repeats nothing of what stands there."""
    if text is not None and not is_secret_ref(text):
        raise ValueError("must be `env:NAME`, `file:PATH` or null, and never the key itself")
    return text


BaseUrl = Annotated[str, AfterValidator(_plain_address)]
KeyReference = Annotated[str | None, AfterValidator(_reference)]


class ProviderConfig(Section):
    """What every provider instance has, whatever serves it."""

    models: list[ModelConfig] = Field(description="models that may be asked for, with their prices")
    any_model: bool = Field(description="a model outside `models` is asked for too, at an unknown price")
    concurrency_max: Positive = Field(description="calls in flight to this instance")


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
        description="how a request names the cap of the answer: OpenAI takes the first, most other servers the second"
    )
    structured: Literal["json_schema", "json_object", "none"] = Field(
        description="how a request asks for a schema: as OpenAI, as `json_object` with the schema beside it, not at all"
    )
    omit: list[Literal["temperature", "reasoning_effort", "stream_options"]] = Field(
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


def _whole_path(path: str) -> str:
    """A path that means the same wherever a process stands. Raises ValueError."""
    if not path.startswith(("/", "~")):
        raise ValueError("must be an absolute path, or one that begins with `~`")
    return path


class TokenizerConfig(Route):
    """A model's own tokenizer: by it a prompt is counted before it is sent."""

    file: Annotated[str, AfterValidator(_whole_path)] = Field(
        description="the model's `tokenizer.json` on this machine, a whole path; nothing is downloaded"
    )
    message_tokens: NonNegative = Field(
        description="an estimate of what the model's chat template puts around each message, tool call and offered "
        "tool, and before the answer"
    )


class BreakerConfig(Section):
    """When a provider's model is left alone; only faults of the provider count."""

    failures: Positive = Field(description="faults in a row that open it")
    open_ms: Positive = Field(description="open, nothing is sent for so long; then it is probed")
    probes: Positive = Field(description="half open, calls at a time; as many successes close it, one fault opens it")
    probe_retry_ms: Positive = Field(description="when who finds all probes taken may ask again")
    silence_ms: Positive = Field(
        description="no whole answer within a call's time is the provider's fault if that was so long; where a caller "
        "takes it back before its turn is due, only silence of so long is"
    )


class Fallback(Route):
    """What is asked when a model's provider fails."""

    routes: list[Route] = Field(min_length=1, description="asked one after the other, the first that answers counts")


class RateConfig(Section):
    """A token bucket for requests and one for tokens."""

    requests_per_minute: Positive | None = Field(description="calls; null: any number")
    requests_burst: Positive = Field(description="of these, so many at once")
    tokens_per_minute: Positive | None = Field(description="prompt and answer of calls, tokens; null: any number")
    tokens_burst: Positive = Field(description="of these, so many at once; a larger call waits until so many are there")


class GatewayConfig(Section):
    """The only door to a model."""

    slots: Positive = Field(description="prompts at once; more wait in the broker")
    providers: dict[str, AnyProvider] = Field(description="provider instances by id")
    default_route: Route = Field(description="where a prompt goes that names no provider and has no routed tag")
    domain_tag_routes: dict[str, Route] = Field(
        description="domain tag -> route; the first tag of a prompt that has one wins"
    )
    profiles: dict[str, Profile] = Field(description="named settings of a provider, for sessions and runs to choose")
    fallbacks: list[Fallback] = Field(description="which models are asked after one whose provider is at fault")
    fallback_reserve_ms: Positive = Field(description="kept of a call's time for each model that may still be asked")
    tokenizers: list[TokenizerConfig] = Field(
        description="models whose prompts are counted by their own tokenizer; any other by attention.chars_per_token"
    )
    tokenizer_max_chars: Positive = Field(
        description="a longer prompt is estimated by attention.chars_per_token, whatever its model has"
    )
    provider_rates: dict[str, RateConfig] = Field(description="rate limits by provider id; one not named has none")
    session_rate: RateConfig | None = Field(description="rate limits of each session; null: none")
    on_rate_limit: Literal["wait", "refuse"] = Field(
        description="over a rate limit: wait within the call's time, or refuse with the time to come back"
    )
    attempts_max: Positive = Field(description="sends of one prompt to one model of its chain")
    backoff_min_ms: Positive = Field(description="pause before the second attempt; doubles, with jitter")
    backoff_max_ms: Positive = Field(description="cap of that pause")
    request_timeout_ms: Positive = Field(description="longest wait for one answer of a provider")
    connect_timeout_ms: Positive = Field(description="until a connection to a provider stands")
    answer_max_bytes: Positive = Field(
        description="an answer that comes whole; a longer one is given up (it is read at once, while nobody has a turn)"
    )
    stream_max_bytes: Positive = Field(description="an answer that comes in pieces, with all that is around them")
    event_max_bytes: Positive = Field(description="one line of such an answer")
    error_max_bytes: Positive = Field(description="read of an answer that says an error; the rest is left")
    breaker: BreakerConfig = Field(description="one circuit breaker per provider and model")
    key_max_chars: Positive = Field(description="key of a call: it stands in ids of the record, with names around it")
    said_max_chars: Positive = Field(description="a provider's own words in a fault; the rest is cut")
    message_max_chars: Positive = Field(description="a fault's words in the record; the rest is cut")
    output_errors_max: Positive = Field(description="faults named of an answer that breaks its schema")
    reply_reserve_ms: NonNegative = Field(description="kept of a caller's deadline for recording and answering")
    recent_calls_max: Positive = Field(description="answered calls remembered in memory; older ones are in the record")
    stream_interval_ms: NonNegative = Field(
        description="a call's deltas leave at most once per so long; 0: each at once"
    )
    rebuild_page: Positive = Field(description="entries per read when budgets are rebuilt at start")
    snapshot_entries: Positive = Field(
        description="after so many entries of `prompts`, or as many as there are budgets, these are recorded"
    )
    spool_after_ms: Positive = Field(description="silence of the ledger after which unconditional records are spooled")
    on_ledger_outage: Literal["spool", "refuse"] = Field(
        description="spool: answer degraded calls and hand their records over later; refuse: answer nothing unrecorded"
    )
    on_unknown_outcome: Literal["resend", "fail"] = Field(
        description="a call that a crash left without an end: send it again, or fail it"
    )


class BudgetConfig(Section):
    """Every budget, in tokens unless the name says otherwise."""

    session_token_limit: Positive = Field(description="all calls of one session")
    classify_budget: Positive = Field(description="prompt and answer of a classify order")
    synthesize_budget: Positive = Field(description="prompt and answer of a synthesize order")
    projection_budget: Positive = Field(description="projected context of a turn")
    consolidation_budget: Positive = Field(description="prompt and answer of a consolidate order")
    ho3_bias_budget: Positive = Field(description="memory lines of a turn")
    history_budget: Positive = Field(description="earlier turns in a prompt")
    followup_min_remaining: NonNegative = Field(
        description="a further model round starts only with this much of the budget left"
    )
    agent_token_limit: Positive = Field(description="all calls of one agent")
    provider_token_limit: Positive = Field(description="all calls to one provider")
    budget_mode: Literal["enforce", "warn", "off"] = Field(
        description="enforce: refuse; warn: record a warning and go on; off: record only"
    )
    turn_limit: Positive = Field(description="model rounds of one run")
    timeout_seconds: Positive = Field(description="the longest life of one run")


class ProjectionConfig(Section):
    """Which context feeds the model."""

    mode: Literal["off", "shadow", "enforce"] = Field(
        description="enforce: prompts show the projection; shadow: it is computed, and recorded beside what they show; "
        "off: neither"
    )


class AttentionConfig(Section):
    """Context assembly."""

    chars_per_token: Positive = Field(description="the token estimate: characters divided by this")
    cache_ttl_s: Positive = Field(description="a context assembled for the same order is used again for so long")
    cache_max: Positive = Field(description="assembled contexts that a supervisor keeps; then the oldest goes")
    required_file_max_bytes: Positive = Field(description="of a file that a contract requires, so much is read")
    required_queries_max: NonNegative = Field(
        description="questions of an assembly where no template applies: for what the contract requires"
    )
    required_timeout_ms: Positive = Field(description="wall time of such an assembly")
    stages_max: Positive = Field(description="stages of one template: each turn records what became of each of them")
    queries_max: NonNegative = Field(description="the most that a template may state as max_queries")
    timeout_max_ms: Positive = Field(description="the most that a template may state as timeout_ms")
    entries_max: Positive = Field(description="the most that a ledger_query may state as max_entries")
    pages_max: Positive = Field(description="pages of the record that one ledger_query looks through in a turn")
    results_max: Positive = Field(description="the most that a horizontal_search may state as max_results")


class ClassifyLabels(Section):
    """The closed vocabulary of classification."""

    domain: list[str] = Field(description="what a message is about")
    task: list[str] = Field(description="what it asks for")


class SessionsConfig(Section):
    """Sessions and their reducer."""

    max_in_flight_effects: Positive = Field(description="orders of one session in flight at once")
    applied_commands_max: Positive = Field(description="command ids that a session remembers against repeats")
    journal_page: Positive = Field(description="entries per read of a journal")
    pending_max: Positive = Field(description="steers, and follow-ups, that wait in one session; more are rejected")
    known_max: Positive = Field(
        description="inputs, and commands, whose outcome its owner keeps in memory; older ones are looked up"
    )
    snapshot_entries: Positive = Field(description="entries after which an idle session's state is recorded anew")
    lease_ttl_s: Positive = Field(description="of a run whose requester asked for a lease: from a renewal to its end")
    lease_heartbeat_timeout_s: Positive = Field(description="silence of such a requester after which its run ends")
    follow_up_timeout_ms: Positive = Field(description="deadline of a run that a follow-up starts")
    caller_tools_max: Positive = Field(description="tools of the caller that a turn may bring along")
    caller_tools_max_bytes: Positive = Field(
        description="their names, descriptions and schemas together; each model call of the turn carries them"
    )
    output_schema_max_bytes: Positive = Field(
        description="schema of an answer, as JSON; each model call of the turn carries it twice, once in words"
    )
    output_schema_depth_max: Positive = Field(description="levels of such a schema: objects and lists in one another")
    command_max_bytes: Positive = Field(description="a command without a text: its reason and the ids that it names")
    cancel_grace_ms: Positive = Field(description="how long a cancelled run waits for what its open calls became")
    cancel_poll_ms: Positive = Field(description="how often it asks the record for that meanwhile")


class QualityGateConfig(Section):
    """Acceptance of an answer."""

    max_retries: NonNegative = Field(description="further tries after a rejected answer")
    requires_response_text: bool = Field(description="a blank answer is rejected")
    min_response_length: NonNegative = Field(description="characters; a shorter answer is rejected")


class McpServerSettings(Section):
    """What every MCP server has, however it is reached."""

    tools: list[str] | None = Field(description="tools of it that are taken, by its names for them; null: all")
    reads: list[str] = Field(
        description="of these, those that change nothing (`*`: all): any other is held to write, whatever it says"
    )
    idempotent: list[str] = Field(
        description="those that may run twice after a crash (`*`: all); what only reads may in any case"
    )
    connect_timeout_ms: Positive = Field(description="until it is started, has said who it is and listed its tools")
    elsewhere: bool = Field(description="also for workers on other hosts; false: for those beside the record alone")


class StdioServer(McpServerSettings):
    """An MCP server that each worker starts as a process of its own."""

    transport: Literal["stdio"] = Field(description="frames over its standard input and output")
    command: list[str] = Field(min_length=1, description="program and arguments; no shell")
    env: dict[str, str] = Field(
        description="its environment beside PATH, HOME, LANG and the like; a secret as `env:NAME` or `file:PATH`"
    )


class HttpServer(McpServerSettings):
    """An MCP server that runs by itself somewhere."""

    transport: Literal["http"] = Field(description="streamable HTTP")
    url: str = Field(description="its endpoint")
    headers: dict[str, str] = Field(description="sent with every request; a secret as `env:NAME` or `file:PATH`")


class McpProfile(McpServerSettings):
    """What a server of a pasted `mcpServers` block is given, beside how it is reached."""


McpServerConfig = Annotated[StdioServer | HttpServer, Field(discriminator="transport")]


class ToolLimits(Section):
    """What a process that runs foreign code, and each that it starts, may use of the machine; null: as the user may."""

    core_bytes: NonNegative | None = Field(description="of a dump of its memory when it crashes; 0: none")
    open_files: Positive | None = Field(description="open at once")
    file_bytes: Positive | None = Field(description="of one file that it writes")
    memory_bytes: Positive | None = Field(
        description="that it may write to; what is only reserved is not counted (RLIMIT_DATA)"
    )
    processes: Positive | None = Field(description="of this user on this machine, beyond which it starts none")


class ToolsConfig(Section):
    """Tools and their limits."""

    children: Positive = Field(description="pre-forked tool processes per worker")
    timeout_ms: Positive = Field(description="one call; then its process is killed")
    output_max_bytes: Positive = Field(description="more output is cut, and the cut is said")
    said_max_bytes: Positive = Field(
        description="kept of what a call's tool prints, and of the traceback of what it raises: both ends of each; log "
        "and record have them, for people, and no model is told"
    )
    leftovers_max: NonNegative = Field(
        description="calls of one tool process that may have left a program or a thread which still could print; with "
        "more of them the process is ended, and all of that with it"
    )
    approval: list[str] = Field(
        description="tool ids, shell patterns allowed, whose calls wait for an operator's approval"
    )
    kill_grace_ms: NonNegative = Field(description="between asking a tool process to end and killing it")
    entry_points: list[str] = Field(
        description="tools of installed Python packages, by their names in the group `hobus.tools`; no other is loaded"
    )
    environment: list[str] = Field(
        description="variables that tool processes get besides launcher.environment, shell patterns allowed; every "
        "Python tool sees them all, an MCP server none (it has its own `env`)"
    )
    limits: ToolLimits = Field(description="of each process that runs foreign code, and of what it starts")
    mcp_servers: dict[str, McpServerConfig] = Field(
        description="MCP servers by name; their tools are called `<name>__<tool>`"
    )
    mcp_profiles: dict[str, McpProfile] = Field(
        description="what a server of a pasted `mcpServers` block gets besides, by name; it may say any of it itself"
    )
    mcp_profile: str = Field(description="of these, the one of a pasted server that names none")
    reconnect_min_ms: Positive = Field(description="pause before an MCP server is tried again; doubles, with jitter")
    reconnect_max_ms: Positive = Field(description="cap of that pause")
    listed_max: Positive = Field(description="tools of one MCP server; what it lists beyond is not taken")
    definition_max_bytes: Positive = Field(description="description and schema of one tool; a larger one is not taken")
    message_max_bytes: Positive = Field(description="one message of an MCP server; a longer one ends the connection")
    errors_max_bytes: Positive = Field(description="kept of what an MCP server says on its error output: the end of it")


class LauncherConfig(Section):
    """Processes."""

    ready_timeout_ms: Positive = Field(description="`up` gives up on a cluster that is not ready by then")
    environment: list[str] = Field(
        description="variables of the user's environment that every process is started with, shell patterns allowed; "
        "no other process has any other, but for what the configuration refers to as `env:NAME`"
    )
    processes_max: Positive = Field(
        description="processes of a cluster on this machine; a start, a scale or a configuration with more is refused"
    )
    starting_max: Positive = Field(
        description="processes that are starting at once; further ones are begun as these get ready, or after "
        "ready_timeout_ms"
    )
    start_method: Literal["fork", "spawn"] = Field(
        description="fork: from the preloaded zygote, where the system has what it needs; spawn: fresh interpreters"
    )
    fork_timeout_ms: Positive = Field(description="a zygote silent this long, with an order to answer, is replaced")
    fork_attempts_max: Positive = Field(
        description="zygotes that are asked for one process (its own, its heir, one loaded anew); then it is spawned"
    )
    fork_poll_ms: Positive = Field(description="how often the launcher looks whether the last zygote's processes ended")
    restart_first_ms: NonNegative = Field(description="pause before the restart of a process that was healthy; 0: none")
    restart_backoff_min_ms: Positive = Field(description="pause before the second in a row; doubles, with jitter")
    restart_backoff_max_ms: Positive = Field(
        description="cap of that pause; below bus.service_grace_ms, so that what waits for the process outlasts it"
    )
    healthy_after_ms: Positive = Field(description="a process that lived this long starts its back-off anew")
    crash_budget: Positive = Field(description="crashes within crash_window_ms after which a process is failed")
    crash_window_ms: Positive = Field(description="window of crash_budget")
    stuck_after_ms: Positive = Field(description="a process without a beat this long is killed and restarted")
    drain_ms: Positive = Field(description="per process, then it is killed")
    drain_share: Share = Field(
        description="of it, this share is a process's own: one that cannot finish still says what it gave back"
    )
    finish_ms: Positive = Field(description="how long a process that a command ends may finish its work before")
    orphan_drain_s: PositiveFloat = Field(description="how long orphans may finish runs when the launcher is gone")
    start_crashes: Positive = Field(description="crashes in a row before its first readiness after which up says so")
    log_max_bytes: Positive = Field(description="a larger log is moved aside; one older file of each is kept")
    log_tail_lines: Positive = Field(description="last lines of a log that a failure shows")
    watch_interval_ms: Positive = Field(description="how often the launcher asks the broker how everybody is")
    ready_poll_ms: Positive = Field(description="the same, as long as something is starting or draining")
    orphan_poll_ms: Positive = Field(description="how often a process without a launcher asks who still needs it")
    client_timeout_ms: Positive = Field(description="how long a command waits for the cluster's own services")
    journal_poll_ms: Positive = Field(description="how often a command that waits for a turn reads how that stands")
    command_poll_ms: Positive = Field(description="how often a command looks whether the launcher has done its word")
    tap_poll_ms: Positive = Field(description="how often `hobus tap` looks whether the cluster is still there")
    chat_history_lines: NonNegative = Field(description="typed lines that `hobus chat` remembers in its home; 0: none")


class Ho1Config(Section):
    """Executors."""

    count: Positive = Field(description="executors that `hobus up` starts")
    slots: Positive = Field(description="orders at once per executor")
    repair_calls_max: NonNegative = Field(description="further calls after an answer that breaks its schema")
    retry_interval_ms: Positive = Field(description="between tries of a gateway request that may be retried")
    gateway_wait_ms: Positive = Field(description="an order fails when there is no gateway for so long")
    end_reserve_ms: Positive = Field(description="kept of an order's deadline for its end record and the receipt")
    snapshots_kept: Positive = Field(description="configurations of other digests kept per process")
    file_max_bytes: Positive = Field(
        description="of a file that is read for a context, at most so much, from its beginning"
    )


class Ho2Config(Section):
    """Supervisors."""

    count: Positive = Field(description="supervisors that `hobus up` starts")
    runs_max: Positive = Field(description="runs at once per instance; beyond it `busy`, but for who has none there")
    principal_step_rate: Positive = Field(
        description="steps that runs of one client begin in a second beside another of its own, while others ask, too"
    )
    principal_step_burst: Positive = Field(description="of these, so many may have been saved up")
    principal_runs_max: Positive = Field(
        description="of these, runs of one client at work at once; its further ones wait their turn"
    )
    classify: bool = Field(description="a turn begins with a classification call; false: one call less, and no labels")
    classify_timeout_ms: Positive = Field(description="classification; a turn goes on without it")
    order_timeout_ms: Positive = Field(description="any other order")
    order_attempts_max: Positive = Field(description="sends of one order by a run")
    order_retry_interval_ms: Positive = Field(description="between two sends of one order, so that `busy` can pass")
    standstill_poll_ms: Positive = Field(
        description="who waits for a run that stands still asks again after this, and finds its owner if that changed"
    )
    owners_interval_ms: Positive = Field(description="between two looks whether a supervisor is missing")
    owners_entries: Positive = Field(
        description="newest entries of a session that then say whether something is open in it; most turns have fewer"
    )
    takeover_attempts_max: Positive = Field(description="readings of a journal whose head moves meanwhile")
    sessions_max: Positive = Field(description="sessions held in memory; the longest idle one is read again when asked")
    history_turns_max: Positive = Field(description="turns of a session read for its history")
    history_step_turns: Positive = Field(
        description="turns by which the oldest one shown verbatim moves on at once: meanwhile prompts begin alike"
    )
    history_digest_chars: Positive = Field(description="one line for a turn that is no longer shown verbatim")
    reply_reserve_ms: Positive = Field(description="kept of the deadline for recording and replying")


class Ho3Config(Section):
    """Memory. The whole section may be missing: then memory is off, and not one of its code paths runs."""

    enabled: bool = Field(description="false: the same as a missing section")
    memory_dir: str = Field(description="below the home: checkpoints of the derived state, and its spill file")
    gate_mode: Literal["counting", "bistable"] = Field(
        description="counting: all events count; bistable: evidence decays, two thresholds"
    )
    gate_count_threshold: Positive = Field(description="counting: events that cross the gate")
    gate_session_threshold: Positive = Field(description="distinct sessions among them, in both modes")
    gate_principal_threshold: Positive = Field(
        description="distinct principals among them, in both modes, where it is everybody's events that are counted"
    )
    shared_types: list[Literal["topic_affinity", "interaction_style", "task_pattern", "constraint"]] = Field(
        description="artifacts of these types may be made of everybody's events, and then stand in everybody's "
        "prompts; empty: what one principal taught reaches no other"
    )
    gate_window_hours: PositiveFloat = Field(description="a signal is consolidated once per so many hours")
    decay_half_life_hours: PositiveFloat = Field(description="after so long without an event a signal weighs half")
    gate_high: PositiveFloat = Field(description="bistable: evidence at which the gate opens; more never stands")
    gate_low: PositiveFloat = Field(description="bistable: evidence at which it closes again")
    evidence_half_life_hours: PositiveFloat = Field(description="bistable: after so long an event counts half")
    evidence_half_life_sessions: Annotated[float, Field(ge=0)] = Field(
        description="bistable: it also counts half after its principal has begun so many sessions; 0: time alone counts"
    )
    evidence_cap_per_session: PositiveFloat = Field(description="bistable: at most so much evidence from one session")
    require_fresh_evidence: bool = Field(description="an event newer than the last consolidation is needed")
    bias_decay_floor: Share = Field(description="an artifact whose signals weigh less is not injected")
    consolidation_cooldown_hours: PositiveFloat = Field(description="a failed consolidation closes the gate so long")
    gate_excluded_signals: list[str] = Field(description="signals that say nothing alone and never cross")
    log_timeout_ms: Positive = Field(description="a turn waits so long for its signals to be logged")
    read_timeout_ms: Positive = Field(description="a turn waits so long for what it may remember")
    reply_reserve_ms: NonNegative = Field(description="kept of a caller's deadline for the answer's own way")
    rebuild_page: Positive = Field(description="entries per read when the derived state is brought up to date")
    checkpoint_entries: Positive = Field(description="applied entries after which the derived state is checkpointed")
    artifact_scope: Literal["agent", "session", "global"] = Field(description="of what consolidation writes")
    artifact_expiry_hours: PositiveFloat = Field(description="of what consolidation writes, from its crossing")
    context_line_max_chars: Positive = Field(description="a longer learned line is refused")
    reason_max_chars: Positive = Field(description="why an artifact is changed or switched off; longer is refused")
    signals_max: Positive = Field(description="events of one turn that are logged together; more are refused")
    stated_weight: Share = Field(description="weight of what somebody stated; 0: nothing that is stated is learnt")
    stated_in_max_chars: Positive = Field(description="a longer message states nothing: nearly all of it is pasted")
    page_max: Positive = Field(description="lines and ids of an answer; the rest comes in further pages")
    source_events_max: Positive = Field(
        description="newest events that a consolidated artifact names as its source; at least gate_count_threshold"
    )
    known_events_max: Positive = Field(
        description="newest events of an agent whose ids are kept in memory; whose an older one is, the record is asked"
    )
    resident_mb_max: Positive = Field(
        description="of events and artifacts in RAM, in 10^6 bytes; what was not used for longest is put into a file"
    )
    recent_events_max: Positive = Field(description="excerpts that a consolidation is shown, newest first")
    excerpt_max_chars: Positive = Field(description="of one excerpt")
    consolidation_timeout_ms: Positive = Field(description="one consolidation, its model call included")


class HostConfig(Section):
    """The session host."""

    agent_id: str = Field(description="who answers when a client names no agent")
    prompt_max_bytes: Positive = Field(description="a longer message of a user is refused")
    degrade_reserve_ms: Positive = Field(description="kept of a client's deadline for degrading")
    reserve_share_max: Share = Field(
        description="of a client's time, at most this share is kept for degrading, or for saying that a session ended"
    )
    append_reserve_ms: Positive = Field(description="part of it that the stream's decision gets")
    reply_reserve_ms: NonNegative = Field(description="part of it kept for the reply's own way")
    turn_timeout_ms: Positive = Field(description="a client's deadline when it names none")
    retry_interval_ms: Positive = Field(description="between tries of a request that may be retried")
    gateway_wait_ms: Positive = Field(description="degrading is given up when the gateway is not connected for so long")


class HttpConfig(Section):
    """The HTTP door (docs/http.md)."""

    listen: str = Field(description="HOST:PORT; port 0: any free one; empty: no HTTP")
    count: Positive = Field(description="processes that `hobus up` starts, where HTTP is on; they share the port")
    hosts: list[str] = Field(description="names besides its own address by which clients may call it (Host header)")
    origins: list[str] = Field(description="web pages, by their origin, whose scripts may call it; others are refused")
    head_max_bytes: Positive = Field(description="request line and headers; more is refused")
    head_timeout_ms: Positive = Field(description="a connection whose request is not there by then is closed")
    body_max_bytes: Positive = Field(description="of a request; a larger one is refused")
    body_timeout_ms: Positive = Field(description="until the whole of it has come")
    keep_alive_ms: Positive = Field(description="an idle connection is closed after this")
    write_timeout_ms: Positive = Field(description="a client that reads nothing of its answer for so long is cut off")
    connections_max: Positive = Field(description="connections of one process; a further one is refused")
    refusals_max: Positive = Field(
        description="refused connections that have not closed yet; further ones are closed without a word"
    )
    key_turns_max: Positive = Field(description="turns of one key that a process waits for at once; more are `busy`")
    messages_max: Positive = Field(description="messages of a transcript")
    pieces_max: Positive = Field(
        description="pieces of an answer kept for a slow reader; then it gets the rest at once"
    )
    tail_wait_ms: Positive = Field(description="one long poll of the record for those who read events")
    recent_max: Positive = Field(description="events of a session kept for all its readers; older ones are read again")
    keys_interval_ms: Positive = Field(description="keys created or revoked are recorded so soon at the latest")
    ping_ms: Positive = Field(description="silence of a stream after which a comment says that it lives")


class GovernanceConfig(Section):
    """Which packages are believed, and how large one may be."""

    signatures: Literal["dev", "signed"] = Field(
        description="dev: a package has to be signed, by whatever key, and files of the home's own are taken as they "
        "are; signed: only keys of `hobus package trust list` count, and the home has no files of its own but "
        "admin_config.json"
    )
    bundle_max_bytes: Positive = Field(description="one bundle, and all files of one package together")
    file_max_bytes: Positive = Field(description="one file of a package")
    files_max: Positive = Field(description="files of one package")
    entries_max: Positive = Field(
        description="values in one governed file but the settings, those within its lists and objects counted"
    )
    packages_max: Positive = Field(description="packages installed at once")
    trusted_max: Positive = Field(description="keys trusted at once")


class AdminConfig(Section):
    """All of it."""

    bus: BusSettings
    ledger: LedgerConfig
    gateway: GatewayConfig
    budget: BudgetConfig
    projection: ProjectionConfig
    attention: AttentionConfig
    classify_labels: ClassifyLabels
    sessions: SessionsConfig
    quality_gate: QualityGateConfig
    tools: ToolsConfig
    launcher: LauncherConfig
    ho1: Ho1Config
    ho2: Ho2Config
    host: HostConfig
    http: HttpConfig
    governance: GovernanceConfig
    ho3: Ho3Config | None = None

    @property
    def memory(self) -> Ho3Config | None:
        """Section ho3 if memory is on; None when it is missing or says `enabled: false`."""
        return self.ho3 if self.ho3 is not None and self.ho3.enabled else None
