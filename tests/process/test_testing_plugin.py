"""`hobus.testing` as a user has it: pytest in a directory of their own, an agent, scripts and cassettes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.started_here import ROOT

pytestmark = pytest.mark.process

APP = '''
from __future__ import annotations

from pathlib import Path

from hobus import Agent, Invocation, tool


@tool
def weather(city: str, days: int = 1) -> str:
    """Weather of a city, in one line."""
    with Path(__file__).with_name("ran").open("a") as file:
        file.write("sync ")
    return f"Sunny in {city}"


@tool
async def tides(at: Invocation, harbour: str) -> dict[str, int]:
    """Tides of a harbour."""
    with Path(__file__).with_name("ran").open("a") as file:
        file.write("async ")
    return {"metres": len(harbour)}


@tool(idempotent=True, writes=False)
def is_far(city: str) -> bool:
    """Whether a city is far."""
    return city == "Tokyo"


clerk = Agent("clerk", instructions="Answer in one sentence.", tools=[weather])
sailor = Agent("sailor", instructions="Answer in one sentence.", tools=[weather, tides])
'''
EXAMPLE, _ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.DOTALL)


def pytest_in(directory: Path, *words: str, **modules: str) -> tuple[int, str]:
    """Exit code and output of pytest on these modules, with the plugin alone."""
    (directory / "app.py").write_text(APP)
    for name, text in modules.items():
        (directory / f"test_{name}.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist", *words],
        cwd=directory, env=os.environ | {"PYTHONPATH": str(directory)}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


both = pytest.mark.parametrize("backend", ["processes", "simulated"])


SCRIPTS = """

def test_the_script_is_too_short(hobus_cluster):
    hobus_cluster.use(ScriptedModel([call("weather", city="Paris")]))
    hobus_cluster.ask("How is it?")


def test_the_script_is_too_long(hobus_cluster):
    hobus_cluster.use(ScriptedModel(["a", "b"]))
    assert hobus_cluster.ask("How is it?").text == "a"


def test_nobody_wrote_a_script(hobus_cluster):
    hobus_cluster.ask("How is it?")


def test_a_provider_refuses(hobus_cluster):
    hobus_cluster.use(ScriptedModel([RuntimeError("no money left")]))
    hobus_cluster.ask("How is it?")
"""

APPROVED = """
from dataclasses import replace

from app import clerk, weather
from hobus.testing import ScriptedModel, call

hobus_agents = [replace(clerk, approval=[weather])]


def test_a_person_approves(hobus_cluster):
    hobus_cluster.use(ScriptedModel([call("weather", city="Paris"), "Sunny."]))
    session = hobus_cluster.start()
    for piece in hobus_cluster.stream("How is it?", session_id=session):
        for held in piece.data.get("held_calls", []):
            hobus_cluster.approve(session, held["call_id"])
    assert piece.result.text == "Sunny."


def test_it_fails_in_the_middle_of_a_turn(hobus_cluster):
    hobus_cluster.use(ScriptedModel([call("weather", city="Paris"), "Sunny."]))
    for piece in hobus_cluster.stream("How is it?"):
        if piece.data.get("held_calls"):
            assert False, "the first fault"


def test_the_next_one_has_its_own_script(hobus_cluster):
    hobus_cluster.use(ScriptedModel(["Mine."]))
    assert hobus_cluster.ask("How is it?").text == "Mine."
"""


RULED = """
from dataclasses import replace

from app import clerk, is_far, weather
from hobus.testing import ScriptedModel, call

hobus_agents = [replace(clerk, approval={"weather": is_far})]


def test_a_person_approves_what_a_rule_says(hobus_cluster):
    near, far = (call("weather", city=city, days=2) for city in ("Paris", "Tokyo"))
    model = hobus_cluster.use(ScriptedModel([[near, far], "Sunny."]))
    session = hobus_cluster.start()
    approved = []
    for piece in hobus_cluster.stream("How is it?", session_id=session):
        for held in piece.data.get("held_calls", []):
            approved.append(held["arguments"]["city"])
            hobus_cluster.approve(session, held["call_id"])
    assert (piece.result.text, approved) == ("Sunny.", ["Tokyo"])
    assert model.requests[0].tools == ("weather",)
"""


LABELLED = """
import time
from app import clerk
from hobus.launch.testing.model import make_reply
from hobus.testing import ScriptedModel

hobus_agents = [clerk]
hobus_settings = {"ho2.classify": True}


class Slow(ScriptedModel):
    def reply(self, request):
        if "speech_act" not in str(request.messages):
            return super().reply(request)
        time.sleep(1)
        return make_reply({"speech_act": "question", "ambiguity": "low"}, request)


def test_one(hobus_cluster):
    assert hobus_cluster.use(Slow(["One."])) and hobus_cluster.ask("How is it?").text == "One."


def test_two(hobus_cluster):
    assert hobus_cluster.use(ScriptedModel([])).fault() == ""
    until = time.monotonic() + 20
    while not all(one.lifecycle == "Idle" for one in hobus_cluster.sessions()):
        assert time.monotonic() < until
        time.sleep(0.05)
"""


CALLED = """
from hobus import Agent
from hobus.testing import ScriptedModel, call

desk = Agent("desk", instructions="You know the weather.")
lead = Agent("lead", instructions="Ask the desk.", tools=[desk])
hobus_agents = [lead, desk]


def test_it(hobus_cluster):
    hobus_cluster.use(ScriptedModel([call("DESK", text="Paris?"), "Sunny.", "The desk says: sunny."]))
    assert hobus_cluster.ask("Weather in Paris?").text == "The desk says: sunny."
"""


TWO_TURNS = """
from app import sailor
from hobus.testing import ScriptedModel

hobus_agents = [sailor]


def test_two_turns(hobus_cluster):
    session = hobus_cluster.start()
    assert "Sunny in Paris" in hobus_cluster.ask("Use weather for Paris", session_id=session).text
    assert "metres" in hobus_cluster.ask("Use tides for Brest", session_id=session).text


def test_a_script(hobus_cluster):
    hobus_cluster.use(ScriptedModel(["hello"]))
    assert hobus_cluster.ask("hi").text == "hello"
"""


SEEN = """
from pydantic import BaseModel
from hobus import Agent


class Seen(BaseModel):
    zebra: str
    apple: int


hobus_agents = [Agent("keeper", instructions="Look.", output=Seen)]


def test_it(hobus_cluster):
    assert "zebra" in hobus_cluster.ask("zebra: one").text
"""


NAMES = """
import pytest
from app import clerk

hobus_agents = [clerk]


class TestOslo:
    def test_it(self, hobus_cluster):
        hobus_cluster.ask("Use weather for Oslo")


class TestRome:
    def test_it(self, hobus_cluster):
        hobus_cluster.ask("Use weather for Rome")


@pytest.mark.parametrize("city", ["a/b", "a b"])
def test_city(hobus_cluster, city):
    hobus_cluster.ask(f"Use weather for {city}")
"""


@both
def test_modules_have_a_cluster_each_and_tests_their_own_scripts(tmp_path: Path, backend: str) -> None:
    """The page's example, twice; rules of approvals, labels that come late, a called agent.

    A rule runs in a tool process before the call, and no model is offered it; late labels ask no later test's script; both
    agents take their answers from the one script, in the order in which they ask.
    """
    modules = {"it": EXAMPLE, "another": EXAMPLE, "ruled": RULED, "labelled": LABELLED, "called": CALLED}
    code, said = pytest_in(tmp_path, "--hobus-backend", backend, **modules)
    assert code == 0 and "6 passed" in said, said


@both
def test_what_does_not_fit_a_script_fails_in_a_sentence_and_the_next_test_begins_anew(
    tmp_path: Path, backend: str
) -> None:
    """Also behind a test that failed in the middle of a turn."""
    code, said = pytest_in(
        tmp_path, "-o", f"addopts=--hobus-backend {backend}", it=EXAMPLE + SCRIPTS, approved=APPROVED
    )
    assert code == 1 and "4 failed, 4 passed, 1 error" in said, said
    for sentence in (
        "the script has 1 answers, and was asked once more: 'How is it?'",
        "1 of 2 answers of the script were not asked for",
        "nobody scripted an answer: hobus_cluster.use(ScriptedModel([...]))",
        "no money left",
        "the first fault",
    ):
        assert sentence in said, said
    failed = {line.partition("::")[2].partition(" ")[0] for line in said.splitlines() if line.startswith("FAILED ")}
    assert failed == {
        "test_the_script_is_too_short", "test_nobody_wrote_a_script", "test_a_provider_refuses",
        "test_it_fails_in_the_middle_of_a_turn",
    }  # fmt: skip


def test_cassettes_are_written_from_the_record_and_played_without_model_and_tools(tmp_path: Path) -> None:
    """On either backend; the first request that differs is shown.

    Of functions that are coroutines, over several turns, of an agent with an output; of tests of like names each has its own.
    """
    code, said = pytest_in(tmp_path, "--hobus-record", it=TWO_TURNS, seen=SEEN, names=NAMES)
    assert code == 0 and "6 passed, 1 skipped" in said, said
    [cassette] = (tmp_path / "cassettes" / "test_it").iterdir()
    calls = json.loads(cassette.read_text())["calls"]
    assert cassette.name == "test_two_turns.json" and len(calls) == 4
    assert calls[0]["answer"]["calls"] == [{"tool": "weather", "arguments": {"city": "Paris"}}]
    assert {path.name for path in (tmp_path / "cassettes" / "test_names").iterdir()} == {
        "TestOslo.test_it.json", "TestRome.test_it.json", "test_city[a b].json", "test_city[a%2Fb].json",
    }  # fmt: skip
    ran = (tmp_path / "ran").read_text()
    assert "sync async " in ran
    for backend in ("processes", "simulated"):
        code, said = pytest_in(tmp_path, "--hobus-backend", backend)
        assert code == 0 and "7 passed" in said, said
    assert (tmp_path / "ran").read_text() == ran
    differing = TWO_TURNS.replace("Use tides for Brest", "Use tides for Calais")
    code, said = pytest_in(tmp_path, "test_it.py", it=differing)
    assert code == 1 and "request 3 differs from the cassette" in said, said
    assert "-user: Use tides for Brest" in said and "+user: Use tides for Calais" in said
