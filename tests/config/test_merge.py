"""What a home's file says is laid over what is shipped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.errors import ConfigError
from hobus.config.files import Layers
from hobus.config.load import merge, read

KEYS = st.sampled_from(["a", "b", "kind", "c"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
VALUES = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)
SERVER: dict[str, Any] = {
    "kind": "openai", "base_url": "http://127.0.0.1:11434/v1", "key": None, "models": [], "any_model": True,
    "concurrency_max": 2, "max_tokens_field": "max_tokens", "structured": "json_schema", "omit": [],
}  # fmt: skip


@given(shipped=OBJECTS)
def test_nothing_said_is_what_is_shipped_and_all_of_it_said_again_is_the_same(shipped):
    assert merge(shipped, {}) == shipped == merge(shipped, shipped)


@given(shipped=OBJECTS, own=OBJECTS)
def test_what_is_said_holds_and_is_said_once(shipped, own):
    once = merge(shipped, own)
    assert merge(once, own) == once
    assert all(once[key] == value for key, value in own.items() if not isinstance(value, dict))


def test_objects_are_merged_lists_and_null_replace():
    shipped = {"a": {"b": 1, "c": [1, 2], "d": {"e": 1}}, "f": {"g": 1}}
    assert merge(shipped, {"a": {"c": [3], "d": {"x": 2}}, "f": None}) == {
        "a": {"b": 1, "c": [3], "d": {"e": 1, "x": 2}}, "f": None,
    }  # fmt: skip


def test_an_object_of_another_kind_replaces_whole():
    shipped = {"x": {"kind": "offline", "latency_ms": 0}}
    assert merge(shipped, {"x": {"kind": "openai"}}) == {"x": {"kind": "openai"}}
    assert merge(shipped, {"x": {"latency_ms": 5}}) == {"x": {"kind": "offline", "latency_ms": 5}}


def loaded(tmp_path, value: Any):
    """The configuration of a home whose own admin_config.json holds this."""
    (tmp_path / "admin_config.json").write_text(json.dumps(value))
    return read(Layers(own=tmp_path)).governed().config


def test_a_home_says_only_what_differs(tmp_path):
    config = loaded(tmp_path, {"ho1": {"count": 3}, "gateway": {"providers": {"local": SERVER}}})
    shipped = read().governed().config
    assert config.ho1 == shipped.ho1.model_copy(update={"count": 3})
    assert sorted(config.gateway.providers) == ["local", "offline"]
    assert config.gateway.providers["offline"] == shipped.gateway.providers["offline"]
    assert config.bus == shipped.bus


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"gateway": {"providers": {"x": {"kind": "nonsense"}}}},
         "gateway.providers.x.kind: is 'nonsense'; one of 'offline', 'openai', 'anthropic', 'plugin'"),
        ({"gateway": {"providers": {"x": {}}}}, "gateway.providers.x.kind: missing; add it"),
        ({"gateway": {"providers": {"x": {**SERVER, "key": "sk-planted"}}}},
         "gateway.providers.x.key: must be `env:NAME`, `file:PATH` or null, and never the key itself"),
        ({"gateway": {"providers": {"x": {**SERVER, "base_url": "https://me:sk-planted@h/v1"}}}},
         "gateway.providers.x.base_url: must hold no user, password, query or fragment; a key goes into `key`"),
        ({"gateway": {"providers": {"x": {**SERVER, "base_url": "localhost:1234"}}}},
         "gateway.providers.x.base_url: must be http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH"),
        ({"gateway": {"providers": {"x": {**SERVER, "surprise": 1}}}}, "gateway.providers.x.surprise: unknown key"),
        ({"gateway": {"providers": {"a b": SERVER}}}, "gateway.providers.a b: a provider is named with letters"),
        ({"gateway": {"default_route": {"provider_id": "nobody"}}}, "gateway.default_route.provider_id: no provider 'nobody'"),
        ({"gateway": {"surprise": 1}}, "gateway.surprise: unknown key"),
        ({"budget": {"sesion_token_limit": 1}}, "budget.sesion_token_limit: unknown key; did you mean 'session_token_limit'?"),
        ({"gateway": 5}, "gateway: is 5; write an object"),
        ({"projection": {"mode": "on"}},
         "projection.mode: is 'on'; write 'off', 'shadow' or 'enforce'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_path_and_never_a_secret(tmp_path, value, fault):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, value)
    assert fault in caught.value.detail and "sk-planted" not in caught.value.detail


def test_a_provider_that_takes_any_model_may_be_routed_to_with_any(tmp_path):
    route = {"provider_id": "local", "model_id": "llama3.2"}
    config = loaded(tmp_path, {"gateway": {"providers": {"local": SERVER}, "default_route": route}})
    assert config.gateway.default_route.model_id == "llama3.2"
