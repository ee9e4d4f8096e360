"""Engineering limits of an executor, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

MCP_TOO_LARGE = -32099
"""Code of an error that no MCP server says: its answer is longer than a message may be."""
MCP_LINE_END_BYTES = 256
"""Of each end of such an answer, where the call that it is for is looked for: memory, against a line without end."""
MCP_INSTRUCTIONS_BYTES = 4096
"""Of what a server says of all its tools: each prompt that tells of one of them pays for it."""
