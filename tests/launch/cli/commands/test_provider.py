"""`hobus provider`: what it writes is a valid configuration, and what it says is what is."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from collections.abc import Iterator

import pytest

from bench.gateway.servers import Behave, serving
from hobus.config.files import Layers
from hobus.config.snapshot import load_snapshot
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes
from tests.gateway_service.servers import answering, by_path

KEY = "sk-planted-8f2b6c1d9e"
URL = "http://127.0.0.1:11434/v1"


@pytest.fixture
def server() -> Iterator:
    """Serves in a thread of its own: commands have their own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ends: list = []

    def start(behave: Behave):
        manager = serving(behave)
        ends.append(manager)
        return asyncio.run_coroutine_threadsafe(manager.__aenter__(), loop).result()

    yield start
    for manager in ends:
        asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def hobus(home, *words: str) -> int:
    return cli.run(["provider", *words, "--home", str(home)])


def added(home, *words: str) -> int:
    return hobus(home, "add", *words)


LOCAL = ("--kind", "openai", "--base-url", f"{URL}/", "--model", "llama3.2", "--key", "none")


def test_what_is_added_is_small_valid_and_the_default(memory_path, capsys):
    """The file holds the provider and the route, nothing else; the shipped one stays; what a file held stays."""
    (memory_path / "config").mkdir()
    own = memory_path / "config" / "admin_config.json"
    own.write_text('{"ho1": {"count": 3}}')
    assert added(memory_path, "local", *LOCAL, "--default") == exit_codes.OK
    value = json.loads(own.read_text())
    assert sorted(value) == ["gateway", "ho1"] and own.stat().st_mode & 0o077 == 0
    config = load_snapshot(Layers(own=memory_path / "config")).config
    assert config.gateway.default_route.model_dump() == {"provider_id": "local", "model_id": "llama3.2"}
    assert config.gateway.providers["local"].base_url == URL
    assert config.gateway.providers["local"].max_tokens_field == "max_tokens"
    assert "offline" in config.gateway.providers and config.ho1.count == 3
    assert "hobus provider check local" in capsys.readouterr().out


def test_prices_keys_and_kinds_are_taken(memory_path):
    """A price is three figures; a key is a reference; the maker's address needs no flag."""
    words = ("--kind", "anthropic", "--model", "big=3/15/0.3", "--key", "env:ANTHROPIC_API_KEY")
    assert added(memory_path, "claude", *words) == exit_codes.OK
    assert added(memory_path, "gpt", "--kind", "openai", "--any-model", "--key", "env:OPENAI_API_KEY") == exit_codes.OK
    texts = ("--kind", "openai", "--base-url", "https://api.deepseek.com/v1", "--any-model", "--key", "none")
    assert added(memory_path, "deep", *texts) == exit_codes.OK
    providers = load_snapshot(Layers(own=memory_path / "config")).config.gateway.providers
    (model,) = providers["claude"].models
    assert (model.input_usd_per_million, model.output_usd_per_million, model.cached_usd_per_million) == (3, 15, 0.3)
    assert providers["claude"].base_url == "https://api.anthropic.com"
    assert providers["claude"].omit == ["temperature"] and providers["gpt"].omit == []
    assert providers["gpt"].any_model and providers["gpt"].max_tokens_field == "max_completion_tokens"
    assert (providers["deep"].omit, providers["deep"].max_tokens_field) == (["text_parts"], "max_tokens")


def test_a_key_that_is_typed_goes_into_a_file_of_this_user_alone(memory_path, monkeypatch, capsys):
    """Never into configuration or onto the screen; an older one is not replaced."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    words = ("--kind", "openai", "--base-url", URL, "--model", "m", "--key", "stdin")
    assert added(memory_path, "mine", *words) == exit_codes.OK
    path = memory_path / "keys" / "provider-mine"
    assert path.read_text() == f"{KEY}\n" and path.stat().st_mode & 0o777 == 0o600
    assert KEY not in (memory_path / "config" / "admin_config.json").read_text()
    monkeypatch.setattr(sys, "stdin", io.StringIO("other\n"))
    assert added(memory_path, "mine", *words) == exit_codes.REFUSED
    said = capsys.readouterr()
    assert KEY not in said.out + said.err and path.read_text() == f"{KEY}\n"


@pytest.mark.parametrize("name", ["offline", "a/b", "mine"])
def test_a_provider_that_is_refused_leaves_no_key_and_names_the_file_that_stays(memory_path, monkeypatch, capsys, name):
    """All is looked at before a key is kept; the next try finds nothing in its way."""
    url = "localhost" if name == "mine" else URL
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    words = ("--kind", "openai", "--base-url", url, "--model", "m", "--key", "stdin")
    assert added(memory_path, name, *words) != exit_codes.OK
    assert not (memory_path / "keys").exists()
    said = capsys.readouterr().err
    assert KEY not in said and ".new" not in said
    if name == "mine":
        assert str(memory_path / "config" / "admin_config.json") in said and "nothing was changed" in said


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xff\xfe\n", "not UTF-8"), (b"sk a b\n", "a blank"), ("sk-é\n".encode(), "a letter that no key has"), (b"\n", "is empty")],
)  # fmt: skip
def test_what_is_no_key_is_refused_with_a_sentence(memory_path, monkeypatch, capsys, data, said):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    words = ("--kind", "openai", "--base-url", URL, "--model", "m", "--key", "stdin")
    assert added(memory_path, "mine", *words) == exit_codes.USAGE
    told = capsys.readouterr().err
    assert "standard input holds no key" in told and said.removeprefix("a ") in told
    assert not (memory_path / "keys").exists() and not (memory_path / "config").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x", "--kind", "openai", "--base-url", URL, "--model", "m", "--key", KEY), "never the key itself"),
        (("x", "--kind", "openai", "--base-url", "localhost", "--model", "m", "--key", "none"), "must be http"),
        (("x", "--kind", "openai", "--base-url", "http://[::1", "--model", "m", "--key", "none"), "is not an address"),
        (("x", "--kind", "openai", "--base-url", URL, "--model", "m=1/2", "--key", "none"), "INPUT/OUTPUT/CACHED"),
        (("x", "--kind", "openai", "--base-url", URL, "--model", "m=nan/1/1", "--key", "none"), "INPUT/OUTPUT/CACHED"),
        (("x", "--kind", "openai", "--base-url", URL, "--any-model", "--default", "--key", "none"), "needs a --model"),
        (("a/b", "--kind", "openai", "--base-url", URL, "--model", "m", "--key", "none"), "is named with letters"),
        (("offline", "--kind", "openai", "--base-url", URL, "--model", "m", "--key", "none"), "already"),
        (("x", "--kind", "nonsense"), "'openai', 'anthropic'"),
        (("x", "--base-url", URL), "missing --model"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(memory_path, capsys, words, said):
    """A home without configuration has none afterwards."""
    assert added(memory_path, *words) != exit_codes.OK
    told = capsys.readouterr()
    assert said in told.err and KEY not in told.err + told.out
    assert not (memory_path / "config" / "admin_config.json").exists()
    if (memory_path / "config").exists():
        assert [path.name for path in (memory_path / "config").iterdir()] in ([], [".admin_config.lock"])


def test_a_file_with_faults_is_left_as_it_is(memory_path, capsys):
    (memory_path / "config").mkdir()
    own = memory_path / "config" / "admin_config.json"
    for text in ('{"gateway": 5}', "{", "[]", '{"surprise": 1}'):
        own.write_text(text)
        assert added(memory_path, "local", *LOCAL) != exit_codes.OK
        assert own.read_text() == text
    assert "admin_config.json" in capsys.readouterr().err


def test_many_at_once_are_all_there(memory_path):
    codes: list[int] = []
    threads = [threading.Thread(target=lambda n=n: codes.append(added(memory_path, f"p{n}", *LOCAL))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [exit_codes.OK] * 4
    assert len(load_snapshot(Layers(own=memory_path / "config")).config.gateway.providers) == 5


def test_the_listing_says_where_keys_are_and_what_is_routed(memory_path, capsys):
    added(memory_path, "local", *LOCAL, "--default")
    capsys.readouterr()
    assert hobus(memory_path, "list") == exit_codes.OK
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("local"))
    assert row.split() == ["local", "openai", URL, "llama3.2", "-", "default"]
    assert hobus(memory_path, "list", "--json") == exit_codes.OK
    lines = json.loads(capsys.readouterr().out)["providers"]
    assert [(line["provider_id"], line["routes"]) for line in lines] == [("local", ["default"]), ("offline", [])]


OFFERED = {"data": [{"id": "llama3.2"}, {"id": "tiny"}]}


@pytest.mark.parametrize(
    ("behave", "code", "part", "words"),
    [
        (by_path(models=answering(OFFERED)), 0, "ok    mine models", "it offers tiny"),
        (
            by_path(models=answering({"data": [{"id": "tiny", "n_ctx": 4096}]})),
            0,
            "warn  mine window",
            "tiny reads 4096 tokens",
        ),
        (
            by_path(models=answering({"data": [{"id": "other"}]})),
            1,
            "fail  mine models",
            "it does not offer tiny; it offers other",
        ),
        (
            answering({"error": {"message": f"bad {KEY}"}}, 401),
            1,
            "fail  mine key",
            "does not accept the key (env:MINE)",
        ),
        (answering({}, 404), 0, "warn  mine models", "lists no models"),
        (answering("<html>"), 1, "fail  mine connection", "answers with a web page"),
        (answering({}, 503), 1, "fail  mine connection", "answered 503"),
    ],
)
def test_a_check_says_which_part_fails(  # noqa: PLR0917 - a row of a table
    memory_path, server, capsys, monkeypatch, behave, code, part, words
):
    """Library and key, connection, key, models; the key is in no line; a prompt is never sent."""
    monkeypatch.setenv("MINE", KEY)
    at = server(behave)
    added(memory_path, "mine", "--kind", "openai", "--base-url", f"{at.url}/v1", "--model", "tiny", "--key", "env:MINE")
    capsys.readouterr()
    assert hobus(memory_path, "check", "mine") == code
    said = capsys.readouterr()
    assert any(line.startswith(part) and words in line for line in said.out.splitlines()), said.out
    assert KEY not in said.out + said.err
    assert [request.method for request in at.requests] == ["GET"]
    assert hobus(memory_path, "check", "mine", "--json") == code
    assert json.loads(capsys.readouterr().out)["ok"] is (code == 0)


def test_a_check_of_what_is_not_there_says_so(memory_path, capsys, monkeypatch):
    """No key, nobody listening, no such provider: each with its fix."""
    monkeypatch.delenv("MINE", raising=False)
    added(
        memory_path,
        "mine",
        "--kind",
        "anthropic",
        "--base-url",
        "http://127.0.0.1:9",
        "--model",
        "m",
        "--key",
        "env:MINE",
    )
    added(
        memory_path, "away", "--kind", "anthropic", "--base-url", "http://127.0.0.1:9", "--model", "m", "--key", "none"
    )
    capsys.readouterr()
    assert hobus(memory_path, "check") == exit_codes.FAILED
    out = capsys.readouterr().out
    assert "the environment variable MINE is not set" in out and "next: set it where the cluster is started" in out
    assert "cannot be reached at http://127.0.0.1:9" in out and "ok    offline setup" in out
    assert hobus(memory_path, "check", "nobody") == exit_codes.USAGE
    assert "configured: mine, away, offline" in capsys.readouterr().err.replace(
        "offline, mine, away", "mine, away, offline"
    )


def test_a_faulty_file_beside_the_settings_keeps_no_provider_from_being_looked_at(memory_path, capsys):
    """A contract that cannot be read says nothing of a provider; settings at fault are said with their place."""
    contract = memory_path / "config" / "contracts" / "PRC-SYNTHESIZE-001.json"
    contract.parent.mkdir(parents=True)
    contract.write_text("{")
    assert hobus(memory_path, "check") == exit_codes.OK and "offline setup" in capsys.readouterr().out
    assert hobus(memory_path, "list") == exit_codes.OK and "offline" in capsys.readouterr().out
    (memory_path / "config" / "admin_config.json").write_text('{"gateway": {"providers": 7}}')
    assert hobus(memory_path, "check") == exit_codes.USAGE
    assert "admin_config.json: gateway.providers" in capsys.readouterr().err
