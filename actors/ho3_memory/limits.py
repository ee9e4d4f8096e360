"""Engineering limits of memory."""

PAGE_MAX = 1000
"""Lines and ids of a page: what a screen's worth of questions reads, far below a body's limit."""
SIGNALS_MAX = 256
"""Events of one turn that are logged together: a turn has some ten."""
PAGE_CACHE_KB = 8_000
"""Pages of an agent's working store in RAM; the rest is in its file, and in the system's cache of it."""
LINES_KEPT = 1000
"""Lines as prompts need them, so that a line is not made anew for each turn; only speed depends on it."""
PACKED_LEVEL = 1
"""Of zlib: ids of one habit's events have most of their characters in common; more effort finds little more."""
ABSENCE_MAX_HOURS = 24
"""Of a longer time without any event of a principal, evidence fades for so long: a day off is no habit given up."""
LAST_SEQUENCE = 2**63 - 1
"""No entry of a ledger comes after it: the largest number that SQLite compares."""
CHECKPOINT_ENTRIES = 1000
"""Applied entries after which the derived state is checkpointed: what a start applies again."""
REPLY_RESERVE_MS = 50
"""Kept of a caller's deadline for the answer's own way."""
REBUILD_PAGE = 500
"""Entries per read when state is rebuilt."""
