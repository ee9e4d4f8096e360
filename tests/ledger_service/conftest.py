"""Small limits, so that borders are near."""

from __future__ import annotations

import pytest

from hobus.bus import limits as bus_limits
from hobus.config import limits as config_limits
from hobus.ledger_service import limits


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine: a question waits for what was just written."""
    for name, value in {
        "FRAME_ENTRIES_MAX": 64,
        "FRAME_BYTES_MAX": 65_536,
        "PAGE_ENTRIES_MAX": 1_000,
        "SEARCH_WORDS_MAX": 8,
    }.items():
        monkeypatch.setattr(bus_limits, name, value)
    for name, value in {
        "ZERO_FILL_CHUNK_BYTES": 4_096, "READ_BYTES_MAX": 65_536, "OUTSTANDING_MAX": 1_000, "OUTSTANDING_MAX_BYTES": 1_000_000,
        "KNOWN_FILTER_BYTES": 4_096, "SEARCHED_TEXT_MAX_BYTES": 1_000, "POSTINGS_MAX": 1_000, "EXCERPT_CHARS": 40,
        "INDEX_WAIT_MS": 30_000,
    }.items():  # fmt: skip
        monkeypatch.setattr(limits, name, value)
    monkeypatch.setattr(config_limits, "ENTRY_MAX_BYTES", 8_192)
