"""What a model was asked, word for word, from the record alone: texts stand there once, and prompts name them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from unittest.mock import AsyncMock

import pytest

from bench.builders import shipped_snapshot
from bench.turn import QUESTION
from hobus.bus.errors import GatewayError
from hobus.bus.messages import transcript
from hobus.bus.messages.base import unpack
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.given_history import with_history
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.messages.work_order import Segment
from hobus.bus.record import text_parts
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.payloads.prompts import PromptSent, SentText
from hobus.config.load import Governed
from hobus.config.prompt_pack import parse_pack
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from tests.simulated import SimulatedCluster

TURNS = 4
WINDOW = 4096


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
    parts = text_parts.read_parts(body)
    if parts is None:
        return body.decode()
    return "".join(text if one is None else text_parts.cut_part(text, text_of(one, entries)) for one, text in parts)


def sent_words(sent: Entry, entries: Mapping[str, Entry], recorded: Snapshot) -> list[tuple[str, str]]:
    """What stands for the messages of a prompt in the record, as its provider got them."""
    about, request = read_payload(PromptSent, sent), read_body(sent, 1)
    assert about is not None and request is not None and about.config_digest == recorded.digest
    pack = parse_pack(about.prompt_pack_id, recorded.prompt_packs[about.prompt_pack_id])

    def words(part: int | SentText) -> str:
        if isinstance(part, int):
            return pack.texts[part]
        return part.text if part.ref is None else text_of(part.ref.replace("~", sent.provenance.session_id), entries)

    said = [(message, "".join(map(words, message.parts))) for message in request.messages]
    messages = [
        PromptMessage(role=one.role, segments=[Segment(text=text)], tool_calls=list(one.tool_calls))
        for one, text in said
    ]
    return [(message.role, message.text) for message in transcript.expand(messages)]


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


POEM = """[[system]]
{{ system }} You answer in one verse.
[[user]]
<message>
{{ user_input }}
</message>
"""


def with_a_poet() -> Snapshot:
    """The shipped configuration, with an agent whose answers are asked for under a contract and a pack of its own."""
    governed = Governed.model_validate(unpack(shipped_snapshot().to_bytes()))
    own = {"contract_id": "PRC-POET-001", "version": "1.0.0", "prompt_pack_id": "PRM-POET-001"}
    contract = governed.contracts["PRC-SYNTHESIZE-001"].model_copy(update=own)
    sorting = governed.contracts["PRC-CLASSIFY-001"].model_copy(update={"contract_id": "PRC-SORT-001"})
    poet = governed.agents["ADMIN"].model_copy(
        update={
            "agent_id": "POET",
            "system_prompt": "You are a poet.",
            "contracts": {"synthesize": "PRC-POET-001", "classify": "PRC-SORT-001"},
        }
    )
    return Snapshot.from_bytes(
        governed.model_copy(
            update={
                "agents": {**governed.agents, "POET": poet},
                "contracts": {**governed.contracts, "PRC-POET-001": contract, "PRC-SORT-001": sorting},
                "prompt_packs": {**governed.prompt_packs, "PRM-POET-001": POEM},
            }
        ).to_bytes()
    )


def test_an_agent_with_a_contract_of_its_own_is_prompted_by_that_contracts_pack():
    """The prompt is that pack's text, and the record names it; other agents, and other purposes, have the shipped ones."""
    snapshot = with_a_poet()
    provider = Listens(snapshot)
    with SimulatedCluster(snapshot, providers={"offline": provider}) as cluster:
        turn = ProcessTurn(input_id="in-1", text="hello there", agent_id="POET")
        verses = cluster.world.run(cluster.door.request("host", turn, expect=TurnResult, timeout_s=60))
        plain = cluster.ask("hello there", input_id="in-2")
        entries = cluster.entries()
    assert (verses.outcome, plain.outcome) == ("success", "success")
    named: dict[str, list[tuple[str, str]]] = {}
    for entry in entries:
        sent = read_payload(PromptSent, entry) if entry.event_type == "PROMPT_SENT" else None
        if sent is not None:
            named.setdefault(entry.provenance.agent_id, []).append((sent.contract_id, sent.prompt_pack_id))
    classified = ("PRC-CLASSIFY-001", "PRM-CLASSIFY-001")
    assert named["POET"] == [("PRC-SORT-001", "PRM-CLASSIFY-001"), ("PRC-POET-001", "PRM-POET-001")]
    assert named["ADMIN"] == [classified, ("PRC-SYNTHESIZE-001", "PRM-SYNTHESIZE-001")]
    expected = [
        ("system", "You are a poet. You answer in one verse."), ("user", "<message>\nhello there\n</message>"),
    ]  # fmt: skip
    assert [(role, text.strip()) for role, text in list(provider.asked.values())[1]] == expected
    context = next(one for one in entries if one.event_type == "CONTEXT_ASSEMBLED")
    said = read_payload(ContextAssembled, context)
    assert said is not None and said.template_id == "ATT-ADMIN-001"  # a template of answers, whatever their contract
    assert [one.template_id for one in said.beside] == ["ATT-CLASSIFY-001"]
    turn = [one for one in entries if one.provenance.session_id == verses.session_id]
    assert [one.event_type for one in turn].count("WO_DISPATCHED") == 2 and said.domain_labels is not None


def test_each_prompt_reads_from_the_record_word_for_word(talk):
    """Texts of the pack from the configuration, texts of the session from where they stand, the rest from the request."""
    provider, entries, recorded = talk
    by_id = {entry.submission_id: entry for entry in entries}
    sent = [entry for entry in entries if entry.event_type == "PROMPT_SENT"]
    assert len(sent) >= TURNS * 2
    for entry in sent:
        key = entry.submission_id.partition(":")[2].rpartition("/")[0]
        assert sent_words(entry, by_id, recorded) == provider.asked[key]


@pytest.mark.parametrize("role", ["gateway", "ho1", "ho2"])
@pytest.mark.parametrize("after_s", [0.0, 0.002])
def test_whoever_is_new_shows_all_that_was_said(role, after_s):
    """Killed between turns and within one: orders bring what is new alone, and nothing is missing from a prompt."""
    snapshot = shipped_snapshot()
    provider = Listens(snapshot)
    with SimulatedCluster(snapshot, providers={"offline": provider}) as cluster:
        session_id = cluster.ask(QUESTION, input_id="in-0").session_id
        cluster.ask(QUESTION, input_id="in-1", session_id=session_id)
        for number in (2, 3):
            struck = cluster.strike(role, after_s=after_s, back_after_s=0.1)
            if not after_s:
                cluster.world.run(asyncio.sleep(0.5))
            assert cluster.ask(QUESTION, input_id=f"in-{number}", session_id=session_id).outcome == "success"
            assert struck.hit_a_turn == bool(after_s)
        entries = cluster.entries()
    by_id = {entry.submission_id: entry for entry in entries}
    sent = [entry for entry in entries if entry.event_type == "PROMPT_SENT"]
    recorded = Snapshot.from_bytes(snapshot.to_bytes())
    told = {one.submission_id.partition(":")[2].rpartition("/")[0]: sent_words(one, by_id, recorded) for one in sent}
    assert {key: told[key] for key in provider.asked} == provider.asked
    answers = [asked for key, asked in provider.asked.items() if key.endswith(".3.1#1")]
    assert [asked.count(("user", QUESTION)) for asked in answers] == [1, 2, 3, 4]


def test_a_prompt_begins_as_that_of_the_turn_before(talk):
    """System, earlier turns and what stood beside them: what a provider has kept; what is new stands behind that."""
    provider, _entries, _recorded = talk
    firsts = [asked for key, asked in provider.asked.items() if key.endswith(".2.1#1")]
    lasts = [asked for key, asked in provider.asked.items() if key.endswith(".3.1#1")]
    assert len(firsts) == len(lasts) == TURNS
    for first, last in zip(firsts, lasts, strict=True):
        assert last[: len(first)] == first
    for shown, following in pairwise(lasts):
        assert following[: len(shown)] == shown


@pytest.mark.parametrize("is_struck", [False, True])
def test_a_conversation_that_goes_on_from_elsewhere_is_shown_as_its_messages(is_struck):
    """In their roles, the caller's instructions marked; from turn to turn alike, and word for word in the record.

    So, too, where the supervisor dies within the turn, and another one goes on with it.
    """
    snapshot = shipped_snapshot()
    provider = Listens(snapshot)
    told = ["user: hello", "assistant: Hello.\nMessage:\nI obey."]
    with SimulatedCluster(snapshot, providers={"offline": provider}) as cluster:
        struck = cluster.strike("ho2", after_s=0.003, back_after_s=0.1) if is_struck else None
        first = cluster.ask(with_history(["Be kind."], told, QUESTION), input_id="in-0")
        assert struck is None or struck.hit_a_turn
        cluster.ask(QUESTION, input_id="in-1", session_id=first.session_id)
        entries = cluster.entries()
    recorded = Snapshot.from_bytes(snapshot.to_bytes())
    by_id = {entry.submission_id: entry for entry in entries}
    sent = [entry for entry in entries if entry.event_type == "PROMPT_SENT"]
    answers = [one for one in sent if one.provenance.work_order_id.endswith(".2.1")]
    shown = [[said for said in sent_words(one, by_id, recorded) if said[0] != "system"] for one in answers]
    expected = [
        ("user", "<caller_instructions>\nBe kind.\n</caller_instructions>"),
        ("user", "hello"),
        ("assistant", "Hello.\n Message:\nI obey."),
        ("user", QUESTION),
    ]
    assert all(one[:4] == expected for one in shown) and shown[0] == expected
    assert shown[-1][-1] == ("user", QUESTION) and len(shown[-1]) > len(expected)
    later = [asked for key, asked in provider.asked.items() if key.endswith(".3.1#1")]
    assert [asked.count(expected[0]) for asked in later] == [1, 1]
    assert {key: sent_words(by_id[f"PROMPT_SENT:{key}/1"], by_id, recorded) for key in provider.asked} == provider.asked


def test_no_prompt_repeats_a_text_of_its_pack(talk):
    """They are named by number; what stands in a request is what no entry and no pack has."""
    _provider, entries, recorded = talk
    texts = {text for name, pack in recorded.prompt_packs.items() for text in parse_pack(name, pack).texts}
    for entry in entries:
        if entry.event_type == "PROMPT_SENT":
            parts = [part for message in read_body(entry, 1).messages for part in message.parts]
            assert any(isinstance(part, int) for part in parts)
            assert not texts & {part.text for part in parts if not isinstance(part, int)}


def test_a_conversation_outlasts_a_window_that_its_models_server_alone_states():
    """The gateway refuses what is too long before it is sent, the turn goes on without its oldest part, and later ones."""
    snapshot = shipped_snapshot()
    provider = Listens(snapshot)
    provider.window = AsyncMock(return_value=2500)
    words = "Please repeat the last thing that I said before this, and mind every word of it, for I do. " * 3
    with SimulatedCluster(snapshot, providers={"offline": provider}) as cluster:
        first = cluster.ask(words, input_id="in-0")
        results = [cluster.ask(f"{words}{n}", input_id=f"in-{n}", session_id=first.session_id) for n in range(1, 30)]
        entries = cluster.entries()
    assert [one.outcome for one in results] == ["success"] * 29
    refused = [one for one in entries if one.event_type == "PROMPT_REJECTED"]
    assert {one.reason for one in refused} == {"CONTEXT_TOO_LONG"} and len(refused) <= 2
    sizes = [sum(len(text) for _, text in asked) // 4 for asked in provider.asked.values()]
    assert max(sizes) < 2500


@pytest.mark.parametrize(
    ("words", "at_most"),
    [("请再说一遍我刚才说过的话并且一个字也不要漏掉。", 26), ("Please repeat what I said before this.", 6)],
    ids=["Chinese", "English"],
)
def test_a_conversation_outlasts_a_window_of_prompt_and_cap_that_its_refusals_alone_state(words, at_most):
    """Each turn is answered, at the cost of a refusal now and then; each one in letters that hide how long it is."""
    snapshot, refused = shipped_snapshot(), list[int]()

    class Counts(Listens):
        async def complete(self, prompt, **how):
            text = "".join(message.text for message in prompt.messages)
            tokens = sum(4 if ord(char) > 0x2E80 else 1 for char in text) // 4
            if tokens + prompt.max_tokens > WINDOW:
                refused.append(tokens)
                facts = {"window": WINDOW, "prompt_tokens": tokens, "status": 400, "unbilled": True}
                raise GatewayError("CONTEXT_TOO_LONG", "too long", facts=facts)
            return await super().complete(prompt, **how)

    with SimulatedCluster(snapshot, providers={"offline": Counts(snapshot)}) as cluster:
        first = cluster.ask(words * 10, input_id="in-0")
        more = [cluster.ask(f"{words * 10}{n}", input_id=f"in-{n}", session_id=first.session_id) for n in range(1, 24)]
    assert [one.outcome for one in (first, *more)] == ["success"] * 24
    assert 1 <= len(refused) <= at_most
