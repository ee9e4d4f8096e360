"""What the gateway says while a provider answers, to everybody who waits for that call and asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.messages.base import Message
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.bus.port import Anew, Used
from hobus.launch.http.openai_answers import Delivered
from tests.bus.test_streaming import shown
from tests.gateway_service.rig import Cluster, Scripted, answered, check_attempts, hang, payload
from tests.rig import of_type


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def says(
    cluster: Cluster, *words: str, then: PromptResponse | GatewayError | None = None, pause_s: float = 0.1
) -> None:
    """From now on the provider says these words, then answers with all of them, or with `then`."""

    async def act(_prompt: Prompt) -> PromptResponse:
        for word in words:
            await asyncio.sleep(pause_s)
            if cluster.provider.on_delta is not None:
                cluster.provider.on_delta(word)
        if isinstance(then, GatewayError):
            says(cluster, "second ", "try")
            raise then
        return then or answered("".join(words))

    cluster.provider.act = act


async def ask(cluster: Cluster, frames: list[Message], wanted: Prompt, message_id: str | None = None) -> PromptResponse:
    """The response; stream frames go to `frames`."""
    return await cluster.ho1.request(
        "gateway", wanted, expect=PromptResponse, timeout_s=30, on_stream=frames.append, message_id=message_id
    )


def test_the_words_are_told_in_order_and_nobody_else_gets_a_frame(cluster):
    says(cluster, "one ", "two ", "three")
    frames: list[Message] = []
    response = cluster.run(ask(cluster, frames, prompt(stream=True)))
    assert shown(frames) == response.content == "one two three"
    assert {frame.step for frame in frames if isinstance(frame, StreamDelta)} == {"WO-a"}
    quiet: list[Message] = []
    cluster.run(ask(cluster, quiet, prompt("WO-b#1")))
    assert quiet == [] and cluster.provider.on_delta is None


def test_who_joins_a_call_in_flight_hears_it_from_its_beginning(cluster):
    """One provider call, two listeners; a remembered answer says nothing any more."""
    says(cluster, "one ", "two ", "three")
    early: list[Message] = []
    late: list[Message] = []

    async def both() -> list[PromptResponse]:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(cluster, early, prompt(stream=True), "first"))
            await asyncio.sleep(0.25)
            second = group.create_task(ask(cluster, late, prompt(stream=True), "second"))
        return [first.result(), second.result()]

    first, second = cluster.run(both())
    assert first == second and cluster.provider.calls == 1
    assert shown(early) == shown(late) == "one two three"
    again: list[Message] = []
    assert cluster.run(ask(cluster, again, prompt(stream=True), "third")) == first
    assert again == []


def test_a_failed_attempt_is_taken_back_before_the_next_one_speaks(cluster):
    says(cluster, "first ", "try", then=GatewayError("PROVIDER_TIMEOUT", "slow", retryable=True))
    frames: list[Message] = []
    response = cluster.run(ask(cluster, frames, prompt(stream=True)))
    assert (response.content, response.attempts) == ("second try", 2)
    assert [frame.reason for frame in frames if isinstance(frame, StreamReset)] == ["retry"]
    assert shown(frames) == "second try"
    assert [frame.attempt for frame in frames if isinstance(frame, StreamDelta)] == [1, 1, 2, 2]
    check_attempts(cluster.run(cluster.entries(rests_s=2)))


def test_what_was_only_thought_is_taken_back_at_once(cluster):
    """Also what was held for the next frame; OpenAI's stream goes on in a paragraph, and says nothing twice."""
    says(cluster, "secret ", "stuff", Anew("vis"), "ible", then=answered("visible"))
    frames: list[Message] = []
    response = cluster.run(ask(cluster, frames, prompt(stream=True)))
    assert [frame.reason for frame in frames if isinstance(frame, StreamReset)] == ["thought"]
    assert shown(frames) == response.content == "visible"
    sent = Delivered()
    told = "".join([*map(sent.take, frames), sent.finish(response.content)])
    assert told == "secret stuff\n\nvisible"


def test_a_stream_that_its_client_closes_is_charged_as_its_provider_says(cluster):
    """Not by the lengths of what was asked and came."""
    cut = Used()
    cut.tokens = {"input_tokens": 20, "output_tokens": 1, "cached_tokens": 8}

    async def act(_prompt: Prompt) -> PromptResponse:
        tell = cluster.provider.on_delta
        assert tell is not None
        tell("x" * 40)
        try:
            return await hang(_prompt)
        finally:
            tell(cut)

    async def give_up():
        heard: list[Message] = []
        call = asyncio.ensure_future(ask(cluster, heard, prompt(stream=True, text="y" * 400)))
        while not shown(heard):
            await asyncio.sleep(0.1)
        call.cancel()
        return await cluster.entries(rests_s=2)

    cluster.provider.act = act
    [failed] = of_type(cluster.run(give_up()), "PROMPT_FAILED")
    assert payload(failed).tokens == 21 and "as it says" in payload(failed).message


def test_what_a_provider_says_fails_no_call(cluster):
    says(cluster, "a\ud800", "x" * (cluster.config.ledger.bodies_max_bytes + 1), then=answered("fine"))
    frames: list[Message] = []
    assert cluster.run(ask(cluster, frames, prompt(stream=True))).content == "fine"
    assert cluster.provider.on_delta is not None
    cluster.provider.on_delta("late")
    assert all(not isinstance(frame, StreamDelta) or "late" not in frame.text for frame in frames)
    assert isinstance(cluster.provider, Scripted)


def test_who_comes_in_the_place_of_a_dead_asker_hears_it_from_its_beginning_and_on(cluster):
    """The same id by a successor: one provider call, and its words go on as they come, not in one piece at the end."""
    says(cluster, *(f"{number} " for number in range(20)))
    frames: list[Message] = []
    halfway: list[str] = []

    async def taken_over() -> PromptResponse:
        first = asyncio.ensure_future(ask(cluster, [], prompt(stream=True), "WO-a#1"))
        await asyncio.sleep(0.55)
        cluster.world.kill(cluster.ho1.instance)
        cluster.ho1 = cluster.world.client("ho1")
        second = asyncio.ensure_future(ask(cluster, frames, prompt(stream=True), "WO-a#1"))
        await asyncio.sleep(0.5)
        halfway.append(shown(frames))
        response = await second
        first.cancel()
        return response

    response = cluster.run(taken_over())
    assert response.content == shown(frames) and cluster.provider.calls == 1
    assert halfway[0].startswith("0 1 2 ") and 6 < len(halfway[0].split()) < 15


@pytest.mark.parametrize("is_streamed", [True, False])
def test_an_answer_that_comes_whole_is_bounded_by_its_setting_and_one_in_pieces_is_not(is_streamed):
    """The caller's deadline bounds both; the fault says which bound it was."""
    made = Cluster(gateway={"request_timeout_ms": 6000})
    says(made, *["word "] * 20, pause_s=1.0)
    response = made.run(ask(made, [], prompt(stream=is_streamed)))
    if is_streamed:
        assert (response.outcome, response.content) == ("SUCCESS", "word " * 20)
    else:
        assert (response.outcome, response.error_code) == ("TIMEOUT", "PROVIDER_TIMEOUT")
        assert "within 6.0 s (gateway.request_timeout_ms)" in response.error_message
    check_attempts(made.run(made.entries()))
    made.close()
