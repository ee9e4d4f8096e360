"""Tools of an installed Python package in a whole cluster: a turn, and packages that are none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import Cluster, cluster_in, eventually
from hobus.launch.console import exit_codes
from tests.actors.ho1_executor.tools.packages import entries, install
from tests.process.mcp_servers import ROOT, configure, use

pytestmark = pytest.mark.process

SOURCE = """
import datetime, enum, os, sys, time
from dataclasses import dataclass
from typing import Annotated, Any
from pydantic import Field
from hobus import File, Image, Invocation, ToolFault, tool

@tool(idempotent=True, writes=False)
def double(number: int) -> int:
    "Doubles a number."
    return 2 * number

@tool(idempotent=True, writes=False)
def refuse(why: str) -> None:
    "Refuses."
    raise ToolFault(f"no: {why}")

@tool(idempotent=True, writes=False)
def blunder(path: str) -> str:
    "Looks into a drawer that is not there."
    print("looking at", path)
    print("\\33[31mstill looking", file=sys.stderr)
    return {}[path]

@tool(idempotent=True, writes=False)
def repeat(times: int) -> str:
    "Says x."
    return "x" * times

@tool(idempotent=True, writes=False)
def draw(at: datetime.date) -> list:
    "Draws a chart."
    return [Image(data=b"\\x89PNG\\r\\n\\x1a\\n", name="chart.png"), at.isoformat(), File(data=b"1,2", name="t.csv")]

class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"

@dataclass
class Guest:
    name: str
    age: int = 0

@tool(idempotent=True, writes=False)
def invite(size: Size, at: datetime.datetime, guest: Guest, seats: Annotated[int, Field(ge=1)] = 1) -> Any:
    "Invites a guest."
    return {"types": [type(one).__name__ for one in (size, at, guest)], "guest": guest, "size": size, "at": at}

@tool(idempotent=False, writes=True)
def pay(directory: str, *, call: Invocation) -> str:
    "Pays, once."
    with open(os.path.join(directory, "effects"), "a") as file:
        file.write(call.idempotency_key + "\\n")
    return "done"
"""

NAMES = ["double", "refuse", "blunder", "invite", "pay", "repeat", "draw"]


def up(cluster: Cluster, directory: Path, names: list[str] = NAMES, **settings: Any) -> None:
    """A cluster that knows these tools, and whose agent may use them."""
    packages = install(directory / "packages", "tested_pack", SOURCE)
    cluster.env["PYTHONPATH"] = f"{packages}:{ROOT}"
    settings |= {"tools__entry_points": entries("tested_pack", names)}
    cluster.up(*configure(cluster, {}, tools=names, permitted=names, **settings))
    eventually(lambda: set(names) <= {row["tool_id"] for row in cluster("tools", "--json").json["tools"]})


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster with the package, for tests that take no part of it away for good; its record is whole at the end."""
    directory = tmp_path_factory.mktemp("tested")
    cluster = cluster_in(directory / "home")
    try:
        up(cluster, directory, tools__approval=["pay"])
        yield cluster
    finally:
        cluster.end()
    assert cluster.verify().tail == "clean" and cluster.record_verdict() == "ok"


def test_a_tool_of_a_package_answers_in_a_turn(tested: Cluster):
    """Its value, its refusal, arguments that its annotations forbid; `hobus tools` knows what it is."""
    assert "double: 42" in tested.ask(use("double", number=21))["response"]
    assert "no: tired" in tested.ask(use("refuse", why="tired"))["response"]
    assert "tool_invalid_args" in tested.ask(use("double", number="many"))["response"]
    rows = {row["tool_id"]: row for row in tested("tools", "--json").json["tools"]}
    assert (rows["pay"]["source"], rows["pay"]["idempotent"], rows["pay"]["writes"]) == ("python", False, True)
    assert rows["pay"]["agents"] == ["ADMIN"]
    assert "double" in tested.ask("which tools do you have?")["response"]


def test_the_author_of_a_tool_sees_what_it_printed_and_raised_and_the_model_does_not(cluster: Cluster, tmp_path: Path):
    """In the session and the log, with its turn; no escape of it reaches a terminal; the model has the class alone."""
    up(cluster, tmp_path)
    answer = cluster.ask(use("blunder", path="the drawer"))
    assert "the tool broke: KeyError" in answer["response"]
    turn = f"{answer['session_id']}-1"
    (text,) = [one for one in cluster("session show", turn, "--json").json["steps"] if one["printed"]]
    assert (text["about"], text["code"], text["words"]) == ("blunder", "tool_failed", "the tool broke: KeyError")
    assert text["printed"] == "looking at the drawer\n\33[31mstill looking\n"
    assert text["traceback"].endswith("KeyError: 'the drawer'") and "tested_pack.py" in text["traceback"]
    shown = cluster("session show", turn).out
    assert "  | looking at the drawer\n" in shown and "  | KeyError: 'the drawer'" in shown
    told = cluster("logs", "ho1", "--turn", f"SES-{answer['session_id'][:8]}-1").out
    assert "tool=blunder" in told and "    looking at the drawer\n" in told and "KeyError: 'the drawer'" in told
    assert "\33" not in shown + told and "looking" not in answer["response"]
    for entry in cluster.entries("PROMPT_SENT"):
        assert not any(b"looking at" in (body or b"") for body in entry.bodies)
    cluster("down")
    assert text in cluster("session show", turn, "--json").json["steps"]
    assert cluster.verify().tail == "clean"


def test_a_tool_that_writes_needs_its_exact_name(cluster: Cluster, tmp_path: Path):
    """A wildcard gives the reading ones alone; the model is not even told of the others."""
    packages = install(tmp_path / "packages", "tested_pack", SOURCE)
    cluster.env["PYTHONPATH"] = f"{packages}:{ROOT}"
    names = ["double", "pay"]
    points = entries("tested_pack", names)
    cluster.up(*configure(cluster, {}, tools=names, permitted=["*"], tools__entry_points=points))
    eventually(lambda: "pay" in {row["tool_id"] for row in cluster("tools", "--json").json["tools"]})
    asked = cluster.ask(use("double", number=2))
    assert "double: 4" in asked["response"] and asked["tools_withheld"] == ["pay"]
    why = 'ADMIN is not given pay: it may change something, and only a wildcard permits it; add "pay" to permissions.tools'
    assert why in cluster("tools").err and why in cluster("agent show", "ADMIN").out
    (row,) = (one for one in cluster("tools", "--json").json["tools"] if one["tool_id"] == "pay")
    assert (row["agents"], row["withheld_from"]) == ([], ["ADMIN"])
    checked = cluster("config check", "--config", str(cluster.home.root / "tested.json"))
    assert checked.code == 0 and why in checked.err
    assert "I was not given a tool pay" in cluster.ask(use("pay", directory=str(tmp_path)))["response"]
    assert not (tmp_path / "effects").exists()


def test_a_package_that_offers_no_tool_is_said_before_anything_starts(cluster: Cluster, tmp_path: Path):
    """`up` and `doctor` name it, why, and the fix; no traceback; the same from the configuration in the home."""
    broken = "raise RuntimeError('no licence')"
    packages = install(tmp_path / "packages", "broken_pack", broken)
    cluster.env["PYTHONPATH"] = f"{packages}:{ROOT}"
    words = configure(
        cluster, {}, tools=[], permitted=[], tools__entry_points=["licensed = broken_pack:x", "nowhere = no_pack:x"]
    )
    refused = cluster("up", "--wait", *words)
    assert refused.code == exit_codes.USAGE, (refused.out, refused.err)
    assert (
        "tools.entry_points: 'licensed': broken_pack cannot be imported (RuntimeError: no licence, " in refused.err
        and "broken_pack.py:1)" in refused.err
    )
    assert "'nowhere': no_pack cannot be imported (ModuleNotFoundError: No module named 'no_pack')" in refused.err
    assert "Traceback" not in refused.out + refused.err
    (cluster.home.config / "admin_config.json").write_text((cluster.home.root / "tested.json").read_text())
    told = cluster("doctor", "--json")
    findings = {row["check"]: row for row in told.json["checks"]}
    assert findings["tool licensed"]["verdict"] == "fail"
    assert "no licence" in findings["tool licensed"]["detail"]
    assert "tools.entry_points" in findings["tool nowhere"]["fix"]


HOLDS = """
import os, time
while os.path.exists({hold!r}):
    time.sleep(0.01)
"""


def test_a_turn_waits_for_a_package_that_is_still_being_loaded(cluster: Cluster, tmp_path: Path):
    """An executor that replaces a killed one is there with the built-in tools alone."""
    hold = tmp_path / "hold"
    packages = install(tmp_path / "packages", "tested_pack", HOLDS.format(hold=str(hold)) + SOURCE)
    cluster.env["PYTHONPATH"] = f"{packages}:{ROOT}"
    names, settings = ["double"], {"bus__service_grace_ms": 20_000, "ho2__classify": False}
    points = entries("tested_pack", names)
    cluster.up(*configure(cluster, {}, tools=names, permitted=names, tools__entry_points=points, **settings))
    hold.touch()
    cluster.kill("ho1/1")
    asked = cluster.start_ask(use("double", number=21))
    eventually(lambda: cluster.entries("WO_DISPATCHED"), within_s=60)
    eventually(lambda: cluster.run().children and all(row.state == "ready" for row in cluster.run().children))
    time.sleep(0.5)  # it has the order by now
    hold.unlink()
    out, err = asked.communicate(timeout=120)
    answer = json.loads(out)
    assert "double: 42" in answer["response"], (answer, err)
    assert answer["tools_missing"] == []


def test_a_reload_takes_in_edited_code_of_a_tool(cluster: Cluster, tmp_path: Path):
    """No tool process keeps the former one; `doctor` names what was changed before, and nothing afterwards."""
    up(cluster, tmp_path, ["double"])
    assert cluster("reload").out.startswith("nothing changed")
    before = cluster.row("ho1/1").instance
    (tmp_path / "packages" / "tested_pack.py").write_text(SOURCE.replace("2 * number", "3 * number"))
    assert "the code of double was changed" in cluster("doctor").out
    answer = cluster("reload", "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["changed"], answer.json["started_anew"]) == (["the code of double"], ["ho1"])
    assert cluster.row("ho1/1").instance != before
    eventually(lambda: "double" in {row["tool_id"] for row in cluster("tools", "--json").json["tools"]})
    assert "double: 63" in cluster.ask(use("double", number=21))["response"]
    assert cluster("reload").out.startswith("nothing changed") and "the code of" not in cluster("doctor").out


def test_a_tool_is_called_by_hand_once_and_as_its_agent_may(tested: Cluster, tmp_path: Path) -> None:
    """Result on stdout; a failing one is an error; what needs an approval waits for it, and never runs twice."""
    called = tested("tools call", "double", '{"number": 21}')
    assert (called.code, called.out) == (0, "42\n"), called.err
    broke = tested("tools call", "blunder", '{"path": "the drawer"}', "--json")
    assert (broke.code, broke.json["code"], broke.json["ok"]) == (exit_codes.FAILED, "tool_failed", False)
    words = ("pay", json.dumps({"directory": str(tmp_path)}), "--input-id", "in-1")
    waiting = tested.begin("tools call", *words)
    held = eventually(lambda: [one for one in tested("session list", "--json").json["sessions"] if one["held_calls"]])
    short = tested("tools call", *words, "--timeout", "2s")
    assert short.code == exit_codes.UNREACHABLE and "--input-id in-1" in short.err
    tested("session approve", held[0]["session_id"])
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, b"done\n"), err
    assert tested("tools call", *words).out == "done\n"
    assert len((tmp_path / "effects").read_text().split()) == 1
    refused = tested.begin("tools call", *words[:2])
    held = eventually(lambda: [one for one in tested("session list", "--json").json["sessions"] if one["held_calls"]])
    tested("session deny", held[0]["session_id"], "--reason", "not today")
    out, err = refused.communicate(timeout=60)
    assert (refused.returncode, out) == (exit_codes.REFUSED, b"") and b"not today" in err
