"""No limit has a second source."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from hobus.config.schema import AdminConfig


def sections(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """A model and every model that its fields hold, each once."""
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        for held in held_models(field.annotation):
            yield from sections(held, seen)


def held_models(annotation: object) -> Iterator[type[BaseModel]]:
    """Models named in an annotation, also inside list, dict, tuple and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from held_models(argument)


SECTIONS = list(sections(AdminConfig, set()))


def test_no_setting_has_a_default_in_code() -> None:
    """A missing value is an error at start, never a number that nobody chose. Only without section ho3 memory is off.

    A model's window is nobody's choice: what is not stated is asked of its server; nor is how it thinks.
    """
    optional = [
        f"{section.__name__}.{name}"
        for section in SECTIONS
        for name, field in section.model_fields.items()
        if not field.is_required()
    ]
    assert optional == ["AdminConfig.ho3", "ModelConfig.context_tokens", "ModelConfig.thinks_first"]


def test_every_section_is_frozen_and_refuses_unknown_keys() -> None:
    """A misspelt setting is an error, and nobody changes one while the cluster runs."""
    wanted = {"frozen": True, "extra": "forbid"}
    assert [section.__name__ for section in SECTIONS if not wanted.items() <= section.model_config.items()] == []


def test_the_walk_reaches_nested_models() -> None:
    """The two tests above look at provider models and routes too."""
    assert {"BusSettings", "OpenAIProvider", "ModelConfig", "Route"} <= {section.__name__ for section in SECTIONS}
