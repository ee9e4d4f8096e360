"""docs/configuration.md and the schema say the same."""

from __future__ import annotations

from typing import get_args

import pytest

from bench.pages.settings import page, unit_of
from hobus.config.schema import AdminConfig
from tests.architecture.test_defaults import SECTIONS


def test_every_setting_is_on_the_page() -> None:
    """No knob is left out, down to the price of a model."""
    text = page()
    for section, field in AdminConfig.model_fields.items():
        model = next(one for one in get_args(field.annotation) or [field.annotation] if one is not type(None))
        for name in model.model_fields:
            assert f"- `{section}.{name}`: " in text
    assert "- `gateway.providers.<id>.models[].input_usd_per_million`: `0.0` USD per million tokens - " in text


def test_every_setting_has_its_line_of_reason() -> None:
    """A knob that nobody can explain is not added."""
    settings = [
        (f"{section.__name__}.{name}", field.description)
        for section in SECTIONS
        if section is not AdminConfig
        for name, field in section.model_fields.items()
    ]
    assert settings and [name for name, reason in settings if not reason] == []


@pytest.mark.parametrize(
    ("section", "name", "unit"),
    [
        ("gateway", "request_timeout_ms", "ms"),
        ("budget", "timeout_seconds", "s"),
        ("budget", "session_token_limit", "tokens"),
        ("budget", "turn_limit", "count"),
        ("budget", "budget_mode", ""),
        ("ledger", "segment_bytes", "bytes"),
        ("sessions", "lease_ttl_s", "s"),
    ],
)
def test_unit_stands_at_the_end_of_the_name(section: str, name: str, unit: str) -> None:
    """The page's unit is read off the name, so that name and unit cannot differ."""
    assert unit_of(name, AdminConfig.model_fields[section].annotation.model_fields[name]) == unit
