"""Sizes and durations as people type them: `10k`, `2M`; `90`, `500ms`, `1.5h`, `1h30m`, `2d`."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:i?[bB])?")
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,12}(?:us|ms|[smhd]))*\d{1,12}(?:\.\d{1,9})?(?:us|ms|[smhd])", re.ASCII)
_PART = re.compile(r"([\d.]+)([a-z]+)", re.ASCII)
_SIZE_STEPS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_DURATION_STEPS = {"us": 0.000_001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

SIZE_FORM = "a size such as 800, 10k or 2M"
DURATION_FORM = "a duration such as 90 (seconds), 500ms, 1.5h or 1h30m"


def parse_size(text: str) -> float:
    """Return bytes; `k`, `M`, `G` are steps of 1024. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected {SIZE_FORM}")
    return float(found[1]) * _SIZE_STEPS[found[2].lower()]


def parse_duration(text: str) -> float:
    """Return seconds. A plain number is seconds too; of several units a larger one stands first. Raises ValueError."""
    given = text.strip()
    if _SECONDS.fullmatch(given):
        return float(given)
    parts = _PART.findall(given) if _DURATION.fullmatch(given) else []
    steps = [_DURATION_STEPS[unit] for _, unit in parts]
    if not parts or steps != sorted(set(steps), reverse=True):
        raise ValueError(f"expected {DURATION_FORM}")
    return sum(float(number) * step for (number, _), step in zip(parts, steps, strict=True))


def count_of(text: str) -> float:
    """Return a plain number. Raises ValueError."""
    if not re.fullmatch(r"\d+", text.strip()):
        raise ValueError("expected a whole number")
    return float(text)
