"""`hobus dev` takes the changes of a program's file in while its cluster runs, and shows what keeps it from that."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.cluster import Cluster, eventually
from hobus.launch.cluster.home import find_holder

pytestmark = pytest.mark.process

APP = '''
import time
from pathlib import Path
from hobus import Agent, tool
from dev_words import WORD

print("imported")

@tool
def weather(city: str, seconds: float = 0) -> str:
    """Weather of a city."""
    time.sleep(seconds)
    return f"{WORD} in {city}"

clerk = Agent("clerk", Path(__file__).with_name("prompt.md"), tools=[weather])
'''


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "dev_words.py").write_text('WORD = "Sunny"\n')
    (tmp_path / "prompt.md").write_text("Be brief.\n")
    (tmp_path / "dev_app.py").write_text(APP)
    return tmp_path / "dev_app.py"


class Shown:
    def __init__(self, file: Path) -> None:
        self.file, self.read = file, 0

    def until(self, said: str) -> str:
        """What came since the last call, once it has this; afterwards only what follows counts."""

        def found() -> str:
            text = self.file.read_text()[self.read :]
            return text if said in text and text.endswith("\n") else ""

        try:
            text = eventually(found)
        except AssertionError:
            raise AssertionError(f"{said!r} is not in {self.file.read_text()[self.read :]!r}") from None
        self.read += len(text)
        return text


@contextmanager
def developing(cluster: Cluster, app: Path, *words: str) -> Generator[tuple[subprocess.Popen[bytes], Shown]]:
    """`hobus dev`, ended by Ctrl-C; it has to end in order."""
    out = app.with_name("printed.txt")
    with out.open("wb") as printed, cluster.begin("dev", str(app), *words, stdout=printed, stderr=printed) as process:
        try:
            yield process, Shown(out)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, out.read_text()
            assert "Traceback" not in out.read_text()
        finally:
            process.kill()


def test_changes_of_the_file_and_what_it_reads_are_taken_in(cluster: Cluster, app: Path) -> None:
    """Of a module, the instructions, names of tools and agents; a turn that runs ends under what it began with."""
    agents = cluster.home.config / "agents"
    with developing(cluster, app) as (_, shown):
        assert "imported" in shown.until("watching")
        assert 'weather: "Sunny in Rome"' in cluster("ask", "use weather for Rome").out
        assert "CLERK SES-" in shown.until('weather: "Sunny in Rome"')
        runs = cluster.start_ask('use weather {"city": "Oslo", "seconds": 3}')
        eventually(lambda: cluster.entries("TOOL_STARTED")[1:])
        app.with_name("dev_words.py").write_text('WORD = "Rainy, too"\n')
        assert "the code of weather" in shown.until("taken in")
        assert json.loads(runs.communicate(timeout=60)[0])["response"] == 'weather: "Sunny in Oslo"'
        assert "Rainy, too in Kiel" in cluster("ask", "use weather for Kiel").out
        app.with_name("prompt.md").write_text("Be long.\n")
        assert "agent CLERK (altered)" in shown.until("taken in")
        assert json.loads((agents / "CLERK.json").read_text())["system_prompt"] == "Be long.\n"
        app.write_text(APP.replace("weather", "forecast").replace("clerk", "cook"))
        told = shown.until("taken in")
        assert all(one in told for one in ("tool forecast, tool weather", "CLERK (removed)", "COOK (added)")), told
        assert "Rainy, too in Bonn" in cluster("ask", "use forecast for Bonn").out
        assert [path.name for path in agents.iterdir()] == ["COOK.json"]
    assert find_holder(cluster.home) is None


FAULTS = [
    (APP + "1 / 0\n", "dev_app.py:16); fix that file"),
    (APP + "import os; os._exit(0)\n", "dev_app.py ended the process; remove the call that exits"),
    (
        APP + "import os, signal\nif signal.alarm(0): [os.kill(os.getpid(), signal.SIGALRM) for _ in '12']\n",
        "takes more than 30 s",
    ),
    (APP.replace("prompt.md", "none.md"), "none.md"),
]
"""Of a process that does not come back, and of a file that does; what else there is, tests/launch/app/test_started.py has."""


def test_a_fault_is_shown_and_mended_in_place(cluster: Cluster, app: Path) -> None:
    """From the start on, before there is a cluster; with file, line and mend, and the cluster goes on."""
    app.write_text(APP + "def x(:\n")
    with developing(cluster, app) as (_, shown):
        assert "dev_app.py:16); fix that file" in shown.until("watching")
        assert find_holder(cluster.home) is None
        app.write_text(APP)
        shown.until("ready in")
        for broken, said in FAULTS:
            app.write_text(broken)
            shown.until(said)
        # A tool's process that begins now would import the broken file; who answers is the agent that was there.
        assert cluster.ask("hello", "--agent", "CLERK")["outcome"] == "success"
        app.write_text(APP.replace("in {city}", "there"))
        shown.until("taken in")
        assert 'weather: "Sunny there"' in cluster("ask", "use weather for Rome").out


def test_a_running_cluster_is_joined_and_goes_on(cluster: Cluster, app: Path) -> None:
    """What cannot be so is said; a cluster that ends meanwhile ends it, and a file that is none is refused."""
    cluster.up()
    with developing(cluster, app, "--http") as (_, shown):
        told = shown.until("watching")
        assert (
            "runs already, and goes on afterwards" in told
            and "--http counts at a start" in told
            and "agent CLERK (added)" in told
        )
    assert 'weather: "Sunny in Rome"' in cluster("ask", "use weather for Rome").out
    assert find_holder(cluster.home) is not None
    process = cluster.begin("dev", str(app))
    with process:
        assert process.stdout is not None
        assert any(b"watching" in line for line in process.stdout)
        assert cluster("down").code == 0
        assert process.wait(60) == 4
        assert process.stderr is not None and b"hobus up" in process.stderr.read()
    told = cluster("dev", str(app.with_name("none.py")))
    assert told.code == 2 and "there is no file" in told.err
