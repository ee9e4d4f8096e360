"""Streamed answers over the whole simulated cluster: provisional, taken back when wrong, and never a part of the record."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.codec import unpack_header
from hobus.bus.envelope import Kind
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import LaneFrames
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.port import Bus
from hobus.bus.sim.network import SimNetwork
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from tests.actors.ho2_supervisor.rig import CLASSIFIED
from tests.bus.test_streaming import shown
from tests.gateway_service.rig import snapshot
from tests.journals import check_record, list_answers, masked_journal
from tests.simulated import SimulatedCluster

QUESTION = "what packages are installed?"


def slow(latency_ms: int = 800, **sections: dict[str, Any]) -> Snapshot:
    """The shipped configuration with a model that takes its time."""
    providers: dict[str, Any] = shipped_snapshot().config.gateway.model_dump()["providers"]
    providers["offline"]["latency_ms"] = latency_ms
    return snapshot(gateway={"providers": providers}, **sections)


def test_the_pieces_of_an_answer_are_the_answer():
    """Word by word, in order, of the one order that writes it; the classification is not shown."""
    frames: list[Message] = []
    with SimulatedCluster(slow()) as cluster:
        result = cluster.ask(QUESTION, input_id="in-1", on_stream=frames.append)
    assert shown(frames) == result.response
    assert len(frames) > 10 and all(isinstance(frame, StreamDelta) for frame in frames)
    assert {frame.run for frame in frames if isinstance(frame, StreamDelta)} == {str(result.run_id)}


@pytest.fixture
def kinds(monkeypatch) -> Counter[int]:
    """How many frames of each kind went from a process to a server; control, and what tells the tap, left out."""
    counted, to_server = Counter[int](), SimNetwork.to_server

    def counting(network: SimNetwork, connection: Any, header: bytes, body: bytes) -> None:
        head = unpack_header(header)
        asks_or_answers = (Kind.REQUEST, Kind.REPLY, Kind.FAILURE, Kind.POST, Kind.STREAM)
        if head.kind in asks_or_answers and head.type != LaneFrames.TYPE:
            counted[int(head.kind)] += 1
        to_server(network, connection, header, body)

    monkeypatch.setattr(SimNetwork, "to_server", counting)
    return counted


def test_streaming_changes_no_byte_of_the_record_and_who_does_not_ask_gets_no_frame(kinds):
    """With and without: equal entries; the only further frames are stream frames."""
    plain, record = recorded_turn(None)
    without = Counter(kinds)
    kinds.clear()
    frames: list[Message] = []
    streamed, record_of_streamed = recorded_turn(frames.append)
    assert record_of_streamed == record
    assert streamed.response == plain.response
    assert int(Kind.STREAM) not in without
    assert (
        kinds.pop(int(Kind.STREAM)) == 2 * len(frames) > 0
    )  # HO2 and host pass every piece on; gateway and HO1 answer by lanes
    assert kinds == without


def recorded_turn(on_stream: Callable[[Message], None] | None) -> tuple[TurnResult, list[Any]]:
    """One turn, and all that was recorded of it, masked."""
    with SimulatedCluster(slow()) as cluster:
        result = cluster.ask(QUESTION, input_id="in-1", on_stream=on_stream)
        entries = cluster.entries()
    return result, [*masked_journal(entries), *[entry.submission_id for entry in entries]]


def ask_and_kill(
    cluster: SimulatedCluster, role: str, *, after: int, input_id: str = "in-1"
) -> tuple[TurnResult, list[Message]]:
    """A streamed turn in which the process of this role that is at work dies after so many pieces."""
    frames: list[Message] = []

    def on_stream(frame: Message) -> None:
        frames.append(frame)
        if len(frames) == after:
            cluster.world.loop.call_soon(_kill_busy(cluster, role))
            cluster.world.loop.call_later(0.1, cluster.start, role)

    return cluster.ask(QUESTION, input_id=input_id, on_stream=on_stream), frames


def _kill_busy(cluster: SimulatedCluster, role: str) -> Callable[[], None]:
    own = [(name, one.peer) for name, one in cluster.world.processes.items() if name.startswith(f"{role}/")]
    victim = next(name for name, peer in own if len(peer._inbox))
    return lambda: cluster.world.kill(victim)


@pytest.mark.parametrize("afters", [(1, 20), (7,)])
@pytest.mark.parametrize("role", ["ho1", "ho2", "gateway"])
def test_whoever_dies_in_the_middle_of_an_answer_its_pieces_are_taken_back(role, afters):
    """A reset is seen, then a whole new beginning or nothing; the reply is the one answer, and the record is whole."""
    with SimulatedCluster(slow()) as cluster:
        for after in afters:
            result, frames = ask_and_kill(cluster, role, after=after, input_id=f"in-{after}")
            assert result.outcome == "success", after
            resets = [frame.reason for frame in frames if isinstance(frame, StreamReset)]
            assert resets[:1] == ["take_over" if role == "ho2" else "retry"], after
            assert shown(frames) in ("", result.response), after
        entries = cluster.entries()
    assert [len(list_answers(entries, f"in-{after}")) for after in afters] == [1] * len(afters)
    check_record(entries)


def test_a_host_that_dies_in_the_middle_leaves_a_hole_that_shows_nothing_wrong():
    """Its successor passes on what comes; the client sees a hole and waits for the reply."""
    with SimulatedCluster(slow()) as cluster:
        result, frames = ask_and_kill(cluster, "host", after=5)
    assert result.outcome == "success"
    assert shown(frames) in ("", result.response)


def test_text_before_tools_is_taken_back():
    """A round that spoke and then asked for tools was no answer."""
    frames: list[Message] = []
    with SimulatedCluster(slow(), providers={"offline": Talkative()}) as cluster:
        result = cluster.ask(QUESTION, input_id="in-1", on_stream=frames.append)
    assert result.response == "done"
    assert [frame.reason for frame in frames if isinstance(frame, StreamReset)] == ["tools"]
    assert shown(frames) == "done"
    said = "".join(frame.text for frame in frames if isinstance(frame, StreamDelta))
    assert said == "let me see" + "done"


def test_a_rejected_answer_is_taken_back_before_the_next_try():
    """The quality gate said no; what was shown of it goes, and the second try is shown."""
    frames: list[Message] = []
    with SimulatedCluster(
        slow(0, quality_gate={"min_response_length": 5}), providers={"offline": Improving()}
    ) as cluster:
        result = cluster.ask("hello", input_id="in-1", on_stream=frames.append)
    assert (result.response, result.quality_gate_passed) == ("long enough now", True)
    assert [frame.reason for frame in frames if isinstance(frame, StreamReset)] == ["rejected"]
    assert shown(frames) == result.response


def test_a_degraded_reply_is_announced_by_a_reset():
    """No supervisor comes back: what was shown is taken back before the last resort answers."""
    frames: list[Message] = []
    with SimulatedCluster(slow()) as cluster:

        def on_stream(frame: Message) -> None:
            frames.append(frame)
            if len(frames) == 3:
                cluster.world.loop.call_soon(_kill_busy(cluster, "ho2"))

        result = cluster.ask(QUESTION, input_id="in-1", on_stream=on_stream)
    assert result.outcome == "degraded"
    assert [frame.reason for frame in frames if isinstance(frame, StreamReset)][-1] == "degraded"
    assert shown(frames) == ""


def test_two_who_wait_for_one_input_both_see_it_from_its_beginning():
    """Who attaches in the middle is told what stands."""
    early: list[Message] = []
    late: list[Message] = []
    turn = ProcessTurn(input_id="in-1", text=QUESTION, stream=True)
    with SimulatedCluster(slow()) as cluster:
        doors = [cluster.world.client("door", lanes=()) for _ in range(2)]

        async def scenario() -> list[TurnResult]:
            async with asyncio.TaskGroup() as group:
                first = group.create_task(ask(doors[0], early))
                while len(early) < 10:
                    await asyncio.sleep(0.01)
                second = group.create_task(ask(doors[1], late))
            return [first.result(), second.result()]

        async def ask(door: Bus, frames: list[Message]) -> TurnResult:
            return await door.request("host", turn, expect=TurnResult, timeout_s=30, on_stream=frames.append)

        first, second = cluster.world.run(scenario())
    assert first.response == second.response
    assert shown(early) == shown(late) == first.response


def _response(text: str, calls: Sequence[ToolCall] = ()) -> PromptResponse:
    return PromptResponse(
        outcome="SUCCESS", content=text, tool_calls=list(calls), input_tokens=5, output_tokens=5, model_id="m"
    )


class Talkative:
    """Says something, then asks for a tool; then answers."""

    provider_id = "offline"

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(self, prompt, *, model_id, timeout_s, on_delta=None):
        del model_id, timeout_s
        if prompt.contract_id.startswith("PRC-CLASSIFY"):
            return _response(json.dumps(CLASSIFIED))
        is_first = not any(message.role == "tool" for message in prompt.messages)
        text = "let me see" if is_first else "done"
        for word in re.findall(r"\s*\S+", text):
            on_delta(word)
        asked = ToolCall(call_id="001", tool_id="list_packages", arguments={})
        return _response(text, [asked] if is_first else [])


class Improving:
    """A first answer that is too short."""

    provider_id = "offline"

    def __init__(self) -> None:
        self.asked = 0

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(self, prompt, *, model_id, timeout_s, on_delta=None):
        del model_id, timeout_s
        if prompt.contract_id.startswith("PRC-CLASSIFY"):
            return _response(json.dumps(CLASSIFIED))
        self.asked += 1
        text = "no" if self.asked == 1 else "long enough now"
        on_delta(text)
        return _response(text)


class Timed(OfflineProvider):
    """The shipped model, which notes when each kind of prompt comes."""

    def __init__(self) -> None:
        chars = shipped_snapshot().config.attention.chars_per_token
        super().__init__(provider_id="offline", latency_ms=800, chars_per_token=chars, sleep=asyncio.sleep)
        self.asked: dict[str, float] = {}

    async def complete(self, prompt: Any, **how: Any) -> PromptResponse:
        self.asked[prompt.contract_id] = asyncio.get_running_loop().time()
        return await super().complete(prompt, **how)


@pytest.mark.parametrize(
    ("is_heard", "tools", "waits"), [(True, (), True), (False, (), False), (True, ("list_tools",), False)]
)
def test_what_is_asked_beside_an_answer_that_is_heard_waits_for_its_first_word(
    is_heard: bool, tools: tuple[str, ...], waits: bool
):
    """One model server does not work at both before the person reads anything.

    Whom nobody hears, or whose first word may stand behind calls of tools, is not to wait for the labels: both at once.
    """
    shipped, provider, told = shipped_snapshot(), Timed(), list[float]()
    agent = shipped.agents["ADMIN"].model_copy(update={"classification": "beside", "tools": tools})
    beside = replace(shipped, agents={**shipped.agents, "ADMIN": agent})
    with SimulatedCluster(beside, providers={"offline": provider}) as cluster:

        def on_stream(_: Message) -> None:
            told.append(cluster.world.loop.time())

        assert cluster.ask("hello", input_id="in-1", on_stream=on_stream if is_heard else None).outcome == "success"
    answer_at, labels_at = sorted(provider.asked.values())
    assert labels_at >= told[0] > answer_at if waits else labels_at - answer_at < 0.005
