"""Safety bounds of a gateway that no configuration has a reason to change: what they bound costs memory alone."""

ARGUMENTS_MAX_CHARS = 256 * 1024
"""Of one tool call, some 64,000 tokens: its order carries them, and every later round of its turn."""
WRITTEN_MAX_CHARS = 2000
"""Of arguments that are no JSON, given back to the model that wrote them; the rest is cut."""

CONNECT_TIMEOUT_MS = 5000
"""Until a connection to a provider stands: a server that is there answers within a round trip or two."""
LIST_WAIT_MS = 1000
"""The first calls to a provider wait so long for its list of models, which says their windows; then it comes beside."""
CONNECTION_IDLE_S = 4
"""An idle connection to a provider is closed then: servers close theirs after five, also under a request."""
SENDS_MAX = 3
"""Connections that are tried for one request, where kept ones turn out to be closed."""
HEADER_MAX_BYTES = 128 * 1024
"""One header of a provider's answer: proxies on the way add theirs."""
HEADERS_MAX = 1000
"""Headers of one answer."""
CALLS_MAX = 4096
"""Orders' prompts at once, and calls that a provider bears: as many as any process takes."""

ANSWER_MIN_TOKENS = 16
"""Where the window leaves less, no answer is asked for: it would be cut in its first words, and paid for."""
ESTIMATE_MARGIN = 8
"""A prompt may be this part longer than its estimate by letters: so much of a window is left free of the answer."""
MESSAGE_TOKENS = 8
"""And so much for each message: what a model's template puts around it."""

REST_MAX_S = 60.0
"""So long at most is a provider left alone that asks for more: its operator may have mended what it was about."""

FIRST_WINDOW = 32
"""Calls that a provider gets at once when it is back; they double with each round that it answers."""

FRAMES_PER_S = 400
"""Pieces of all answers together: each costs all processes on its way about half a millisecond of a processor."""

HISTORIES_MAX_CHARS = 32 * 1024 * 1024
"""Of earlier turns that prompts showed, so that the next ones need not bring them: of a thousand sessions and more."""

SHARED_PARTS_MAX = 64
"""Agents and contracts whose instructions, tools and schemas waiting prompts share: memory, some 30 KB each."""

TOOLS_KEPT_MAX = 256
"""Sets of tools kept for prompts that name them, of agents and callers: memory, `TOOLS_KEPT_MAX_BYTES` each."""

IMAGES_MAX_BYTES = 20 * 1024 * 1024
"""Of one request, the newest ones: as base64, which is a third more, providers take some 28 to 50 MB."""

IMAGE_TOKENS = 1600
"""Held for each until its provider says what it was: about what the largest that is not scaled down costs."""

TOLD_AFTER_S = 1.0
"""Who listens to a call is told that it waits after so long: a shorter wait is no news."""
PATIENCE_SHARE = 0.5
"""Of `host.turn_timeout_ms`: who waited so long in vain did not give up early, whatever steps came before the call."""
SAID_MAX_CHARS = 200
"""A provider's own words in a fault; the rest is cut."""
MESSAGE_MAX_CHARS = 500
"""A fault's words in the record; the rest is cut."""
ERROR_MAX_BYTES = 64 * 1024
"""Read of an answer that says an error; the rest is left."""
STREAM_INTERVAL_MS = 20
"""A call's deltas leave at most once per so long; 0: each at once."""
RECENT_CALLS_MAX = 1024
"""Answered calls remembered in memory; older ones are in the record."""
NO_VECTORS = frozenset({400, 403, 404, 405, 422, 501})
"""How servers say that they, or a model, make none: OpenAI 403, vLLM 400 or 404, llama.cpp 501."""
BACKOFF_MIN_MS = 100
"""Pause before the second attempt; doubles, with jitter."""
BACKOFF_MAX_MS = 5000
"""Cap of that pause: a provider that is back is asked soon."""
STREAM_MAX_BYTES = 64 * 1024 * 1024
"""A streamed answer, with all around its pieces: eight times one that comes whole."""
ANSWER_MAX_BYTES = 8 * 1024 * 1024
"""An answer that comes whole: as large as any body of the bus."""
EVENT_MAX_BYTES = ANSWER_MAX_BYTES
"""One line of a streamed answer: some servers send all arguments of a call in one, and too long ones are told."""
KEY_MAX_CHARS = 300
"""Key of a call: it stands in ids of the record, which have 512 characters, some 100 of them around it."""
SPOOL_AFTER_MS = 500
"""Silence of the ledger after which unconditional records are spooled: longer than its restart."""
PROBE_RETRY_MS = 1000
"""Who finds all probes of a half-open breaker taken asks again then."""
REPLY_RESERVE_MS = 50
"""Kept of a caller's deadline for recording and answering."""
REBUILD_PAGE = 500
"""Entries per read when budgets are rebuilt at start."""
SNAPSHOT_ENTRIES = 100
"""Entries of `prompts` after which budgets are recorded: a start reads no more than those."""
