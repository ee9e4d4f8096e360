"""Whole seeds: they hold, they can fail, and the same seed gives the same bytes whatever the interpreter hashes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cache
from itertools import count
from typing import Any

import pytest

from hobus.actors.ho1_executor.tools.in_process import InProcessHost
from hobus.bus.messages.session import TurnResult
from hobus.bus.sim.disk import SimFile, SimMedium
from hobus.bus.sim.world import World
from hobus.config.files import Layers
from hobus.gateway_service.sending import Sender
from hobus.launch.lab import simulated
from hobus.launch.lab.simulation import conversation
from hobus.launch.lab.simulation import run as lab_run
from hobus.launch.lab.simulation.faults import parse
from hobus.launch.lab.simulation.outside import Outside
from hobus.launch.lab.simulation.plan import make_plan
from hobus.launch.lab.simulation.record import Broken
from hobus.launch.lab.simulation.run import SeedVerdict, simulate
from hobus.launch.sessions.turns import process_turn

pytestmark = pytest.mark.slow


def verdict_of(
    seed: int, faults: str = "all", *, turns: int = 1, until: int | None = None, trace: list[str] | None = None
) -> SeedVerdict:
    plan = make_plan(seed, turns=turns, sessions=None, faults=parse(faults))
    return simulate(plan, until=until, trace=None if trace is None else trace.append)


@cache
def digest_without_faults() -> str:
    return verdict_of(11, "none", turns=1).digest


@pytest.mark.parametrize("seed", [0, 1])
def test_a_few_seeds_hold(seed: int) -> None:
    verdict = verdict_of(seed, turns=2)
    assert verdict.holds, verdict.broken
    assert set(verdict.answers) == {"in-0", "in-1"}


@pytest.mark.parametrize(
    "faults",
    ["loss=0.05", "duplicate=0.5", "delay=20ms,reorder=0.3,slow-link=50ms", "partition=3", "torn-disk=3", "freeze=2",
     "disk-full,sync-error=2", "provider-error=0.5,slow-provider=3s", "clock-jump=2h", "crash=4"],
)  # fmt: skip
def test_each_fault_alone_does_something_and_breaks_nothing(faults: str) -> None:
    """Another run than without it, and every invariant holds."""
    verdict = verdict_of(11, faults, turns=1)
    assert verdict.holds, verdict.broken
    assert verdict.digest != digest_without_faults()


def test_the_run_stops_behind_the_event_that_is_named() -> None:
    """So that a failure is looked at where it happened; the events before are the same ones."""
    trace: list[str] = []
    whole = verdict_of(3, trace=trace)
    stopped = verdict_of(3, until=200)
    assert (stopped.stopped, stopped.holds, stopped.event) == (True, True, 200)
    assert whole.events == len(trace) > 200
    assert stopped.last[-1] == trace[199]


def test_a_run_that_stops_while_its_cluster_begins_leaves_no_loop_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would have closed it never got it."""
    made: list[World] = []

    def world(*given: Any, **named: Any) -> World:
        made.append(World(*given, **named))
        return made[-1]

    monkeypatch.setattr(simulated, "World", world)
    assert verdict_of(3, until=3).stopped
    assert [one.loop.is_closed() for one in made] == [True]


@pytest.mark.process
def test_the_same_seed_gives_the_same_bytes_under_another_hash_seed() -> None:
    """In interpreters of their own, whose sets and hashes differ."""
    found = [_digest_under(str(hash_seed)) for hash_seed in (0, 1)]
    assert found[0] == found[1]


def _digest_under(hash_seed: str) -> str:
    command = [sys.executable, "-m", "hobus", "simulate", "--seed", "5", "--turns", "2", "--json"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True, timeout=120
    )
    digest: str = json.loads(done.stdout)["digest"]
    return digest


@pytest.mark.parametrize("seed", [500126, 500517, 503535])
def test_a_seed_that_once_broke_holds(seed: int) -> None:
    """The gateway's spool was not read; a lane went while the broker was away; a last resort's end stood behind a prompt."""
    assert verdict_of(seed, turns=3).broken == ""


# --- planted: a run must be able to fail ------------------------------------------------------------------------------


def test_a_model_that_is_called_before_its_record_is_durable_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that forgets to wait is found out at the first call."""

    async def at_once(*_: object) -> None:
        return None

    monkeypatch.setattr(Sender, "record_sent", at_once)
    assert "before its PROMPT_SENT is durable" in verdict_of(1, "none").broken


def test_an_acknowledgement_before_the_sync_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that does not sync is found out at its first answer."""
    monkeypatch.setattr(SimFile, "sync", lambda _self: None)
    verdict = verdict_of(1, "none")
    assert "is acknowledged as entry" in verdict.broken
    assert verdict.last[-1].endswith(f"BROKEN: {verdict.broken}")


def test_a_disk_that_forgets_what_was_synced_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losing what was acknowledged is seen at the crash itself, or by what the ledger then writes."""
    monkeypatch.setattr(SimMedium, "crash", _forget)
    assert any("lost what was durable" in verdict_of(seed, "torn-disk=4").broken for seed in range(3))


def test_an_answer_behind_its_deadline_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits longer than it said, by however little, is found out."""
    monkeypatch.setattr(conversation, "ASK_S", 2.0)

    async def late(*given: Any, **named: Any) -> TurnResult:
        told = await process_turn(*given, **named)
        await asyncio.sleep(conversation.ASK_S)
        return told

    monkeypatch.setattr(conversation, "process_turn", late)
    assert "beyond its deadline" in verdict_of(1, "none").broken


def test_a_second_and_different_answer_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the same input was told before is what it is told ever after."""
    monkeypatch.setattr(conversation, "process_turn", _changed(lambda count: f"answer {count}"))
    assert "is answered twice, and not alike" in verdict_of(1, "none").broken


def test_an_answer_that_is_not_the_recorded_one_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told alike each time, and never recorded so."""
    monkeypatch.setattr(lab_run, "REST_S", 2.0)
    monkeypatch.setattr(conversation, "process_turn", _changed(lambda _count: "made up"))
    broken = verdict_of(1, "none").broken
    assert "told 'made up', recorded " in broken


def _changed(words: Callable[[int], str]) -> Callable[..., Awaitable[TurnResult]]:
    """A client's turn whose answer is changed on the last step of its way."""
    asked = count(1)

    async def changed(*given: Any, **named: Any) -> TurnResult:
        told = await process_turn(*given, **named)
        return told.model_copy(update={"response": words(next(asked))})

    return changed


def _forget(medium: SimMedium, _draw: object) -> None:
    medium.locks.clear()
    for file in medium.files.values():
        file.content[:] = bytes(len(file.content))


async def _nobody(*_: object) -> dict[str, object]:
    raise AssertionError("a letter asks nobody")


def test_a_success_without_its_effect_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is told of a booking nobody made is found out at the end."""

    async def book(*_: object) -> dict[str, int]:
        return {"number": 1}

    monkeypatch.setattr(Outside, "book", book)
    assert any("booked, it was said: 0" in verdict_of(seed, "none").broken for seed in range(2, 8))


async def test_a_letter_that_is_sent_twice_is_reported() -> None:
    """The tool itself says so, at that moment."""
    found: list[Broken] = []
    outside = Outside(found.append)

    host = InProcessHost({}, {"wo_id": "WO-1", "idempotency_key": "k"}, _nobody, None)
    await outside.send({}, host)
    assert found == []
    await outside.send({}, host)
    assert [str(one) for one in found] == ["the letter of WO-1 is sent twice"]
    assert outside.sent == Counter({"WO-1": 2})


def test_a_home_with_another_provider_is_simulated_with_the_embedded_rules(tmp_path) -> None:
    """Whatever its models are called, none of them is asked; the cluster holds."""
    free = {"sees": False, "input_usd_per_million": 0.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}
    there = {
        "kind": "openai", "base_url": "http://127.0.0.1:9/v1", "key": None, "any_model": False, "concurrency_max": None,
        "models": [{"model_id": "m1", **free}], "max_tokens_field": "max_tokens", "structured": "json_schema", "omit": [],
    }  # fmt: skip
    own = {"gateway": {"providers": {"far": there}, "default_route": {"provider_id": "far", "model_id": "m1"}}}
    (tmp_path / "admin_config.json").write_text(json.dumps(own))
    plan = make_plan(7, turns=1, sessions=None, faults=parse("none"))
    verdict = simulate(plan, layers=Layers(own=tmp_path))
    assert verdict.holds, verdict.broken
    assert set(verdict.answers.values()) == {"success"}
