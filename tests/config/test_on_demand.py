"""A snapshot as clients of its cluster read it: the same parts as the whole has, each when it is asked for."""

from importlib import import_module

import pytest

from bench.builders import shipped_with
from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import pack
from hobus.config.difference import list_differences
from hobus.config.on_demand import ASSETS, FIGURES, SECTIONS, read_on_demand
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import load_snapshot

WHOLE = load_snapshot()


def test_parts_are_those_of_the_whole_snapshot() -> None:
    there = read_on_demand(WHOLE.to_bytes())
    assert there.digest == WHOLE.digest
    shown = {name: getattr(there.config, name) for name in AdminConfig.model_fields}
    assert {name: as_written(one) if name in FIGURES else one for name, one in shown.items()} == {
        name: getattr(WHOLE.config, name).model_dump(mode="json") if name in FIGURES else getattr(WHOLE.config, name)
        for name in AdminConfig.model_fields
    }
    assert there.config.memory == WHOLE.config.memory
    assert {name: getattr(there, name) for name in ASSETS} == {name: dict(getattr(WHOLE, name)) for name in ASSETS}
    assert there.templates == WHOLE.templates


def as_written(figures):
    """The values of a section, as deep as it goes."""
    values = vars(figures).items()
    return {name: as_written(value) if hasattr(value, "__dict__") else value for name, value in values}


def test_sections_loaded_alone_are_of_the_settings_own_models() -> None:
    models = {name: getattr(import_module(module), model) for name, (module, model) in SECTIONS.items()}
    annotations = {name: field.annotation for name, field in AdminConfig.model_fields.items()}
    assert models | {"ho3": models["ho3"] | None} == annotations


@pytest.mark.parametrize("data", [b"", b"\xc1", pack([]), pack({}), pack({"config": {"bus": {}}})])
def test_bytes_of_another_version_are_said_to_be_such(data: bytes) -> None:
    for section in ("bus", "gateway"):
        with pytest.raises(ConfigError, match="restart the cluster"):
            getattr(read_on_demand(data).config, section).no_such_setting  # noqa: B018 - it has none


def test_one_is_compared_with_one_that_is_loaded_whole() -> None:
    other = shipped_with(("ho2.history_turns_max", 7))
    found = list_differences(read_on_demand(WHOLE.to_bytes()), other)
    assert [(one.name, one.after) for one in found] == [("ho2.history_turns_max", 7)]
    assert list_differences(read_on_demand(WHOLE.to_bytes()), WHOLE) == []
