"""G4: each MUST and MUST NOT names a check that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hobus.config.files import Layers
from hobus.config.gates.run import look, run_gates
from tests.config.gates.homes import FRAMEWORK, clerk, package, write

CHECK = '["tests/test_clerk.py::test_it_asks"]'


def told(root: Path, enforced_by: str, level: str = "MUST") -> list[tuple[str, str]]:
    """Severity and reason of what G4 says of a framework whose one invariant has these checks."""
    clerk(root)
    text = FRAMEWORK.replace(CHECK, enforced_by).replace("level: MUST", f"level: {level}")
    write(root, "frameworks/FMWK-900_Clerks/manifest.yaml", text)
    package(root)
    return [(one.severity, one.reason) for one in run_gates(look(Layers(own=root))) if one.gate == "G4"]


@pytest.mark.parametrize(
    "check",
    [
        "tests/test_clerk.py::test_it_asks", "tests/a/b/test_clerk.py::test_it_asks", "hobus.config.gates.links:links",
        "hobus.config.gates.finding:Finding", "hobus.config.gates.finding:Finding.line",
    ],
)  # fmt: skip
def test_a_check_that_is_there_is_found_in_the_text(tmp_path: Path, check: str) -> None:
    """A function, a class, a method; the test of another's package is taken as said."""
    assert told(tmp_path, f'["{check}"]') == []


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("hobus.config.gates.links:nothing", "there is no function or class nothing in hobus.config.gates.links"),
        (
            "hobus.config.gates.finding:Finding.colour",
            "there is no function or class Finding.colour in hobus.config.gates.finding",
        ),
        ("hobus.config.files:ADMIN_CONFIG", "there is no function or class ADMIN_CONFIG in hobus.config.files"),
        (
            "hobus.config.gates.finding:Finding.gate",
            "there is no function or class Finding.gate in hobus.config.gates.finding",
        ),
        ("hobus.bus.record:__doc__", "there is no function or class __doc__ in hobus.bus.record"),
        ("hobus.config.nowhere:links", "there is no module hobus.config.nowhere"),
        ("config.gates.links:links", "is neither tests/<file>.py::<test> nor hobus.<module>:<name>"),
        ("os:system", "is neither tests/<file>.py::<test> nor hobus.<module>:<name>"),
        ("hobus.../../etc/passwd:x", "is neither tests/<file>.py::<test> nor hobus.<module>:<name>"),
        ("tests/../../etc/test_x.py::test_x", "is neither tests/<file>.py::<test> nor hobus.<module>:<name>"),
        ("somebody is careful", "is neither tests/<file>.py::<test> nor hobus.<module>:<name>"),
    ],
)
def test_a_check_that_is_not_there_is_told(tmp_path: Path, check: str, reason: str) -> None:
    """Nothing is imported to find that out, and no path is followed."""
    ((severity, said),) = told(tmp_path, f'["{check}"]')
    assert severity == "fail" and said.endswith(reason)


def test_what_must_hold_names_a_check_and_what_should_may_have_none(tmp_path: Path) -> None:
    """MUST and MUST NOT fail without one; the other levels are a note."""
    for level, severity in (
        ("MUST", "fail"),
        ("MUST NOT", "fail"),
        ("SHOULD", "note"),
        ("SHOULD NOT", "note"),
        ("MAY", "note"),
    ):
        ((found, reason),) = told(tmp_path, "[]", level)
        assert found == severity and reason == f"{level} 'A clerk asks before it writes' names no check"


def test_a_test_of_a_shipped_framework_is_looked_up_where_tests_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout; an installation has none, and there its name is taken as said."""
    view = look()
    framework = view.reading.assets["framework"]["FMWK-107"]
    rule = framework.invariants[0].model_copy(update={"enforced_by": ("tests/test_nothing.py::test_nothing",)})
    changed = framework.model_copy(update={"invariants": (rule,)})
    monkeypatch.setitem(view.reading.assets["framework"], "FMWK-107", changed)
    (one,) = [one for one in run_gates(view) if one.gate == "G4"]
    assert one.reason.endswith("there is no file tests/test_nothing.py")
    assert [one for one in run_gates(view, has_tests=False) if one.gate == "G4"] == []
