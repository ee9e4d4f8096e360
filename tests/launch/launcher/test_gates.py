"""A start and the gates: refused with everything at once, judged once for the same files, nothing left in the launcher."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hobus.bus.errors import ConfigError
from hobus.config.gates.finding import Finding
from hobus.config.gates.run import View
from hobus.launch.cluster import sources
from hobus.launch.cluster.home import Home, home_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import gate_cache, gates
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import look_at
from tests.config.gates.homes import clerk, package, write


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty one."""
    return home_of(tmp_path)


@pytest.fixture
def software(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that is taken for this software where its state counts: two modules."""
    root = write(tmp_path_factory.mktemp("software"), "hobus/__init__.py", "def check(): ...\n").parent
    write(root, "config/check.py", "def page(): ...\n")
    monkeypatch.setattr(sources, "ROOT", root)
    return root


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, software: Path) -> list[str]:
    """As if this were an installation: no tests beside it. What was judged anew is noted."""
    judged: list[str] = []
    run_inside = gates.run_inside

    def noted(view: View, *, has_tests: bool) -> list[Finding]:
        judged.append("judged")
        return run_inside(view, has_tests=has_tests)

    monkeypatch.setattr(View, "is_checkout", property(lambda _self: False))
    monkeypatch.setattr(gates, "run_inside", noted)
    return judged


def start(home: Home) -> list[str]:
    """What is said of a start that passes."""
    return list(gates.start_plan(home, StartOptions(), {}).warnings)


def view_of(home: Home) -> View:
    """What the gates look at."""
    return look_at(home, StartOptions())


def test_the_same_files_are_judged_once(home: Home, installed: list[str]) -> None:
    """Another byte anywhere, and they are judged again."""
    assert start(home) == [] and start(home) == [] and len(installed) == 1
    write(home.config, "admin_config.json", '{"ho2": {"sessions_max": 8}}')
    assert start(home) == [] and start(home) == [] and len(installed) == 2


def test_by_changed_software_they_are_judged_again(home: Home, installed: list[str], software: Path) -> None:
    """Of the same version, as when a later state of it is installed: one module that says something else is enough."""
    assert start(home) == [] and start(home) == [] and len(installed) == 1
    write(software, "config/check.py", "def pages(): ...\n")
    assert start(home) == [] and start(home) == [] and len(installed) == 2
    write(software, "config/more.py", "")
    assert start(home) == [] and len(installed) == 3


def test_what_a_cluster_that_runs_cannot_go_over_to_changes_nothing(home: Home) -> None:
    """And is no start: the message says under what it goes on."""
    clerk(home.config)
    package(home.config, spec_id="SPEC-GHOST-001")
    with pytest.raises(CommandError) as refused:
        gates.start_plan(home, StartOptions(), {}, running="sha256:0123456789abcdef")
    assert "nothing was changed, the cluster goes on under sha256:0123456789ab\n" in refused.value.message
    with pytest.raises(CommandError, match="nothing is started"):
        start(home)


def test_warnings_are_kept_and_failures_are_not(home: Home, installed: list[str]) -> None:
    """What was told once is told again; what is mended is found mended."""
    clerk(home.config)
    write(home.config, "prompt_packs/PRM-DEGRADED-001.txt", "[[user]]\n{{ user_input }}")
    said = start(home)
    assert len(said) == 1 and said[0].startswith("gates: 1 warning") and start(home) == said and len(installed) == 1
    package(home.config, spec_id="SPEC-GHOST-001")
    for _ in range(2):
        with pytest.raises(CommandError) as refused:
            start(home)
        assert refused.value.exit_code == exit_codes.INTEGRITY and refused.value.code == "gate_failed"
    assert len(installed) == 3
    package(home.config)
    assert start(home) == said


def test_what_was_kept_is_read_with_care(home: Home, installed: list[str]) -> None:
    """Damaged, of another form, or of other files: judged again."""
    start(home)
    kept = home.gates.read_text()
    key = json.loads(kept)["key"]
    forms = ["", "[]", "{}", '{"key": 1}', '{"key": "KEY", "findings": [1]}', "\0", '{"key": "KEY"}']
    for number, text in enumerate(forms, 2):
        home.gates.write_text(text.replace("KEY", key))
        assert start(home) == [] and len(installed) == number, text
        assert home.gates.read_text() == kept


def test_a_failure_that_somebody_wrote_into_the_file_is_judged(home: Home, installed: list[str]) -> None:
    """Nothing but warnings was ever kept there."""
    start(home)
    key = json.loads(home.gates.read_text())["key"]
    home.gates.write_text(json.dumps({"key": key, "findings": [["G0", "x", "y", "z", "fail"]]}))
    assert start(home) == [] and len(installed) == 2


def test_a_home_that_cannot_be_written_is_judged_each_time(home: Home, installed: list[str]) -> None:
    """And starts as well as any; nothing half written is left."""
    home.gates.mkdir()
    assert start(home) == [] and start(home) == [] and len(installed) == 2
    assert [path.name for path in home.root.iterdir() if path.name.startswith("gates.json")] == ["gates.json"]


def test_what_is_no_cache_is_judged_anew(home: Home, installed: list[str]) -> None:
    """A pipe that nobody writes, a file without end, one that is nested too deeply: nobody waits for them."""
    start(home)
    home.gates.unlink()
    os.mkfifo(home.gates)
    assert start(home) == [] and len(installed) == 2 and home.gates.is_file()
    home.gates.write_text("[" * 300_000)
    assert start(home) == [] and len(installed) == 3
    with home.gates.open("wb") as file:
        file.truncate(1_000_000_000)
    assert start(home) == [] and len(installed) == 4
    home.gates.unlink()
    home.gates.symlink_to("/dev/zero")
    assert start(home) == [] and len(installed) == 5


def test_where_the_software_is_worked_on_nothing_is_kept(home: Home) -> None:
    """What it says today it may not say tomorrow."""
    start(home)
    assert not home.gates.exists() and gate_cache.key_of(view_of(home)) == ""


def test_a_key_names_every_byte_and_every_place(home: Home, installed: list[str]) -> None:
    """Of each layer, also of what is shadowed."""
    view = view_of(home)
    key = gate_cache.key_of(view)
    (shipped,) = view.layers
    for name, held in shipped.held.items():
        other = replace(view, layers=[shipped._replace(held={**shipped.held, name: held._replace(sha256="sha256:0")})])
        assert gate_cache.key_of(other) != key
    assert gate_cache.key_of(replace(view, layers=[shipped._replace(sealed={})])) != key


def test_a_configuration_that_does_not_load_is_refused_for_all_of_it(home: Home) -> None:
    """What a gate forbids beside a wrong setting makes it a matter of integrity."""
    clerk(home.config, dependencies=["PKG-GHOST-001"])
    write(home.config, "admin_config.json", '{"ho2": {"sessions_max": -1}}')
    with pytest.raises(CommandError) as refused:
        start(home)
    assert "PKG-GHOST-001" in refused.value.message and "ho2.sessions_max" in refused.value.message


def test_an_installed_package_that_is_gone_is_a_matter_of_integrity(home: Home) -> None:
    """Of the home's own files a stray one is a mistake; what was installed was whole once."""
    name = "PKG-CLERK-001-1.0.0-0123456789abcdef"
    write(home.packages, "installed.json", json.dumps({"format": 1, "directories": [name]}))
    with pytest.raises(CommandError) as refused:
        start(home)
    assert refused.value.exit_code == exit_codes.INTEGRITY and f"G0  {home.packages / name}" in refused.value.message
    write(home.packages, "installed.json", json.dumps({"format": 1, "directories": []}))
    write(home.config, "agents/CLERK.txt", "x")
    with pytest.raises(ConfigError, match="no governed file has this place"):
        start(home)
