"""A cluster that runs under another configuration than the one on disk."""

from __future__ import annotations

import json

import pytest

from hobus.bus.errors import ConfigError
from hobus.launch.cluster.config_changed import find_changes as looked_for
from hobus.launch.cluster.home import make_home, prepare
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan


def changed_since(home, run, config_file=None):
    found = looked_for(home, run, config_file)
    return "" if found is None else found.said


def mend_of(home, run, config_file=None):
    found = looked_for(home, run, config_file)
    assert found is not None
    return found.mend


@pytest.fixture
def begun(tmp_path):
    """Starts a run, as far as it is seen on disk: its home and its run file."""

    def begin(**options):
        home = make_home(tmp_path / "home")
        prepare(home)
        plan = make_plan(home, StartOptions(**options))
        home.snapshot.write_bytes(plan.snapshot.to_bytes())
        run = RunFile(
            phase="running", launcher_pid=1, launcher_mark="m", started_at=1.0, sockets="/s", drain_bound_s=1.0,
            config_digest=plan.snapshot.digest, config_origin=plan.origin, children=[],
        )  # fmt: skip
        return home, run

    return begin


def say(file, **settings):
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(settings))


def test_nothing_is_said_of_a_configuration_that_is_as_it_was(begun):
    """The addresses of a start's options stand in no file, and are no difference."""
    assert changed_since(*begun()) == ""
    assert changed_since(*begun(listen="127.0.0.1:0", http="127.0.0.1:0")) == ""


def test_what_was_changed_since_is_named_with_both_values(begun):
    """Five of it by name; an agent that was added, too."""
    home, run = begun()
    say(home.config / "admin_config.json", ho1={"orders_max": 7}, http={"listen": "127.0.0.1:9"})
    said = changed_since(home, run)
    assert "ho1.orders_max is 4096, on disk 7" in said and 'http.listen is "", on disk "127.0.0.1:9"' in said
    say(home.config / "admin_config.json", ho1={"orders_max": 7, "repair_calls_max": 2},
        ho2={"classify_timeout_ms": 1, "history_turns_max": 1, "count": 2, "classify": False})  # fmt: skip
    assert changed_since(home, run).count(" is ") == 5 and changed_since(home, run).endswith("; and 1 more")
    assert mend_of(home, run) == f"hobus reload --home {home.root}"
    say(home.config / "admin_config.json", bus={"attempts_max": 7})
    assert mend_of(home, run) == f"hobus down --home {home.root}, then hobus up --home {home.root}"


def test_the_file_that_a_start_was_given_is_the_one_that_counts(begun, tmp_path, monkeypatch):
    """Wherever whoever asks stands; a start with another one would differ by that."""
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.json"
    say(mine, ho1={"orders_max": 7})
    home, run = begun(config_file=mine.relative_to(tmp_path))
    monkeypatch.chdir("/")
    assert changed_since(home, run) == ""
    say(mine, ho1={"orders_max": 8})
    assert "ho1.orders_max is 7, on disk 8" in changed_since(home, run)
    assert mend_of(home, run) == f"hobus reload --home {home.root}"
    say(tmp_path / "other.json", ho1={"orders_max": 9})
    assert "ho1.orders_max is 7, on disk 9" in changed_since(home, run, tmp_path / "other.json")
    assert f"up --config {tmp_path / 'other.json'}" in mend_of(home, run, tmp_path / "other.json")


def test_one_with_faults_is_no_configuration(begun):
    home, run = begun()
    say(home.config / "admin_config.json", ho1={"orders_max": "many"})
    with pytest.raises(ConfigError):
        changed_since(home, run)
    home.snapshot.unlink()
    assert changed_since(home, run) == ""
