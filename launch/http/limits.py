"""Engineering limits of the HTTP door, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

REFUSED_FOR_S = 0.5
"""After a refusal for want of room the door refuses a key's further turns itself: being refused costs little then."""
TIMEOUT_MAX_S = 86_400.0
"""The longest time-out that a client's header can ask for: a turn that nobody waits for must end some day."""
