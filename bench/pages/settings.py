"""docs/configuration.md, from the schema and the shipped values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.config.parse import json_value
from hobus.config.schema import AdminConfig
from hobus.launch.cli.commands.init import agent_lines

_OPERATORS = ("bus", "ledger", "launcher", "ho1", "ho2")
"""Sections that an agent's owner need not know."""
_UNITS = (
    ("_usd_per_million", "USD per million tokens"),
    ("_ms", "ms"),
    ("_seconds", "s"),
    ("_s", "s"),
    ("_bytes", "bytes"),
    ("_bytes_max", "bytes"),
    ("_per_token", "characters per token"),
    ("_length", "characters"),
    ("_chars", "characters"),
    ("_token_limit", "tokens"),
    ("_tokens", "tokens"),
    ("_budget", "tokens"),
    ("_min_remaining", "tokens"),
)
"""Last part of a name -> unit; a number without one is a count."""


def unit_of(name: str, field: FieldInfo) -> str:
    """The unit of a setting: from the end of its name; empty for what is no number."""
    numbers: tuple[Any, ...] = (int, float, int | None, float | None)
    if field.annotation not in numbers:
        return ""
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "count")


def page() -> str:
    """The whole page."""
    shipped: Any = json_value((SHIPPED_ROOT / ADMIN_CONFIG).read_text(encoding="utf-8"))
    parts = [Path(__file__).with_name("settings.md").read_text(encoding="utf-8")]
    ours = [name for name in AdminConfig.model_fields if name not in _OPERATORS]
    for title, names in (("What people set", ours), ("What operators set", _OPERATORS)):
        parts.append(f"\n## {title}\n")
        for name in names:
            (section,) = _nested(AdminConfig.model_fields[name].annotation)
            about = (section.__doc__ or "").splitlines()[0]
            parts.append(f"\n### {name}\n\n{about}\n\n")
            parts.extend(_rows(name, section, shipped[name]))
    parts.append(
        "\n## agents/&lt;ID&gt;.json\n\nWho answers: one file per agent.\n\n| line | what for |\n| --- | --- |\n"
    )
    parts.extend(f"| `{name}` | {told} |\n" for name, told in agent_lines())
    return "".join(parts)


def _rows(path: str, section: type[BaseModel], shipped: Any) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = _nested(field.annotation)
        value = shipped.get(name) if isinstance(shipped, dict) else None
        unit = unit_of(name, field)
        parts = () if inner else (f"`{json.dumps(value, ensure_ascii=False)}`", *((unit,) if unit else ()))
        yield f"- `{path}.{name}`: {' '.join((*parts, '-')) + ' ' if parts else ''}{field.description}\n"
        known: set[str] = set()
        for model in inner:
            suffix, sample = _inside(field, value)
            fits = isinstance(sample, dict) and sample.keys() <= model.model_fields.keys()
            rows = {_told(row): row for row in _rows(f"{path}.{name}{suffix}", model, sample if fits else None)}
            yield from (row for told, row in rows.items() if told not in known)
            known.update(rows)


def _told(row: str) -> str:
    """A row without the value as shipped, which one of several kinds may have and another not."""
    name, _, rest = row.partition(": ")
    return f"{name}: {rest.partition(' - ')[2] or rest}"


def _nested(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field holds, alone, in a list or mapping, or one of several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for item in getattr(annotation, "__args__", ()) for model in _nested(item)]


def _inside(field: FieldInfo, value: Any) -> tuple[str, Any]:
    """How a path goes on below a field, and the first shipped value there."""
    origin = getattr(field.annotation, "__origin__", None)
    if origin is dict:
        return ".<id>", next(iter((value or {}).values()), None)
    if origin is list:
        return "[]", next(iter(value or ()), None)
    return "", value
