"""What a provider has at once: any number until it refuses, then what it bears, in turns between principals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.gateway_service.limits import CALLS_MAX
from tests.gateway_service.rig import Cluster, Counting, Scripted, check_attempts, of_type, snapshot

pytestmark = pytest.mark.slow


class Narrow(Counting):
    """A provider that answers so many at once, and refuses the others as it does."""

    def __init__(self, room: int, call_s: float = 5.0, *, status: int = 429) -> None:
        super().__init__(call_s)
        self.room, self.status, self.refused = room, status, 0

    async def act(self, _prompt: Prompt) -> PromptResponse:
        if self.at_work >= self.room:
            self.refused += 1
            code = "PROVIDER_RATE_LIMITED" if self.status == 429 else "PROVIDER_ERROR"
            raise GatewayError(code, str(self.status), retryable=True, facts={"status": self.status, "unbilled": True})
        return await self.answer()


def run(
    narrow: Narrow, number: int, timeout_s: float = 300.0, **settings: Any
) -> tuple[list[PromptResponse], float, Any]:
    """So many calls at once; their answers, and how long that took."""
    settings.setdefault("budget", {"session_token_limit": 10**9})
    cluster = Cluster(Scripted(narrow.act), **settings)
    try:
        began = cluster.ho1.clock.monotonic()

        async def all_of_them() -> list[PromptResponse]:
            return await asyncio.gather(*(cluster.ask(prompt(f"WO-{n}#1"), timeout_s) for n in range(number)))

        answers = cluster.run(all_of_them())
        took_s = cluster.ho1.clock.monotonic() - began
        check_attempts(cluster.run(cluster.entries(rests_s=2)))
        return answers, took_s, cluster.service._places["offline"]
    finally:
        cluster.close()


def test_waiting_calls_are_not_counted() -> None:
    """A thousand calls of 5 s at once take 5 s: nothing in this process counts those that wait."""
    answers, took_s, _ = run(Narrow(room=CALLS_MAX), 1000)
    assert {one.outcome for one in answers} == {"SUCCESS"}
    assert took_s < 7


def test_a_provider_that_takes_few_is_given_few_and_nobody_fails() -> None:
    narrow = Narrow(room=20, call_s=1.0)
    answers, took_s, places = run(narrow, 200)
    assert {one.outcome for one in answers} == {"SUCCESS"}
    assert took_s < 2.5 * 200 / 20
    assert narrow.refused < 2 * 200
    assert places.limit < 40


def test_a_configured_number_is_never_exceeded() -> None:
    one = snapshot().config.gateway.providers["offline"].model_dump() | {"concurrency_max": 3}
    narrow = Narrow(room=1000, call_s=0.1)
    answers, _, _ = run(narrow, 30, gateway={"providers": {"offline": one}})
    assert ({one.outcome for one in answers}, narrow.most) == ({"SUCCESS"}, 3)


def test_who_would_wait_beyond_its_time_is_refused_at_once() -> None:
    one = snapshot().config.gateway.providers["offline"].model_dump() | {"concurrency_max": 1}
    cluster = Cluster(Scripted(Narrow(room=9, call_s=1.0).act), gateway={"providers": {"offline": one}})
    try:

        async def turn() -> tuple[list[PromptResponse], PromptResponse, float]:
            await cluster.ask(prompt("WO-known#1"))  # how long a call takes is known from now on
            waiting = [asyncio.ensure_future(cluster.ask(prompt(f"WO-{n}#1"))) for n in range(10)]
            await cluster.ho1.sleep(0.1)
            began = cluster.ho1.clock.monotonic()
            refused = await cluster.ask(prompt("WO-late#1"), timeout_s=4)
            took_s = cluster.ho1.clock.monotonic() - began
            return await asyncio.gather(*waiting), refused, took_s

        answers, refused, took_s = cluster.run(turn())
        assert {one.outcome for one in answers} == {"SUCCESS"}
        assert (refused.outcome, refused.error_code) == ("REJECTED", "RATE_LIMITED")
        assert took_s < 1 and refused.retry_after_ms >= 8000
        assert len(of_type(cluster.run(cluster.entries(rests_s=2)), "PROMPT_SENT")) == 11
    finally:
        cluster.close()


def test_a_call_has_its_time_from_when_its_provider_is_asked() -> None:
    """`request_timeout_ms` bounds the answer, not the wait for a place before it."""
    one = snapshot().config.gateway.providers["offline"].model_dump() | {"concurrency_max": 1}
    gateway = {"providers": {"offline": one}, "request_timeout_ms": 2000}
    answers, took_s, _ = run(Narrow(room=9, call_s=1.5), 4, gateway=gateway)
    assert [one.outcome for one in answers] == ["SUCCESS"] * 4
    assert took_s > 5


def test_who_gives_up_while_it_waits_leaves_its_place_to_the_next() -> None:
    one = snapshot().config.gateway.providers["offline"].model_dump() | {"concurrency_max": 2}
    cluster = Cluster(Scripted(Narrow(room=9, call_s=1.0).act), gateway={"providers": {"offline": one}})
    try:

        async def turn() -> list[str]:
            asked = [asyncio.ensure_future(cluster.ask(prompt(f"WO-{n}#1"))) for n in range(8)]
            await cluster.ho1.sleep(0.5)
            asked[2].cancel()
            asked[5].cancel()
            await cluster.ho1.sleep(0.5)
            asked[3].cancel()
            rest = await asyncio.gather(*asked, return_exceptions=True)
            return [one.outcome for one in rest if isinstance(one, PromptResponse)]

        assert cluster.run(turn()) == ["SUCCESS"] * 5
        places = cluster.service._places["offline"]
        assert (places._at_work, len(places)) == (0, 0)
    finally:
        cluster.close()


def test_one_call_alone_that_is_refused_holds_up_nobody() -> None:
    """A quota or an overload that met a single call says nothing of how many go at once."""
    narrow = Narrow(room=0, call_s=1.0)
    cluster = Cluster(Scripted(narrow.act))
    try:

        async def turn() -> float:
            first = asyncio.ensure_future(cluster.ask(prompt("WO-a#1")))
            await cluster.ho1.sleep(0.01)
            narrow.room = CALLS_MAX
            await first
            began = cluster.ho1.clock.monotonic()
            await asyncio.gather(*(cluster.ask(prompt(f"WO-{n}#1")) for n in range(50)))
            return cluster.ho1.clock.monotonic() - began

        assert cluster.run(turn()) < 2
        assert narrow.refused == 1
    finally:
        cluster.close()


def test_what_somebody_waits_for_comes_before_late_labels_and_has_their_place_at_once() -> None:
    """Labels of one session hold the only place: the other session's answer takes it, and they are made behind it."""
    one = snapshot().config.gateway.providers["offline"].model_dump() | {"concurrency_max": 1}
    narrow = Narrow(room=1, call_s=10.0)
    cluster = Cluster(Scripted(narrow.act), gateway={"providers": {"offline": one}})
    try:

        async def turn() -> tuple[list[PromptResponse], list[str]]:
            ended: list[str] = []

            async def call(name: str) -> PromptResponse:
                answer = await cluster.ask(prompt(f"{name}#1"), timeout_s=100)
                ended.append(f"{name} {cluster.ho1.clock.monotonic() - began:.0f}")
                return answer

            began = cluster.ho1.clock.monotonic()
            asked = [asyncio.ensure_future(call("WO-SES-a-1.1.1.000"))]
            await cluster.ho1.sleep(4)
            asked.append(asyncio.ensure_future(call("WO-SES-c-1.1.1.000")))  # waits, and is let in last
            await cluster.ho1.sleep(1)
            asked += [asyncio.ensure_future(call(name)) for name in ("WO-SES-b-1.1.1", "WO-SES-d-1.1.1")]
            return await asyncio.gather(*asked), ended

        answers, ended = cluster.run(turn())
        assert {one.outcome for one in answers} == {"SUCCESS"}
        assert ended[:2] == ["WO-SES-b-1.1.1 15", "WO-SES-d-1.1.1 25"] and narrow.refused == 0
        entries = cluster.run(cluster.entries(rests_s=2))
        check_attempts(entries)
        assert [one.reason for one in of_type(entries, "PROMPT_FAILED")] == ["CANCELLED"]
        places = cluster.service._places["offline"]
        assert (places._at_work, len(places), places._lent) == (0, 0, [])
    finally:
        cluster.close()
