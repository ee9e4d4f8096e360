"""Engineering limits of the bus, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

OPEN_MAX = 2048
"""Requests of one principal open at one server: memory, against a program in a loop. Shares are by fair turns."""
LAGGING_MS = 250
"""A worker's loop that is so far behind gets no more: what it had could wait there only for itself."""
LAG_MIN_S = 0.02
"""Less is what a timer is off by: a beat that says nothing new stays the same bytes."""
LAG = "lag_ms"
"""The counter of a beat that says by how much a peer's loop is behind."""
TOOL_FILES_MAX = 16
"""Files of one call: one entry of the record names them all."""
FILE_NAME_CHARS = 100
"""Of a file's name, and of its media type: they stand in that entry, and in what a model is told."""
TEMPERATURE_MAX = 2
"""Of an answer's draw, as the providers' APIs bound it."""
STOPS_MAX = 4
"""Texts before which an answer ends, as the providers' APIs bound them."""
