"""Tokenizer files made on the spot, for tests that count by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}  # fmt: skip
"""What stands between blanks is a token, however long."""


def a_file(directory: Path, **changes: Any) -> Path:
    """A `tokenizer.json` that counts words."""
    path = directory / "tokenizer.json"
    path.write_text(json.dumps({**WORDS, **changes}), encoding="utf-8")
    return path


def setting(path: Path, **changes: Any) -> dict[str, Any]:
    """Its entry in `gateway.tokenizers`, for the model of the shipped provider."""
    model = {"provider_id": "offline", "model_id": "offline-rules-1"}
    return {**model, "file": str(path), "message_tokens": 4, **changes}
