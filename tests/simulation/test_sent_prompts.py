"""What a model was asked, word for word, from the record alone: texts stand there once, and prompts name them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise

import pytest

from bench.builders import shipped_snapshot
from bench.simulated import SimulatedCluster
from bench.turn import QUESTION
from hobus.actors.ho2_supervisor.turn import text_parts
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.prompts import PromptSent
from hobus.config.prompt_pack import parse_pack
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.providers.offline.provider import OfflineProvider

TURNS = 4


class Listens(OfflineProvider):
    """The shipped model, which keeps what it is asked."""

    def __init__(self, snapshot: Snapshot) -> None:
        chars = snapshot.config.attention.chars_per_token
        super().__init__(provider_id="offline", latency_ms=0, chars_per_token=chars, sleep=asyncio.sleep)
        self.asked: dict[str, list[tuple[str, str]]] = {}

    async def complete(self, prompt, **how):
        """The words of each message, by call."""
        self.asked[prompt.idempotency_key] = [(message.role, message.text) for message in prompt.messages]
        return await super().complete(prompt, **how)


def text_of(ref: str, entries: Mapping[str, Entry]) -> str:
    """The text behind a ref, which may list the recorded parts of it."""
    submission_id, _, number = ref.rpartition("/")
    body = entries[submission_id].bodies[int(number)] or b""
    parts = text_parts.parts_in(body)
    if parts is None:
        return body.decode()
    return "".join(text if one is None else text_parts.of_part(text, text_of(one, entries)) for one, text in parts)


def sent_words(sent: Entry, entries: Mapping[str, Entry], recorded: Snapshot) -> list[tuple[str, str]]:
    """What stands for the messages of a prompt in the record, as its provider got them."""
    about, request = payload_in(PromptSent, sent), read_body(sent, 1)
    assert about is not None and request is not None and about.config_digest == recorded.digest
    pack = parse_pack(about.prompt_pack_id, recorded.prompt_packs[about.prompt_pack_id])
    return [(message.role, message.text(pack.texts, lambda ref: text_of(ref, entries))) for message in request.messages]


@pytest.fixture(scope="module")
def talk() -> tuple[Listens, list[Entry], Snapshot]:
    """A few turns with a tool each, and the configuration as CONFIG_SNAPSHOT holds it."""
    snapshot = shipped_snapshot()
    provider = Listens(snapshot)
    with SimulatedCluster(snapshot, providers={"offline": provider}) as cluster:
        session_id = None
        for number in range(TURNS):
            result = cluster.ask(QUESTION, input_id=f"in-{number}", session_id=session_id)
            session_id = result.session_id
        entries = cluster.entries()
    return provider, entries, Snapshot.from_bytes(snapshot.to_bytes())


def test_each_prompt_reads_from_the_record_word_for_word(talk):
    """Texts of the pack from the configuration, texts of the session from where they stand, the rest from the request."""
    provider, entries, recorded = talk
    by_id = {entry.submission_id: entry for entry in entries}
    sent = [entry for entry in entries if entry.event_type == "PROMPT_SENT"]
    assert len(sent) >= TURNS * 2
    for entry in sent:
        key = entry.submission_id.partition(":")[2].rpartition("/")[0]
        assert sent_words(entry, by_id, recorded) == provider.asked[key]


def test_a_prompt_begins_as_that_of_the_turn_before(talk):
    """System, preferences and earlier turns: what a provider has kept of it; what is new stands behind that."""
    provider, _entries, _recorded = talk
    firsts = ["".join(text for _, text in asked) for key, asked in provider.asked.items() if key.endswith(".2.1#1")]
    assert len(firsts) == TURNS
    for before, text in pairwise(firsts):
        shared = text_parts.common_chars(before, text)
        assert shared > text.index("<earlier_messages>")
        assert shared >= before.index("</earlier_messages>") - 1


def test_no_prompt_repeats_a_text_of_its_pack(talk):
    """They are named by number; what stands in a request is what no entry and no pack has."""
    _provider, entries, recorded = talk
    texts = {text for name, pack in recorded.prompt_packs.items() for text in parse_pack(name, pack).texts}
    for entry in entries:
        if entry.event_type == "PROMPT_SENT":
            parts = [part for message in read_body(entry, 1).messages for part in message.parts]
            assert any(isinstance(part, int) for part in parts)
            assert not texts & {part.text for part in parts if not isinstance(part, int)}
