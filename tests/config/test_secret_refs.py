"""References to secrets, and hiding what is shown."""

from __future__ import annotations

import pytest

from hobus.config.secret_refs import HIDDEN, is_secret_ref, redact


@pytest.mark.parametrize("text", ["env:KEY", "env:_a1", "file:/run/secrets/key", "file:key.txt"])
def test_reference_is_known(text: str) -> None:
    assert is_secret_ref(text)


@pytest.mark.parametrize(
    "text", ["", "env:", "env:1A", "env:A B", "file:", "file: x", "sk-123", "ENV:A", "env:A\n", "xenv:A"]
)
def test_anything_else_is_not_a_reference(text: str) -> None:
    assert not is_secret_ref(text)


def test_text_under_a_secret_name_is_hidden_at_every_depth() -> None:
    """Keys, tokens, passwords: text is hidden wherever it is nested; a reference is shown, it is no secret."""
    planted = {
        "api_key": "sk-1",
        "providers": [{"auth_token": "sk-2", "nested": {"password": "sk-3", "key_ref": "env:NAME"}}],
        "credentials": {"user": "sk-4", "list": ["sk-5"]},
    }
    shown = redact(planted)
    assert "sk-" not in repr(shown)
    assert shown["api_key"] == HIDDEN
    assert shown["providers"][0]["nested"]["key_ref"] == "env:NAME"


def test_text_that_is_a_secret_by_its_form_or_place_is_hidden_whatever_its_name() -> None:
    """A key of a service, an address with a password or a token in it, an argument behind a flag that is named so."""
    key = "sk-" + "a" * 20
    shown = redact(
        {
            "note": key,
            "url": "https://h/x?access_token=abc&n=1",
            "db": "postgres://me:" + "abc@h/db",
            "command": ["x", "--password", "abc", "--api-key=abc", "--verbose", "--token", "--quiet", key],
        }
    )
    assert shown["note"] == shown["url"] == shown["db"] == HIDDEN
    assert shown["command"] == ["x", "--password", HIDDEN, HIDDEN, "--verbose", "--token", "--quiet", HIDDEN]


def test_budgets_are_no_secrets() -> None:
    value = {"session_token_limit": 5, "max_tokens": 7, "chars_per_token": 4, "monkey": "banana", "primary_keys": ["a"]}
    assert redact(value) == value


def test_original_is_left_alone() -> None:
    value = {"api_key": "sk-1"}
    redact(value)
    assert value == {"api_key": "sk-1"}
