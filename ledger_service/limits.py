"""Engineering limits, which no configuration has a reason to change, and the space that the record wants; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hobus.bus.errors import LedgerError

if TYPE_CHECKING:
    from hobus.config.sections.record import LedgerConfig

PRINCIPAL_TAILS_MAX = 16
"""Long polls of one principal that wait at once."""
DENIED_INTERVAL_MS = 500
"""Milliseconds between two records of what was denied, in batches."""
DENIED_MAX = 64
"""Different denials kept for one such interval; the rest is a number."""
QUERY_MAX_CHARS = 1000
"""Of a search's words; of a longer text its beginning and end are looked at."""
ZERO_FILL_CHUNK_BYTES = 1024 * 1024
"""Of a segment, zero-filled ahead at once: a few milliseconds of a disk."""
READ_BYTES_MAX = 4 * 1024 * 1024
"""A page of entries; one entry is always given."""
OUTSTANDING_MAX = 8192
"""Unacknowledged writes of all before `busy`."""
OUTSTANDING_MAX_BYTES = 32 * 1024 * 1024
"""The same in bytes of their bodies; any one write is taken."""
KNOWN_FILTER_BYTES = 8 * 1024 * 1024
"""Memory that spares look-ups of new ids: two bytes per entry spare nearly all, of four million entries."""
SEARCHED_TEXT_MAX_BYTES = 32 * 1024
"""Of one text so much is searched, from its beginning: what is longer is a file, not what somebody said."""
POSTINGS_MAX = 20_000
"""Texts looked at for a question, by its rarest words: some 50 ms."""
EXCERPT_CHARS = 240
"""Of a text that is found: three lines of a terminal."""
INDEX_WAIT_MS = 100
"""A search waits so long for entries that are not indexed yet: the index trails by less."""
FOLLOWED_MS = 100
"""So long, or twice, a write waits for the entry that it follows: that left its writer first, and by one hop less."""


def compute_needed_bytes(config: LedgerConfig) -> int:
    """Return how many bytes must be free where the ledger lies."""
    return config.segment_bytes + config.reserve_bytes


def explain_shortage(free_bytes: int, config: LedgerConfig) -> str:
    """Return why nothing can be written now; empty while there is space."""
    needed = compute_needed_bytes(config)
    if free_bytes >= needed:
        return ""
    return f"the disk is full: {free_bytes >> 20} MB free, the record wants {needed >> 20} MB (ledger.reserve_bytes)"


def make_disk_full(free_bytes: int, config: LedgerConfig) -> LedgerError:
    """Return the answer while less than a segment and the reserve is free."""
    needed = compute_needed_bytes(config)
    return LedgerError(
        "disk_full",
        f"{free_bytes} bytes are free where the ledger lies; it needs {needed} "
        "(ledger.segment_bytes + ledger.reserve_bytes): free some space, then write again",
        facts={"free_bytes": free_bytes, "needed_bytes": needed},
    )


PLACES_FIRST, PLACES = 64, 4096
"""Rows of the index that a reader beside the ledger asks for at once: first, and at most; each time four times more."""
