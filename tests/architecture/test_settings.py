"""A knob that turns nothing is worse than none."""

from __future__ import annotations

import ast
from functools import cache

from hobus.config.schema import AdminConfig
from tests.architecture.source import modules, nodes
from tests.architecture.test_defaults import SECTIONS

DECLARED_IN = ("hobus.config.sections.", "hobus.config.schema", "hobus.bus.settings", "hobus.config.consistency")

NOT_USED_YET: dict[str, str] = {}
"""Setting -> which later part uses it; its place in the file is final."""


@cache
def read_names() -> frozenset[str]:
    """Every attribute that some module reads, and every text; by name alone, so that a common name may hide a dead knob."""
    trees = [tree for name, tree in modules().items() if not name.startswith(DECLARED_IN)]
    attributes = {node.attr for tree in trees for node in nodes(tree, ast.Attribute)}
    constants = {node.value for tree in trees for node in nodes(tree, ast.Constant) if type(node.value) is str}
    return frozenset(attributes | constants)


SETTINGS = [
    f"{section.__name__}.{name}" for section in SECTIONS if section is not AdminConfig for name in section.model_fields
]


def test_every_setting_is_read_by_some_code() -> None:
    """A setting without a reader is listed with the part that will read it; one with a reader is not."""
    unread = {setting for setting in SETTINGS if setting.partition(".")[2] not in read_names()}
    assert unread == set(NOT_USED_YET)
