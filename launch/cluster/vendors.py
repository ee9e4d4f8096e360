"""What an instance of a provider needs in the configuration, by its kind and address."""

from __future__ import annotations

import re
from typing import Any

ADDRESSES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""The vendors' own."""


def make_wire_settings(kind: str, base_url: str) -> dict[str, Any]:
    """Return what `openai` or `anthropic` at this address is asked with."""
    # Anthropic's SDK has no word for a temperature any more, and its newer models refuse one.
    said = {"base_url": base_url, "structured": "json_schema", "omit": ["temperature"] * (kind == "anthropic")}
    if kind == "openai":
        said["max_tokens_field"] = "max_completion_tokens" if _is_at("openai", base_url) else "max_tokens"
        said["omit"] = ["text_parts"] * _is_at("deepseek", base_url)
    return said


def _is_at(vendor: str, base_url: str) -> bool:
    return re.match(rf"https?://api\.{vendor}\.com(?![^/:])", base_url) is not None


def make_vendor_instance(vendor: str, concurrency_max: int) -> dict[str, Any]:
    """Return the vendor itself, any of its models, by the key of the environment that its SDK is named for."""
    return {
        "kind": vendor, "key": f"env:{vendor.upper()}_API_KEY", "models": [], "any_model": True,
        "concurrency_max": concurrency_max, **make_wire_settings(vendor, ADDRESSES[vendor]),
    }  # fmt: skip
