"""Files of tools in a whole turn: kept in the record, shown to a model that sees, told to another, the same after a crash."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus import File, Image
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.messages.ids import derive_body_ref
from hobus.bus.record.payload import unpack_payload
from hobus.bus.record.payloads.prompts import SentRequest
from hobus.config import limits
from hobus.config.schema import AdminConfig
from tests.journals import check_record
from tests.simulated import SimulatedCluster
from tests.simulation.turns import CLASSIFY, AsksForTools, with_tools

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


class Sees(AsksForTools):
    """Remembers the images that each prompt after a tool showed it."""

    def __init__(self) -> None:
        self.shown: list[list[tuple[str, str, bytes]]] = []

    async def complete(self, prompt: Any, **how: Any) -> Any:
        if prompt.contract_id != CLASSIFY and any(message.role == "tool" for message in prompt.messages):
            images = [image for message in prompt.messages for image in message.images]
            self.shown.append([(image.name, image.media_type, image.data) for image in images])
        return await super().complete(prompt, **how)


def drawing(*files: File, idempotent: bool = True) -> ToolDefinition:
    """A tool that brings these."""

    async def run(_arguments: Any, _host: Any) -> Any:
        return ["here:", *files]

    schema = {"type": "object", "properties": {}}
    return ToolDefinition("draw", "draws", schema, idempotent, run, source="python")


def cluster_with(tool: ToolDefinition, provider: Sees, *, sees: bool) -> SimulatedCluster:
    """A cluster whose agents have the tool."""
    config = shipped_snapshot().config.model_dump()
    for model in config["gateway"]["providers"]["offline"]["models"]:
        model["sees"] = sees
    snapshot = dataclasses.replace(shipped_snapshot(), config=AdminConfig.model_validate(config))
    return SimulatedCluster(with_tools(snapshot, tool), providers={"offline": provider}, tools={"draw": tool})


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("sees", [True, False])
def test_an_image_is_shown_to_a_model_that_sees_and_told_to_another(sees: bool, idempotent: bool):
    """Its bytes are a body of the order's end; the turn names it; the request's record says what was shown."""
    provider = Sees()
    tool = drawing(Image(data=PNG, name="chart.png"), File(data=b"1,2", name="t.csv"), idempotent=idempotent)
    with cluster_with(tool, provider, sees=sees) as cluster:
        result = cluster.ask("draw", input_id="in-1")
        entries = cluster.entries()
        assert cluster.verify().ok
    text = f'["here:", "[image chart.png, image/png, {len(PNG)} bytes]", "[file t.csv, text/csv, 3 bytes]"]'
    assert result.response == f"done: {text}"
    assert provider.shown == [[("chart.png", "image/png", PNG)] if sees else []]
    bodies = {
        derive_body_ref(entry.submission_id, number): body
        for entry in entries
        for number, body in enumerate(entry.bodies)
    }
    (call,) = result.tool_calls
    assert [(file.name, file.media_type, bodies[file.ref]) for file in call.files] == [
        ("chart.png", "image/png", PNG),
        ("t.csv", "text/csv", b"1,2"),
    ]
    sent = [
        unpack_payload(SentRequest, entry.bodies[1] or b"") for entry in entries if entry.event_type == "PROMPT_SENT"
    ]
    assert [request.images for request in sent if request.images] == ([(call.files[0].ref,)] if sees else [])
    check_record(entries)


def test_a_file_that_is_too_large_is_told_and_the_call_goes_on(monkeypatch: pytest.MonkeyPatch):
    """Neither the record nor a model has it."""
    monkeypatch.setattr(limits, "FILES_MAX_BYTES", 100)
    provider = Sees()
    with cluster_with(drawing(Image(data=PNG, name="chart.png")), provider, sees=True) as cluster:
        result = cluster.ask("draw", input_id="in-1")
    assert "chart.png, image/png, 264 bytes, not kept: at most 100 bytes of files are]" in result.response
    assert (provider.shown, result.tool_calls[0].files) == ([[]], [])


def test_what_is_no_image_is_not_shown_whatever_its_tool_says():
    """A provider would refuse the whole request; the type that counts is that of the bytes."""
    provider = Sees()
    lies = (Image(data=b"<svg/>", media_type="image/png", name="a"), Image(data=PNG, media_type="image/jpeg", name="b"))
    with cluster_with(drawing(*lies), provider, sees=True) as cluster:
        assert cluster.ask("draw", input_id="in-1").outcome == "success"
    assert provider.shown == [[("b", "image/png", PNG)]]


@pytest.mark.parametrize("role", ["ho1", "ho2", "gateway"])
def test_a_turn_that_goes_on_after_a_crash_shows_the_same_bytes(role: str):
    """A process dies at moment after moment, so also between the end of the tool and the next round."""
    provider, moment_s, struck = Sees(), 0.0, 0
    with cluster_with(drawing(Image(data=PNG, name="chart.png")), provider, sees=True) as cluster:
        while True:
            strike = cluster.strike(role, after_s=moment_s, back_after_s=0.5)
            result = cluster.ask("draw", input_id=f"in-{struck}")
            cluster.world.run(asyncio.sleep(1))
            assert result.outcome in ("success", "degraded"), (role, moment_s, result.code)
            if result.outcome == "success":
                assert [file.name for file in result.tool_calls[0].files] == ["chart.png"]
            if not strike.hit_a_turn:
                break
            struck += 1
            moment_s += 0.0015
        entries = cluster.entries()
        assert cluster.verify().ok
    assert struck >= 3
    assert {tuple(shown) for shown in provider.shown} == {(("chart.png", "image/png", PNG),)}
    check_record(entries)
