"""Sizes and lengths of time as people type them: `10k`, `2M`, `90s`, `10m`, `1h`."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:i?[bB])?")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.ASCII)
_SIZE_STEPS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_DURATION_STEPS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

SIZE_FORM = "a size such as 800, 10k or 2M"
DURATION_FORM = "a length of time such as 90s, 10m or 1h"


def size_of(text: str) -> float:
    """Bytes; `k`, `M`, `G` are steps of 1024. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected {SIZE_FORM}")
    return float(found[1]) * _SIZE_STEPS[found[2].lower()]


def duration_of(text: str) -> float:
    """Seconds; a plain number is seconds too. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected {DURATION_FORM}")
    return float(found[1]) * _DURATION_STEPS[found[2] or "s"]


def count_of(text: str) -> float:
    """A plain number. Raises ValueError."""
    if not re.fullmatch(r"\d+", text.strip()):
        raise ValueError("expected a whole number")
    return float(text)
