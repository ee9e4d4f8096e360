"""Engineering limits of an executor, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

MCP_TOO_LARGE = -32099
"""Code of an error that no MCP server says: its answer is longer than a message may be."""
MCP_LINE_END_BYTES = 256
"""Of each end of such an answer, where the call that it is for is looked for: memory, against a line without end."""
MCP_PING_S = 2.0
"""A server over HTTP that lost a call, and says nothing for so long, is connected anew."""
MCP_INSTRUCTIONS_BYTES = 4096
"""Of what a server says of all its tools: each prompt that tells of one of them pays for it."""
CHILDREN_IDLE_MS = 10_000
"""Without a call for so long, a tool process is ended: its start costs some 50 ms."""
CHILDREN_REAPED_MS = 500
"""After the end of its socket a tool process has ended: nothing of it stays in the table of processes."""
KILL_GRACE_MS = 200
"""Between asking a tool process to end and killing it: its caller waits."""
MCP_PROCESSES_MAX = 64
"""Processes of one MCP server at one worker that are a session's or principal's: memory."""
MCP_IDLE_MS = 900_000
"""Without a call for a quarter of an hour such a process, and the state that it holds, is ended."""
RECONNECT_MIN_MS = 500
"""Pause before an MCP server is tried again; doubles, with jitter."""
RECONNECT_MAX_MS = 30_000
"""Cap of that pause: a server that is back is used within half a minute."""
END_RESERVE_MS = 100
"""Kept of an order's deadline for its end."""
GATEWAY_WAIT_MS = 5000
"""An order fails when there is no gateway for so long: many restarts of one."""
RETRY_INTERVAL_MS = 100
"""Between two tries of a gateway's request that may be retried."""
LISTED_MAX = 256
"""Tools of one MCP server: more fit into no prompt."""
DEFINITION_MAX_BYTES = 32 * 1024
"""Description and schema of one tool; half of what the bus announces."""
MESSAGE_MAX_BYTES = 32 * 1024 * 1024
"""One message of an MCP server; a longer one ends the connection. Files come as base64 in it."""
ERRORS_MAX_BYTES = 4096
"""Kept of an MCP server's error output: its end, for people."""
TOOLS_TOLD_MAX = 64
"""Sets of tools that the gateway is believed to have: fewer than one keeps."""
