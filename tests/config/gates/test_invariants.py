"""G4: each MUST and MUST NOT names a check that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hobus.config.files import Layers
from hobus.config.gates.run import look, run_gates
from tests.config.gates.homes import FRAMEWORK, clerk, package, write

INVARIANT = """\
  - level: MUST
    statement: A clerk asks before it writes
    enforced_by: ["tests/test_clerk.py::test_it_asks"]
"""


def told(root: Path, *invariants: tuple[str, str]) -> list[tuple[str, str]]:
    """Severity and reason of what G4 says of a framework whose invariants have these levels and checks."""
    clerk(root)
    said = "".join(
        INVARIANT.replace('["tests/test_clerk.py::test_it_asks"]', f'["{check}"]' if check else "[]").replace(
            "level: MUST", f"level: {level}"
        )
        for level, check in invariants
    )
    write(root, "frameworks/FMWK-900_Clerks/manifest.yaml", FRAMEWORK.replace(INVARIANT, said))
    package(root)
    return [(one.severity, one.reason) for one in run_gates(look(Layers(own=root))) if one.gate == "G4"]


def test_a_check_that_is_there_is_found_in_the_text(tmp_path: Path) -> None:
    checks = [
        "tests/test_clerk.py::test_it_asks", "tests/a/b/test_clerk.py::test_it_asks", "hobus.config.gates.links:find_broken_links",
        "hobus.config.gates.finding:Finding", "hobus.config.gates.finding:Finding.line",
    ]  # fmt: skip
    assert told(tmp_path, *(("MUST", check) for check in checks)) == []


def test_a_check_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Nothing is imported to find that out, and no path is followed."""
    where = "hobus.config.gates.finding"
    reasons = {
        "hobus.config.gates.links:nothing": "there is no function or class nothing in hobus.config.gates.links",
        f"{where}:Finding.colour": f"there is no function or class Finding.colour in {where}",
        "hobus.config.files:ADMIN_CONFIG": "there is no function or class ADMIN_CONFIG in hobus.config.files",
        f"{where}:Finding.gate": f"there is no function or class Finding.gate in {where}",
        "hobus.bus.record:__doc__": "there is no function or class __doc__ in hobus.bus.record",
        "hobus.config.nowhere:links": "there is no module hobus.config.nowhere",
    }
    forms = (
        "config.gates.links:links", "os:system", "hobus.../../etc/passwd:x", "tests/../../etc/test_x.py::test_x",
        "somebody is careful",
    )  # fmt: skip
    reasons |= {check: f"{check!r} is neither tests/<file>.py::<test> nor hobus.<module>:<name>" for check in forms}
    assert told(tmp_path, *(("MUST", check) for check in reasons)) == [
        ("fail", f"MUST 'A clerk asks before it writes': {reason}") for reason in reasons.values()
    ]


def test_what_must_hold_names_a_check_and_what_should_may_have_none(tmp_path: Path) -> None:
    """MUST and MUST NOT fail without one; the other levels are a note."""
    severities = {"MUST": "fail", "MUST NOT": "fail", "SHOULD": "note", "SHOULD NOT": "note", "MAY": "note"}
    assert told(tmp_path, *((level, "") for level in severities)) == [
        (severity, f"{level} 'A clerk asks before it writes' names no check") for level, severity in severities.items()
    ]


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
