"""A prompt is counted by its model's tokenizer, from a file, and its reservation is made by that."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptMessage, ToolSpec
from hobus.bus.messages.work_order import Segment, ToolCall
from hobus.config.sections.gateway import TokenizerConfig
from hobus.gateway_service.tokenizer import Tokenizer
from tests.gateway_service.rig import Cluster, Scripted, answered, payload, totals
from tests.gateway_service.tokenizer_files import a_file, setting
from tests.rig import of_type

LONG_WORD = "x" * 400  # a token of the file's, and a hundred by characters
SHORT_WORDS = "a " * 100  # a hundred tokens, and fifty by characters
AROUND = 8  # a message and the beginning of the answer, 4 each


def made(
    path: Path, *, max_chars: int = 10_000, beside: Callable[..., Any] = asyncio.to_thread, **changes
) -> Tokenizer:
    """One for this file."""
    config = TokenizerConfig.model_validate(setting(path, **changes))
    return Tokenizer(config, max_chars=max_chars, beside=beside)


async def test_all_that_a_model_reads_is_counted_with_what_its_template_puts_around(tmp_path):
    """Messages, tool calls, tools and the schema, and `message_tokens` for each part and the answer."""
    asked = [
        PromptMessage(role="user", segments=[Segment(name="a", text="what ti"), Segment(name="b", text="me is it")]),
        PromptMessage(role="assistant", tool_calls=[ToolCall(call_id="1", tool_id="clock", arguments={"zone": "Z"})]),
        PromptMessage(role="tool", segments=[Segment(name="result", text="ten past")], tool_call_id="1"),
    ]
    tool = ToolSpec(tool_id="clock", description=": tells it", parameters={})
    schema = {"type": "object"}
    wanted = prompt(messages=asked, tools=[tool], output_schema=schema, structured_output=True)
    words = len(["what", "time", "is", "it"]) + len(['clock{"zone":', '"Z"}']) + len(["ten", "past"])
    words += len(["clock:", "tells", "it{}"]) + len(['{"type":', '"object"}'])
    assert await made(a_file(tmp_path), message_tokens=0).count(wanted) == words
    assert await made(a_file(tmp_path), message_tokens=4).count(wanted) == words + 4 * (3 + 1 + 1 + 1)
    unstructured = wanted.model_copy(update={"structured_output": False})
    assert await made(a_file(tmp_path), message_tokens=0).count(unstructured) == words - 2


async def test_a_vocabulary_of_bytes_counts_as_its_library_does(tmp_path):
    """Of the kind that models have: pairs of bytes, learnt from texts; any letter has tokens, as itself."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(["hello world " * 9], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = made(tmp_path / "tokenizer.json", message_tokens=0)
    assert [await tokenizer.count(prompt(text=text)) for text in ("hello world", "hexen", "漢", "")] == [2, 5, 3, 0]
    schema = {"enum": ["漢"]}
    told = prompt(text="", output_schema=schema, structured_output=True)
    assert await tokenizer.count(told) == len(library.encode(json.dumps(schema, ensure_ascii=False)).ids)


async def test_a_file_that_cuts_or_pads_texts_counts_them_whole(tmp_path):
    """Servers do neither, whatever the file was made for."""
    cut = {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    pad = {"strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
           "pad_token": "[UNK]"}  # fmt: skip
    tokenizer = made(a_file(tmp_path, truncation=cut, padding=pad), message_tokens=0)
    assert await tokenizer.count(prompt(text=SHORT_WORDS)) == 100


async def test_a_prompt_longer_than_is_counted_is_left_to_its_length(tmp_path):
    """At `gateway.tokenizer_max_chars` it is counted, above it is not."""
    tokenizer = made(a_file(tmp_path), max_chars=400)
    assert await tokenizer.count(prompt(text=LONG_WORD)) == 1 + AROUND
    assert await tokenizer.count(prompt(text=LONG_WORD + "x")) is None


async def test_the_file_is_read_once_and_prompts_are_counted_beside_the_loop(tmp_path):
    """What it was read from may go."""
    done: list[str] = []

    async def beside(function, *arguments):
        done.append(function.__name__)
        return await asyncio.to_thread(function, *arguments)

    path = a_file(tmp_path)
    tokenizer = made(path, beside=beside)
    path.unlink()
    counts = await asyncio.gather(*(tokenizer.count(prompt()) for _ in range(3)))
    assert counts == [1 + AROUND] * 3 and done == ["_counted"] * 3


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (Path.unlink, "is not a file"),
        (_directory, "is not a file"),
        (_pipe, "is not a file"),
        (lambda path: path.write_text("sk-planted"), "is not a tokenizer.json"),
        (lambda path: path.write_text('{"model": "sk-planted"}'), "is not a tokenizer.json"),
        (lambda path: path.write_bytes(b"\xff\x00"), "is not a tokenizer.json"),
    ],
)
async def test_a_file_that_cannot_be_used_is_a_fault_with_its_fix(tmp_path, spoil, said):
    """It names model and file, and repeats nothing that stands in it."""
    path = a_file(tmp_path)
    spoil(path)
    tokenizer = made(path)
    with pytest.raises(GatewayError) as caught:
        await tokenizer.count(prompt())
    assert caught.value.code == "PROVIDER_UNUSABLE"
    assert caught.value.detail == (
        f"provider offline cannot be used: the tokenizer of offline-rules-1, {path}, {said}; "
        "put the tokenizer.json of offline-rules-1 there, or correct gateway.tokenizers, before the gateway is started again"
    )
    assert tokenizer.fault == caught.value.detail


def test_a_home_of_nobody_is_a_fault():
    """`~name/` of a user that there is not."""
    assert "there is no such user; put" in made(Path("~nobody-of-this-name/t.json")).fault


def test_a_missing_library_is_a_fault_with_its_fix(tmp_path, monkeypatch):
    """The extra is named, as for a provider's SDK."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    said = (
        "needs tokenizers, which is not installed; pip install 'hobus[tokenizers]', before the gateway is started again"
    )
    assert made(a_file(tmp_path)).fault.endswith(said)


async def test_a_vocabulary_that_does_not_fit_is_a_fault(tmp_path):
    """A file of another model may have no tokens for a text: that is no count of zero, and no guess."""
    path = a_file(tmp_path, model={"type": "WordLevel", "vocab": {"hello": 0}, "unk_token": "[UNK]"})
    assert await made(path).count(prompt(text="hello hello")) == 2 + AROUND
    with pytest.raises(GatewayError, match="has no tokens for this prompt; put") as caught:
        await made(path).count(prompt(text="secret"))
    assert "secret" not in caught.value.detail


# --- in the gateway ---------------------------------------------------------------------------------------------------


@pytest.fixture
def clusters() -> Iterator[list[Cluster]]:
    """Closed at the end."""
    started: list[Cluster] = []
    yield started
    for cluster in started:
        cluster.close()


@pytest.fixture
def make(clusters, tmp_path):
    """A cluster that enforces this budget of a session; `path`: what counts, None: characters."""

    def start(limit: int, path: Path | None, provider: Scripted | None = None, **gateway) -> Cluster:
        counted = [] if path is None else [setting(path)]
        budget = {"budget_mode": "enforce", "session_token_limit": limit}
        clusters.append(Cluster(provider, budget=budget, gateway={"tokenizers": counted, **gateway}))
        return clusters[-1]

    return start


@pytest.mark.parametrize(
    ("text", "tokens", "by_length"), [(LONG_WORD, 1 + AROUND, 100), (SHORT_WORDS, 100 + AROUND, 50)]
)
def test_a_reservation_fits_to_the_token(make, tmp_path, text, tokens, by_length):
    """By the tokenizer where there is one: also where its length would not fit, and not where only its length would."""
    wanted, path = prompt(text=text, max_tokens=100), a_file(tmp_path)
    outcomes = {}
    for name, file, needed in (("tokenizer", path, tokens + 100), ("length", None, by_length + 100)):
        for limit in (needed, needed - 1):
            cluster = make(limit, file)
            response = cluster.run(cluster.ask(wanted))
            outcomes[name, limit - needed] = response.outcome, response.error_code
            if limit < needed:
                assert f"{needed} tokens asked (prompt {needed - 100}, answer 100)" in response.error_message
                assert cluster.provider.calls == 0
    fits, refused = ("SUCCESS", ""), ("REJECTED", "BUDGET_EXHAUSTED")
    assert outcomes == {(name, -short): (fits, refused)[short] for name in ("tokenizer", "length") for short in (0, 1)}


def test_what_a_provider_reports_settles(make, tmp_path):
    """The count is an estimate: recorded as such, and replaced by what was used."""
    cluster = make(1000, a_file(tmp_path))

    async def turn():
        await cluster.ask(prompt(text=LONG_WORD, max_tokens=100))
        return of_type(await cluster.entries(rests_s=2), "PROMPT_SENT")

    (entry,) = cluster.run(turn())
    assert payload(entry).estimated_tokens == 1 + AROUND
    assert totals(cluster) == (12, 0)


def test_each_model_of_a_chain_counts_for_itself(make, tmp_path):
    """One by its tokenizer, however often it is tried, the next by characters."""

    async def act(_prompt: Prompt):
        if provider.calls < 3:
            raise GatewayError("PROVIDER_ERROR", "away", retryable=True, facts={"unbilled": True})
        return answered()

    provider = Scripted(act)
    shipped = {"kind": "offline", "latency_ms": 0, "any_model": True, "concurrency_max": 4, "models": []}
    first, second = ({"provider_id": "offline", "model_id": name} for name in ("offline-rules-1", "other"))
    chain = [first | {"routes": [second]}]
    path = a_file(tmp_path)
    cluster = make(100_000, path, provider, providers={"offline": shipped}, fallbacks=chain, attempts_max=2)

    async def turn():
        await cluster.ask(prompt(text=LONG_WORD))
        return of_type(await cluster.entries(rests_s=2), "PROMPT_SENT")

    sent = [payload(entry) for entry in cluster.run(turn())]
    assert [(one.model_id, one.estimated_tokens) for one in sent] == [
        ("offline-rules-1", 1 + AROUND), ("offline-rules-1", 1 + AROUND), ("other", 100),
    ]  # fmt: skip


def test_without_its_file_a_model_is_not_called_and_the_log_says_so_at_the_start(make, tmp_path):
    """A refusal with the fix, nothing held or guessed; with the file there the next gateway answers."""
    path = tmp_path / "tokenizer.json"
    with structlog.testing.capture_logs() as logs:
        cluster = make(1000, path)
    (said,) = [line for line in logs if line["event"] == "tokenizer_unusable"]
    assert "is not a file; put the tokenizer.json of offline-rules-1 there" in said["detail"]
    refused = cluster.run(cluster.ask(prompt()))
    assert (refused.outcome, refused.error_code) == ("REJECTED", "PROVIDER_UNUSABLE")
    assert refused.error_message == said["detail"] and cluster.provider.calls == 0
    assert cluster.service._current.account.report("").scopes == []
    a_file(tmp_path)
    cluster.kill_gateway()
    cluster.start_gateway()
    cluster.run(cluster.ready())
    assert cluster.run(cluster.ask(prompt("WO-b#1"))).outcome == "SUCCESS"
