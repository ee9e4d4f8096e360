"""Engineering limits: no configuration has a reason to change them."""

PRINCIPAL_TAILS_MAX = 16
"""Long polls of one principal that wait at once."""
DENIED_INTERVAL_MS = 500
"""Milliseconds between two records of what was denied, in batches."""
DENIED_MAX = 64
"""Different denials kept for one such interval; the rest is a number."""
QUERY_MAX_CHARS = 1000
"""Of a search's words; of a longer text its beginning and end are looked at."""
