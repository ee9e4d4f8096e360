"""What docs/providers.md shows works as it stands there."""

from __future__ import annotations

import asyncio
import json
import re
import sys

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.config.files import Layers
from hobus.config.load import read
from hobus.config.sections.gateway import PluginProvider
from hobus.gateway_service.providers.plugin import LoadedProvider
from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
PLUGIN = {
    "kind": "plugin", "entry_point": "echo", "key": "env:THE_KEY", "options": {"prefix": "> "}, "models": [],
    "any_model": True, "concurrency_max": 4,
}  # fmt: skip


def blocks(language: str) -> list[str]:
    """Code of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_configuration_that_it_shows_is_valid(tmp_path):
    """Each block alone or over a home that has the local server; the plugin's too."""
    local = {
        "local": {
            "kind": "openai", "base_url": "http://127.0.0.1:11434/v1", "key": None, "any_model": True, "models": [],
            "concurrency_max": 2, "max_tokens_field": "max_tokens", "structured": "json_object", "omit": ["temperature"],
        }
    }  # fmt: skip
    shown = [json.loads(text) for text in blocks("json")]
    assert len(shown) == 4
    for value in [*shown, {"gateway": {"providers": {"echo": PLUGIN}}}]:
        value["gateway"].setdefault("providers", {}).update(local)
        (tmp_path / "admin_config.json").write_text(json.dumps(value))
        read(Layers(own=tmp_path)).governed()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's class in a package of its own, installed as any is."""
    (source,) = blocks("python")
    (entry,) = blocks("toml")
    (tmp_path / "my_package.py").write_text(source)
    about = tmp_path / "my_package-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    name, target = re.findall(r'(\w+) = "(.*)"', entry)[0]
    (about / "entry_points.txt").write_text(f"[hobus.providers]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_package", None)


def made(**changes) -> LoadedProvider:
    """An instance of it."""
    config = PluginProvider.model_validate({**PLUGIN, **changes})
    return LoadedProvider("mine", config, given=lambda: {"THE_KEY": "sk-planted"}, beside=asyncio.to_thread)


async def test_the_class_that_it_shows_answers(installed):
    """Made with its name, key and options; asked as any provider is."""
    provider = made()
    await provider.prepare()
    told: list[str] = []
    response = await provider.complete(prompt(text="hello"), model_id="any", timeout_s=5, on_delta=told.append)
    assert (response.content, told, provider.provider_id) == ("> hello", ["> hello"], "mine")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entry_point": "nothing"}, "no installed package has an entry point 'nothing'"),
        ({"key": "env:NOTHING"}, "the environment variable NOTHING is not set"),
    ],
)
async def test_a_class_that_cannot_be_had_says_why(installed, changes, words):
    """Before anything is sent, with the fix."""
    with pytest.raises(GatewayError, match=re.escape(words)) as caught:
        await made(**changes).prepare()
    assert caught.value.code == "PROVIDER_UNUSABLE"


async def test_a_class_that_raises_while_it_is_made_is_told_by_its_class_alone(installed, tmp_path):
    """Its words may hold the key."""
    text = (tmp_path / "my_package.py").read_text()
    (tmp_path / "my_package.py").write_text(text.replace("self.provider_id = provider_id", "raise ValueError(key)"))
    with pytest.raises(GatewayError) as caught:
        await made().prepare()
    assert "ValueError" in caught.value.detail and "sk-planted" not in caught.value.detail
