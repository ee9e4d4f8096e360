"""G4: each MUST and MUST NOT of a framework names a test or a runtime check that is there. Pure.

A test is `tests/<file>.py::<test>`, a runtime check `hobus.<module>:<name>`: a function or class of this software that
refuses at run time what the invariant forbids. Both are looked up in source text; nothing is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from hobus.config.assets import Framework
from hobus.config.gates.finding import Finding

SourceOf = Callable[[str], str | None]
"""The text of a Python file below this installation, by its `/`-separated path; None: there is none."""

_TEST = re.compile(r"(tests/(?:[A-Za-z0-9_]+/)*test_[A-Za-z0-9_]+\.py)::([A-Za-z_][A-Za-z0-9_]*)")
_CHECK = re.compile(r"hobus\.([a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*):([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_]\w*)?)")
_BEGIN = re.compile(r"([ \t]*)(?:(?:async +)?def|class) +")
_SHOWN_CHARS = 60


class Invariants(NamedTuple):
    """What G4 looks at."""

    frameworks: Mapping[str, Framework]
    paths: Mapping[str, str]
    """Framework id -> path of its manifest."""
    tested_here: frozenset[str]
    """Ids of frameworks whose tests are those of this software."""
    source_of: SourceOf
    has_tests: bool
    """Whether tests lie beside this software, as in a checkout; an installation has none."""


def find_unchecked(of: Invariants) -> Iterator[Finding]:
    """Yield invariants without a check, and checks that are not there; a note where the invariant is no MUST."""
    for framework_id, framework in of.frameworks.items():
        place = of.paths.get(framework_id, framework_id)
        for rule in framework.invariants:
            severity: Literal["fail", "note"] = "fail" if rule.level in ("MUST", "MUST NOT") else "note"
            said = f"{rule.level} {rule.statement[:_SHOWN_CHARS]!r}"
            if not rule.enforced_by:
                mend = "" if severity == "note" else "name its test or its runtime check in enforced_by"
                yield Finding("G4", place, f"{said} names no check", mend, severity)
            for check in rule.enforced_by:
                if fault := _explain_no_check(check, framework_id, of):
                    yield Finding("G4", place, f"{said}: {fault}", "name an existing one, or write it", severity)


def _explain_no_check(check: str, framework_id: str, of: Invariants) -> str:
    """Return why it is no check; empty: it is one, or, of a test, there is nothing to look it up in."""
    shown = check[: _SHOWN_CHARS * 2]
    if found := _TEST.fullmatch(check):
        if not of.has_tests or framework_id not in of.tested_here:
            return ""
        text = of.source_of(found[1])
        if text is None:
            return f"there is no file {found[1]}"
        return "" if _defines(text, found[2], is_inside=True) else f"there is no test {found[2]} in {found[1]}"
    if found := _CHECK.fullmatch(check):
        base = found[1].replace(".", "/")
        text = next((text for end in (".py", "/__init__.py") if (text := of.source_of(base + end)) is not None), None)
        if text is None:
            return f"there is no module hobus.{found[1]}"
        outer, _, inner = found[2].partition(".")
        is_there = _defines(text, outer, is_inside=False) and (not inner or _defines(text, inner, is_inside=True))
        return "" if is_there else f"there is no function or class {found[2]} in hobus.{found[1]}"
    return f"{shown!r} is neither tests/<file>.py::<test> nor hobus.<module>:<name>"


def _defines(text: str, name: str, *, is_inside: bool) -> bool:
    """Return whether a function or class of this name is made there, at the beginning of a line unless inside.

    A variable is no check: it refuses nothing.
    """
    # Where the name stands, and what stands before it there: a look at the beginning of every line takes long.
    for found in re.finditer(rf"{name}\b", text):
        begin = _BEGIN.fullmatch(text, text.rfind("\n", 0, found.start()) + 1, found.start())
        if begin is not None and (is_inside or not begin[1]):
            return True
    return False
