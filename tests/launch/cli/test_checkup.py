"""What `hobus doctor` finds in a home, and what it makes of a cluster's states."""

import json
import os
from contextlib import closing

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.bus.messages.gateway import Breaker
from hobus.launch.cells import CellMembership, find_path
from hobus.launch.cells.map import Cell, CellMap
from hobus.launch.cli import checkup
from hobus.launch.cluster.home import HomeLock, make_home, prepare
from hobus.launch.console import exit_codes, finding

SNAPSHOT = shipped_snapshot()


def verdicts(findings):
    return {one.check: one.verdict for one in findings}


def test_a_home_that_is_not_there_yet_is_fine(tmp_path):
    home = make_home(tmp_path / "new" / "home")
    found = checkup.place(home, SNAPSHOT, SystemClock())
    assert verdicts(found) == {"home": "ok", "disk": "ok", "sockets": "ok", "clock": "ok"}
    assert list(tmp_path.iterdir()) == []


def test_each_trouble_of_a_home_is_named_with_its_fix(tmp_path):
    """A record from the future, too long a path, a run directory that others can open, a disk that is too small."""
    home = make_home(tmp_path / ("x" * 120))
    prepare(home)
    (home.ledger / "0.seg").write_text("x")
    os.utime(home.ledger / "0.seg", (4e9, 4e9))
    home.run.chmod(0o755)
    home.root.chmod(0o755)
    ledger = SNAPSHOT.config.ledger.model_copy(update={"reserve_bytes": 10**18})
    greedy = SNAPSHOT.config.model_copy(update={"ledger": ledger})
    found = checkup.place(home, type("S", (), {"config": greedy})(), SystemClock())
    assert verdicts(found) == {"home": "fail", "disk": "fail", "sockets": "warn", "clock": "warn"}
    assert all(one.fix for one in found)
    assert finding.choose_code(found) == exit_codes.FAILED


def test_a_move_to_another_cell_that_stands_is_told_with_what_ends_it(tmp_path):
    """Who moved it may have been killed, and the person is refused until it goes on."""
    home, where = make_home(tmp_path), str(tmp_path / "cells.sqlite")
    (tmp_path / "cells.sqlite").touch()
    find_path(home.root).write_text(CellMembership(name="a", map=where).model_dump_json())
    with closing(CellMap(where)) as cells:
        for name in ("a", "b"):
            cells.put(Cell(name, f"http://{name}", "", "k"))
        source = cells.place("alice")[0].name
        assert [one.verdict for one in checkup.check_cells(home)] == ["ok"]
        target = "b" if source == "a" else "a"
        cells.begin("alice", target, 0)
        (found,) = checkup.check_cells(home)
    assert found.verdict == "warn" and "alice" in found.detail and f"hobus cell move alice {target}" in found.fix


def test_a_configuration_with_faults_is_told_whole(tmp_path):
    """All faults at once, and the command that shows them again."""
    home = make_home(tmp_path)
    home.config.mkdir()
    (home.config / "admin_config.json").write_text(json.dumps({"bus": {"beat_interval_ms": 0}}))
    finding, snapshot = checkup.check_configuration(home, None)
    assert finding.verdict == "fail" and snapshot is None and "bus.beat_interval_ms" in finding.detail
    assert "hobus config check" in finding.fix
    (home.config / "admin_config.json").unlink()
    finding, snapshot = checkup.check_configuration(home, None)
    assert finding.verdict == "ok" and snapshot is not None


def test_what_an_earlier_run_left_and_a_hidden_launcher(tmp_path):
    """Nothing; a run file of another version; a lock that is held while `run/` is gone."""
    home = make_home(tmp_path)
    assert verdicts(checkup.check_cluster(home)[0]) == {"launcher": "ok"}
    prepare(home)
    home.run_file.write_text("{}")
    assert verdicts(checkup.check_cluster(home)[0]) == {"run file": "fail"}
    home.run_file.unlink()
    lock = HomeLock.take(home)
    assert lock is not None
    home.run.rmdir()
    (finding,), run = checkup.check_cluster(home)
    assert finding.verdict == "fail" and f"pid {os.getpid()}" in finding.detail and run is None
    lock.release()


@pytest.mark.parametrize(
    ("state", "verdict", "fix"),
    [
        ("failed", "fail", "hobus restart"),
        ("lost", "fail", "hobus logs"),
        ("backoff", "warn", "hobus logs"),
        ("degraded", "warn", "hobus logs"),
        ("stopped", "warn", "hobus restart"),
    ],
)
def test_every_state_but_ready_is_a_line_with_its_fix(tmp_path, state, verdict, fix):
    rows = [("broker/1", "ready", ""), ("ho1/2", "ready", ""), ("ho1/1", state, "signal 9")]
    (finding,) = checkup.check_health(rows, broker_answers=True, home=make_home(tmp_path))
    assert (finding.check, finding.verdict) == ("ho1/1", verdict)
    assert "signal 9" in finding.detail and fix in finding.fix
    assert verdicts(checkup.check_health(rows[:1], broker_answers=True, home=make_home(tmp_path))) == {
        "processes": "ok"
    }
    assert verdicts(checkup.check_health(rows[:1], broker_answers=False, home=make_home(tmp_path))) == {
        "broker": "fail"
    }


def test_a_role_without_a_ready_process_fails_and_damage_is_not_restarted(tmp_path):
    """One ready executor, here or on another host, makes it a warning; a damaged record is verified and restored."""
    home = make_home(tmp_path)
    rows = [("ho1/1", "stopped", "drained")]
    (alone,) = checkup.check_health(rows, broker_answers=True, home=home)
    assert alone.verdict == "fail" and "no ho1 is ready" in alone.detail
    (helped,) = checkup.check_health(rows, broker_answers=True, home=home, elsewhere=["ho1"])
    assert helped.verdict == "warn"
    (bad,) = checkup.check_health([("ledger/1", "failed", "x")], broker_answers=True, home=home, damaged=["ledger/1"])
    assert "ledger verify" in bad.fix and "copy" in bad.fix and "restart" not in bad.fix


def test_a_damaged_token_is_told(tmp_path):
    """By its file, with the fix; a home without keys has no word on them."""
    home = make_home(tmp_path)
    assert not [one for one in checkup.place(home, SNAPSHOT, SystemClock()) if one.check == "keys"]
    (home.keys / "tokens").mkdir(parents=True)
    (home.keys / "tokens" / "join-1.json").write_text("{")
    (found,) = [one for one in checkup.place(home, SNAPSHOT, SystemClock()) if one.check == "keys"]
    assert found.verdict == "warn" and "join-1.json" in found.detail and "remove it" in found.fix


def test_a_model_that_is_left_alone_is_a_warning_with_the_check_of_its_provider(tmp_path):
    """Open, half open, or failing since a while; what failed once is not worth a line."""
    rows = [
        Breaker(provider_id=name, model_id="m", state=state, failures=failures)
        for name, state, failures in (("a", "closed", 1), ("b", "open", 3), ("c", "half_open", 3), ("d", "closed", 2))
    ]
    found = checkup.check_breakers(rows, make_home(tmp_path))
    assert verdicts(found) == {f"breaker {name}/m": "warn" for name in "bcd"}
    assert "not called" in found[0].detail and "provider check b" in found[0].fix
