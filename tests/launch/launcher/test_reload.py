"""A command that takes its configuration in behind another one that is under way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.builders import shipped_with
from hobus.bus.errors import ConfigError
from hobus.launch.cluster.home import make_home
from hobus.launch.launcher import reload as module
from hobus.launch.launcher.reload import UnderWay, reload_in_turn


@pytest.fixture
def others(monkeypatch):
    """Another reload is under way for so many looks at the run file; what was then done, and looked at."""
    monkeypatch.setattr(module, "COMMAND_POLL_MS", 1)

    def make(looks: int, *, finish_ms: int = 60_000):
        seen = SimpleNamespace(looks=0, tries=0)
        snapshot = shipped_with(("launcher.finish_ms", finish_ms))

        def run(*_):
            seen.looks += 1
            return SimpleNamespace(reload=SimpleNamespace(state="going" if seen.looks < looks else "done"))

        def reload(_home):
            seen.tries += 1
            if seen.looks < looks:
                raise UnderWay("another reload is under way")
            return "done"

        monkeypatch.setattr(module, "reload", reload)
        monkeypatch.setattr(module, "find_running", run)
        monkeypatch.setattr(module.run_file, "read", run)
        monkeypatch.setattr(module, "place_of", lambda *_: SimpleNamespace(snapshot=snapshot))
        return seen

    return make


def test_a_mistake_in_a_file_says_that_the_cluster_goes_on(monkeypatch, tmp_path):
    """As a gate that forbids it does: nothing was changed, and under what it goes on."""

    def faulty(*_, **__):
        raise ConfigError("configuration has 1 fault", facts={"faults": ["x"]})

    place = SimpleNamespace(snapshot=SimpleNamespace(digest="sha256:0123456789abcdef"))
    for name, value in (
        ("start_plan", faulty), ("place_of", lambda *_: place), ("find_stall", lambda *_: None),
        ("find_running", lambda _: SimpleNamespace(phase="ready", launcher_pid=1, reload=None)),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module.config_changed, "find_given_file", lambda *_: None)
    with pytest.raises(ConfigError) as caught:
        module.reload(make_home(tmp_path))
    said = "nothing was changed, the cluster goes on under sha256:0123456789ab: configuration has 1 fault"
    assert caught.value.detail == said and caught.value.facts["faults"] == ["x"]


def test_one_that_is_under_way_is_waited_for(others, tmp_path):
    """It is asked of the run file, and only then tried again."""
    seen = others(looks=5)
    assert reload_in_turn(make_home(tmp_path)) == "done"
    assert (seen.looks, seen.tries) == (5, 2)


def test_not_longer_than_a_process_may_take_to_finish(others, tmp_path):
    others(looks=1_000_000, finish_ms=30)
    with pytest.raises(UnderWay):
        reload_in_turn(make_home(tmp_path))


@pytest.mark.parametrize(("looks", "is_gone"), [(0, True), (3, True), (1000, False)])
def test_a_launcher_that_hangs_up_has_ended_once_it_is_gone(monkeypatch, looks, is_gone):
    """The kernel closes what it had open before it is gone; one that stays hung up for another reason."""
    config = shipped_with(("launcher.client_timeout_ms", 20)).config.launcher
    monkeypatch.setattr(module, "COMMAND_POLL_MS", 1)
    lives = [True] * looks + [False]
    monkeypatch.setattr(module.identity, "is_alive", lambda *_: lives.pop(0))
    assert module._has_ended(SimpleNamespace(launcher_pid=1, launcher_mark=""), config) is is_gone
