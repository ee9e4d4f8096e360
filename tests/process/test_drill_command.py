"""`hobus drill kill` on real processes: what it promises it shows, and it leaves nothing, however it ends."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from bench.builders import write_config
from bench.cluster import Answer, alive, begun, eventually, family_in, hobus
from hobus.launch.cluster.home import make_home
from hobus.launch.lab.drill_moments import MOMENTS, ROLES
from hobus.launch.process.liveness import STAGES

pytestmark = pytest.mark.process


def drill(tmp_path: Path, *words: str) -> Answer:
    """One drill; its throw-away home is below `tmp_path`, and no home of the user's is looked at."""
    return hobus("drill", *words, "--home", str(tmp_path / "none"), env={"TMPDIR": str(tmp_path)})


def check(tmp_path: Path, who: str, during: str) -> dict[str, Any]:
    done = drill(tmp_path, "kill", who, "--during", during, "--json")
    assert done.code == 0, done.out + done.err
    found = done.json
    assert found["holds"] and found["killed"]["actor"].partition("/")[0] == who.partition("/")[0]
    assert [at for at in found["timeline"] if at["what"].startswith("SIGKILL")]
    assert list(tmp_path.iterdir()) == []
    return found


def _drills() -> list[ParameterSet]:
    """Everybody at every moment; `.ci/run` takes those whom no other kill test hits, each at one moment, and leaves the rest."""
    return [
        pytest.param(
            who,
            during,
            marks=pytest.mark.slow
            if who in ("http", "zygote", "ho3") and (row + column) % len(MOMENTS) == 0
            else pytest.mark.matrix,
        )
        for row, who in enumerate(ROLES)
        for column, during in enumerate(MOMENTS)
    ]


@pytest.mark.parametrize(("who", "during"), _drills())
def test_every_role_at_every_moment(tmp_path: Path, who: str, during: str):
    """The whole of what `hobus drill list` offers."""
    check(tmp_path, who, during)


def test_of_several_supervisors_the_owner_dies_or_the_one_that_is_named(tmp_path: Path):
    """The session moves to the other one, which is there at once."""
    done = drill(tmp_path, "kill", "ho2", "--during", "reply", "--scale", "ho2=2", "--json")
    assert done.code == 0 and done.json["killed"]["actor"] == done.json["killed"]["holder"], done.err


def test_the_configuration_of_the_home_is_used_and_its_cluster_left_alone(tmp_path: Path):
    """Memory off: no HO3 that could be killed; the sentence says what there is, and nothing is left."""
    (tmp_path / "mine" / "config").mkdir(parents=True)
    write_config(tmp_path / "mine" / "config" / "admin_config.json", ("ho3.enabled", False))
    env = {"TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    done = hobus("drill", "kill", "ho3", "--during", "tool", "--home", str(tmp_path / "mine"), env=env)
    assert done.code == 2 and "no ho3" in done.err and "ho2/1" in done.err, done.err
    assert str(tmp_path / "mine" / "config") in done.out and "did not end" not in done.err
    assert list((tmp_path / "tmp").iterdir()) == [] and [one.name for one in (tmp_path / "mine").iterdir()] == [
        "config"
    ]


DRILL = ("drill", "kill", "ho2", "--during", "tool")


@pytest.mark.parametrize(("command", "number"), [(("demo",), signal.SIGKILL), (DRILL, signal.SIGTERM)])
def test_no_cluster_survives_the_command_that_made_it(tmp_path: Path, command: tuple[str, ...], number: signal.Signals):
    """Told to end, it takes its cluster down; killed without a word, the cluster goes down by itself."""
    with begun(*command, env={"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}) as started:
        assert started.stdout is not None
        for line in started.stdout:
            if b"processes are ready" in line:
                break
        (home,) = tmp_path.glob(f"hobus-{command[0]}-*")
        family = family_in(make_home(home))
        started.send_signal(number)
        started.communicate(timeout=120)
    assert len(family) > len(STAGES)
    eventually(lambda: alive(family) == [])
    if number != signal.SIGKILL:
        assert started.returncode == 128 + number and list(tmp_path.iterdir()) == []
