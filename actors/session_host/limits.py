"""Engineering limits of a session host, which no configuration has a reason to change; each says what it protects."""

GATEWAY_WAIT_MS = 2000
"""Wait for a gateway before degrading is given up: some restarts of one."""
RESERVE_SHARE_MAX = 0.5
"""Largest share of a client's time that is kept for degrading: a short deadline still leaves time to answer."""
APPEND_RESERVE_MS = 1000
"""Part of that time that the stream's decision gets."""
REPLY_RESERVE_MS = 100
"""Part of it kept for the reply's own way."""
STANDSTILL_RESERVE_MS = 300
"""Kept where a run stands still: nothing degrades then, and who waits is told how it stands."""
