"""Engineering limits of governed files and of schemas, which no configuration has a reason to change."""

from __future__ import annotations

FILE_ENTRIES_MAX = 2048
"""Values in one governed file but the settings, at any depth: far more than anybody writes by hand."""
STAGES_MAX = 32
"""Stages of one attention template: each is a line that a person reads."""
QUERIES_MAX = 64
"""The most that a template may state as max_queries: each is a question to the record."""
TIMEOUT_MAX_MS = 10_000
"""The most that a template may state as timeout_ms: a person waits for it."""
ENTRIES_MAX = 256
"""The most that a ledger_query may state as max_entries: four pages of the record."""
RESULTS_MAX = 100
"""The most that a horizontal_search may state as max_results."""
OUTPUT_SCHEMA_MAX_BYTES = 32 * 1024
"""Schema of an answer, as JSON: every round of its turn pays for it."""
OUTPUT_SCHEMA_DEPTH_MAX = 64
"""Levels of such a schema: checking it recurses."""
SESSIONS_MAX = 4096
"""Sessions held in memory by a supervisor, whose state is read again when it is asked for; and by a session host."""
SNAPSHOTS_KEPT = 4
"""Configurations of other digests kept per process: runs of an older one end within minutes."""
ENTRY_MAX_BYTES = 64 * 1024
"""One entry without its bodies: what is longer is a body."""
SAID_MAX_BYTES = 8192
"""Kept of a tool's prints, and of its traceback: both ends; for people, no model is told."""
FILES_MAX_BYTES = 3_500_000
"""Files of one call together: two calls' results fit into one entry of the record."""
DEFAULTS_MAX = 1000
"""Filled into the arguments of one call: those of a schema that refers to itself have no end."""
AGENT_DEPTH_MAX = 4
"""Agents in a row, each a tool of the one before: every one has but a share of the time of its caller."""
