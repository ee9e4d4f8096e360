"""Engineering limits of the HTTP door, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

REFUSED_FOR_S = 0.5
"""After a refusal for want of room the door refuses a key's further turns itself: being refused costs little then."""
TIMEOUT_MAX_S = 86_400.0
"""The longest time-out that a client's header can ask for: a turn that nobody waits for must end some day."""
HEAD_TIMEOUT_MS = 10_000
"""A connection whose request is not there by then is closed: it holds one of the places."""
BODY_TIMEOUT_MS = 60_000
"""Until the whole of a body has come: the largest, over a slow line."""
KEEP_ALIVE_MS = 30_000
"""An idle connection is closed after this."""
WRITE_TIMEOUT_MS = 30_000
"""A client that reads nothing of its answer for so long is cut off."""
KEY_SHARE = 3 / 4
"""Of `http.connections_max`, that requests of one key may hold: else nobody else is let in."""
REFUSALS_MAX = 256
"""Refused connections that have not closed yet; further ones are closed without a word."""
SHEDS_MAX = 256
"""Heads whose requests are refused unread for a moment, each of at most HEAD_MAX_BYTES."""
UNUSED_NAMED_MAX = 32
"""Fields that one answer names as unused, in a header."""
MESSAGES_MAX = 2000
"""Messages of a transcript."""
TAIL_WAIT_MS = 5000
"""One long poll of the record for those who read events."""
KEYS_INTERVAL_MS = 1000
"""Keys created or revoked are recorded so soon at the latest."""
CELL_CONNECT_S = 5.0
"""A cell whose door takes no connection in that time is away."""
PING_MS = 15_000
"""Silence of a stream after which a comment says that it lives."""
EMBEDDED_MAX = 2048
"""Texts of one request for vectors, as at OpenAI."""
EMBEDDED_AT_ONCE = 64
"""Of them in one call: 4096 numbers of each fit into an answer, also as digits."""
EMBEDDED_BYTES_AT_ONCE = 1024 * 1024
"""Of texts in one call: it is recorded whole (ledger.bodies_max_bytes)."""
IMAGE_MAX_BYTES = 7_900_000
"""Of one image: one entry of the record has it (ledger.bodies_max_bytes), and one message brings it there."""
IMAGES_MAX_BYTES = 20 * 1024 * 1024
"""Of those of one message: so much of one request reaches a provider (gateway_service.limits.IMAGES_MAX_BYTES)."""
HEAD_MAX_BYTES = 16 * 1024
"""Request line and headers, as common servers bound them."""
