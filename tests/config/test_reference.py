"""docs/configuration.md and the schema say the same."""

from __future__ import annotations

from typing import get_args

from bench.pages.settings import settings_page
from hobus.config.schema import AdminConfig
from tests.architecture.test_defaults import SECTIONS


def test_every_setting_is_on_the_page() -> None:
    text = settings_page()
    for section, field in AdminConfig.model_fields.items():
        model = next(one for one in get_args(field.annotation) or [field.annotation] if one is not type(None))
        for name in model.model_fields:
            assert f"- `{section}.{name}`: " in text
    assert "- `gateway.providers.<id>.models[].input_usd_per_million`: `0.0`, price" in text


def test_every_setting_has_its_line_of_reason() -> None:
    settings = [
        (f"{section.__name__}.{name}", field.description)
        for section in SECTIONS
        if section is not AdminConfig
        for name, field in section.model_fields.items()
    ]
    assert settings and [name for name, reason in settings if not reason] == []
