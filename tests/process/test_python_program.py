"""A program of ten lines starts a cluster, is answered by its own agent with its own tool, and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from bench.cluster import Cluster as Cluster_
from bench.cluster import eventually
from hobus import AsyncCluster, Cluster, HobusError
from hobus.launch.app.agent import Agent
from hobus.launch.cluster.home import find_holder, make_home
from tests.launch.app.test_agent import is_far, weather
from tests.process.door_clients import PROGRAMS

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

PROGRAM = next(
    one for one in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "import Agent" in one
)
CLERK = Agent("clerk", instructions="Answer in one sentence.", tools=[weather])


def run(directory: Path, program: str) -> subprocess.Popen[str]:
    (directory / "app.py").write_text(program)
    env = os.environ | {"TMPDIR": str(directory / "tmp")}
    (directory / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-W", "always::ResourceWarning", "app.py"],
        cwd=directory,
        env=env,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def lives_in(directory: Path) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if any(file.path.startswith(str(directory)) for file in process.open_files()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


WITH = "with Cluster(agents=[clerk]) as cluster:\n        "
UNCLOSED = PROGRAM.replace(WITH, "cluster = Cluster(agents=[clerk])\n    ")
FORKED = PROGRAM.replace(
    WITH, f"import os\n    {WITH}if not os.fork():\n            raise SystemExit\n        os.wait()\n        "
)


@pytest.mark.parametrize("text", [PROGRAM, UNCLOSED, FORKED], ids=["closed", "unclosed", "forked"])
def test_the_program_works_word_for_word(tmp_path: Path, text: str) -> None:
    """As README has it, on the base install, without a key; nothing is left, also where it does not close, or forks."""
    assert len({PROGRAM, UNCLOSED, FORKED}) == 3
    with run(tmp_path, text) as program:
        out, err = program.communicate(timeout=120)
    assert (out, program.returncode) == ('weather: "Sunny in Paris"\n', 0)
    assert not err or text == FORKED  # the fork leaves open what was the client's
    assert not list((tmp_path / "tmp").iterdir()) and not lives_in(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_ended_takes_its_cluster_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C in order, its home removed; after SIGKILL the cluster sees that nobody needs it."""
    waits = PROGRAM.replace('print(cluster.ask("Use weather for Paris").text)', 'print("up", flush=True); input()')
    with run(tmp_path, waits) as program:
        assert program.stdout is not None and program.stdout.readline() == "up\n"
        assert lives_in(tmp_path)
        program.send_signal(number)
        program.communicate(timeout=120)
    eventually(lambda: not lives_in(tmp_path))
    assert bool(list((tmp_path / "tmp").iterdir())) == (number == signal.SIGKILL)


def test_a_fault_of_the_file_is_told_with_its_place(tmp_path: Path) -> None:
    """A tool that cannot be loaded ends the start in a sentence, and nothing runs."""
    broken = PROGRAM.replace('    """Weather of a city, in one line."""\n', "")
    with run(tmp_path, broken) as program:
        _out, err = program.communicate(timeout=120)
    assert program.returncode == 1 and "nothing says what it does; give it a docstring" in err
    assert re.search(r"/app\.py:\d+: clerk: tools: 'weather': /.*/app\.py:\d+: nothing says", err), err
    assert not list((tmp_path / "tmp").iterdir()) and not lives_in(tmp_path)


def test_a_home_is_kept_and_joined(tmp_path: Path) -> None:
    """Its sessions go on with the next cluster; who joins a running one leaves it running, with the same agents alone."""
    home = tmp_path / "home"
    cook = Agent("cook", instructions="Be kind.", tools=[is_far])
    with Cluster(home, agents=[CLERK, cook]) as cluster:
        first = cluster.ask("use weather for Rome")
        with Cluster(home, agents=[cook]) as joined:  # the first of its own answers who names none
            assert joined.ask("use is_far for Tokyo").text == "is_far: true"
            assert joined.ask("use is_far for Rome", session_id=joined.start()).text == "is_far: false"
        with Cluster(home, agents=[CLERK]) as joined:
            assert joined.ask("use weather for Oslo", session_id=first.session_id).text == 'weather: "Sunny in Oslo"'
        with (
            pytest.raises(HobusError, match="runs with another agents/CLERK") as refused,
            Cluster(home, agents=[Agent("clerk", instructions="Be rude.")]),
        ):
            pass
        assert "hobus down" in refused.value.hint
        assert cluster.ask("use weather for Bonn").text == 'weather: "Sunny in Bonn"'
    assert find_holder(make_home(home)) is None
    settings = json.loads((home / "config" / "admin_config.json").read_text())
    assert settings["host"]["agent_id"] == "CLERK" and len(settings["tools"]["entry_points"]) == 2
    with Cluster(home) as again:
        assert again.home == home
        assert again.ask("use weather for Kiel", session_id=first.session_id).session_id == first.session_id


def test_of_two_that_start_one_home_at_once_the_second_joins(tmp_path: Path) -> None:
    """It waits for the first one's start; with other agents it is refused."""
    home = tmp_path / "home"
    other = Agent("clerk", instructions="Be rude.")
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(Cluster, home, agents=[CLERK]) for _ in range(2)]
        first, second = (one.result() for one in begun)
        late = [pool.submit(Cluster, tmp_path / "another", agents=[agent]) for agent in (CLERK, other)]
        faults = [one.exception() for one in late]
    with first, second:
        assert [one.ask("use weather for Rome").text for one in (first, second)] == ['weather: "Sunny in Rome"'] * 2
    refused = [str(one) for one in faults if one is not None]
    assert len(refused) == 1 and "runs with another agents/CLERK" in refused[0]
    for one in late:
        if one.exception() is None:
            one.result().close()
    assert find_holder(make_home(home)) is None


def test_a_question_that_waits_for_a_person_names_what_its_cluster_s_end_leaves(
    cluster: Cluster_, tmp_path: Path
) -> None:
    """It stops with the command: what decides, and what asks again, needs the next one."""
    app = tmp_path / "app.py"
    app.write_text(PROGRAM.replace("tools=[weather]", "tools=[weather], approval=[weather]"))
    words = ("ask", "--app", str(app), "--input-id", "in-1", "--timeout", "4", "Use weather for Oslo")
    waits = cluster(*words)
    assert waits.code == 4 and "waits for an approval" in waits.err
    assert f"next: hobus up {app} --wait" in waits.err and "ends with this command" in waits.err
    assert cluster("up", str(app), "--wait").code == 0
    [session] = re.findall(r"hobus session approve (\S+) <call>", waits.err)
    approved = cluster("session approve", session, "--all")
    assert approved.code == 0, approved.err
    assert cluster(*words).out == 'weather: "Sunny in Oslo"\n'
    assert cluster("down").code == 0
    before = len(cluster.entries("LifecycleChanged"))
    with cluster.begin("ask", "--app", str(app), "Use weather for Rome", stderr=subprocess.PIPE) as asking:
        eventually(lambda: cluster.entries("LifecycleChanged")[before:])
        asking.send_signal(signal.SIGINT)
        _, err = asking.communicate(timeout=60)
    assert asking.returncode == 130
    assert f"goes on with the next cluster here (hobus up {app} --wait" in err.decode(), err
    assert find_holder(cluster.home) is None


def test_the_same_file_on_the_command_line(cluster: Cluster_, tmp_path: Path) -> None:
    """Asked with a cluster for the while; written into the home of one that stays, and taken in once it changed."""
    app = tmp_path / "app.py"
    app.write_text(PROGRAM)
    once = cluster("ask", "--app", str(app), "Use weather for Oslo")
    assert (once.code, once.out) == (0, 'weather: "Sunny in Oslo"\n'), once.err
    assert find_holder(cluster.home) is None
    assert cluster("up", str(app), "--wait").code == 0
    assert "Sunny in Rome" in cluster("ask", "Use weather for Rome").out
    app.write_text(PROGRAM.replace("Sunny", "Rainy").replace("one sentence", "two"))
    refused = cluster("ask", "--app", str(app), "Use weather for Rome")
    assert refused.code == 1 and "agents/CLERK.json" in refused.err and "hobus down" in refused.err
    assert cluster("up", str(app), "--wait").code == 0 and cluster("reload").code == 0
    assert "Rainy in Rome" in cluster("chat", str(app), stdin=b"Use weather for Rome\n").out


def test_a_tool_called_by_hand_brings_its_own_result_whatever_its_agent_answers_in(
    cluster: Cluster_, tmp_path: Path
) -> None:
    """An agent with an output is asked in no form of its own; a failure is told in the tool's words."""
    app = tmp_path / "app.py"
    output = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
    app.write_text(PROGRAM.replace("tools=[weather]", f"tools=[weather], output={output}"))
    assert cluster("up", str(app), "--wait").code == 0
    called = cluster("tools call", "weather", '{"city": "Oslo"}', "--agent", "CLERK", "--json")
    assert (called.code, called.json["ok"], called.json["value"]) == (0, True, "Sunny in Oslo"), called.err
    assert cluster("tools call", "weather", '{"city": "Oslo"}', "--agent", "CLERK").out == "Sunny in Oslo\n"


def test_a_file_that_is_no_app_is_told(cluster: Cluster_, tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("def x(:")
    for words in (("up", str(app), "--wait"), ("ask", "--app", str(app), "hi"), ("chat", str(app))):
        told = cluster(*words)
        assert told.code == 2 and "app.py:1" in told.err and "Traceback" not in told.err, told.err
    assert find_holder(cluster.home) is None


async def test_the_same_with_an_event_loop(tmp_path: Path) -> None:
    """Beside other tasks, which go on while it starts and stops."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.get_running_loop().create_task(tick())
    async with await AsyncCluster.open(agents=[CLERK]) as cluster:
        home = cluster.home
        assert (await cluster.ask("use weather for Rome")).text == 'weather: "Sunny in Rome"'
    ticking.cancel()
    assert ticks > 10 and not home.exists()


def test_a_program_without_its_guard_is_told_so_and_starts_no_chain_of_clusters(tmp_path: Path) -> None:
    """Each process of its tool imports the file, and would start a cluster again."""
    with run(tmp_path, PROGRAM.replace('if __name__ == "__main__":', "if True:")) as program:
        out, err = program.communicate(timeout=120)
    assert program.returncode and not out
    assert "app.py starts a cluster when it is imported; put that below `if __name__" in err, err
    eventually(lambda: not lives_in(tmp_path))


def test_who_joined_a_cluster_is_told_when_it_goes(tmp_path: Path) -> None:
    """At once, with the input: whoever started it may end before the other one is answered."""
    clerk = Agent("clerk", instructions="x", tools=[weather], approval=[weather])
    first = Cluster(tmp_path / "home", agents=[clerk])
    with Cluster(tmp_path / "home") as second:
        asking = second.stream("Use weather for Paris", input_id="in-1")
        while not next(asking).data.get("held_calls"):
            pass
        first.close()
        with pytest.raises(HobusError, match=r"is gone.*\(input in-1\)"):
            list(asking)


def test_the_same_program_of_a_peer_is_as_long_as_the_page_says() -> None:
    """That each runs is shown by `test_partners_door`, where its client is loaded."""
    page = (ROOT / "docs" / "python.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \| (\d+): ", page, re.MULTILINE)
    peers = [PROGRAMS / f"{name}_program.py" for name in ("pydantic_ai", "openai_agents", "langgraph")]
    for text, row in zip([PROGRAM, *(one.read_text() for one in peers)], rows, strict=True):
        imported = [
            one for line in re.findall(r"^from \S+ import (.*)", text, re.MULTILINE) for one in line.split(", ")
        ]
        assert row == (str(sum(bool(line.strip()) for line in text.splitlines())), "1", str(len(imported)))
