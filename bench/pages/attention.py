"""docs/attention.md, from the models of templates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hobus.config.attention_template import AnyStage, AppliesTo, PipelineFallback, Template, TemplateBudget

_PARTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("applies_to", AppliesTo),
    ("budget", TemplateBudget),
    ("fallback", PipelineFallback),
)


def page() -> str:
    """The whole page."""
    parts = [Path(__file__).with_name("attention.md").read_text(encoding="utf-8")]
    parts.append("\n## Keys of a template\n\n")
    parts.extend(_rows("", Template))
    for name, model in _PARTS:
        parts.extend(_rows(f"{name}.", model))
    parts.append(
        "\n## Stages\n\nEach has `stage` (its name in the trace, unique in its template), `type`, `config` (if its type needs any) "
        "and `enabled` (default true).\n"
    )
    kinds: dict[str, list[str]] = {}
    for stage in get_args(AnyStage):
        config = stage.model_fields["config"].annotation
        told = f"{_sentence(config)}\n\n{''.join(_rows('', config))}"
        kinds.setdefault(told, []).extend(f"`{kind}`" for kind in get_args(stage.model_fields["type"].annotation))
    parts.extend(f"\n### {', '.join(names)}\n\n{told}" for told, names in kinds.items())
    return "".join(parts)


def _rows(path: str, model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if field.description is not None:
            yield f"- `{path}{name}`: {field.description}{_default(field)}\n"


def _default(field: FieldInfo) -> str:
    """What a key means that is left out, where its description does not say it."""
    value: Any = None if field.is_required() else field.get_default(call_default_factory=True)
    return f" (default: `{value}`)" if isinstance(value, str) else ""


def _sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split("\n\n")[0].split())
