"""docs/configuration.md, from the schema and the shipped values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hobus.config.assets import AgentFile, Approval, Permissions
from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.config.parse import parse_json
from hobus.config.schema import AdminConfig

_OPERATORS = ("bus", "ledger", "launcher", "ho1", "ho2")
"""Sections that an agent's owner need not know."""


def page() -> str:
    """The whole page."""
    shipped: Any = parse_json((SHIPPED_ROOT / ADMIN_CONFIG).read_text(encoding="utf-8"))
    parts = [Path(__file__).with_name("settings.md").read_text(encoding="utf-8")]
    ours = [name for name in AdminConfig.model_fields if name not in _OPERATORS]
    told: dict[str, str] = {}
    for title, names in (("What people set", ours), ("What operators set", _OPERATORS)):
        parts.append(f"\n## {title}\n")
        for name in names:
            (section,) = _nested(AdminConfig.model_fields[name].annotation)
            about = (section.__doc__ or "").splitlines()[0]
            parts.append(f"\n### {name}\n\n{about}\n\n")
            parts.extend(_rows(name, section, shipped[name], told))
    parts.append("\n## agents/&lt;ID&gt;.json\n\nOne file per agent.\n\n")
    parts.extend(f"- `{name}`: {about}\n" for name, about in _agent_lines())
    return "".join(parts)


def _agent_lines() -> Iterator[tuple[str, str]]:
    """Each line that the file of an agent has, and what it is for."""
    for name, field in AgentFile.model_fields.items():
        yield name, str(field.description)
    for block, model in (("permissions", Permissions), ("approval", Approval)):
        for name, field in model.model_fields.items():
            yield f"{block}.{name}", str(field.description)


def _rows(path: str, section: type[BaseModel], shipped: Any, told: dict[str, str]) -> Iterator[str]:
    """A row for each setting; what a part of the same name has said before is not said again."""
    for name, field in section.model_fields.items():
        inner = _nested(field.annotation)
        value = shipped.get(name) if isinstance(shipped, dict) else None
        about = field.description or ""
        parts = () if inner else (f"`{json.dumps(value, ensure_ascii=False)}`",)
        yield f"- `{path}.{name}`: {', '.join((*parts, *((about,) if told.get(name) != about else ())))}\n"
        told[name] = about
        known: set[str] = set()
        for model in inner:
            suffix, sample = _inside(field, value)
            fits = isinstance(sample, dict) and sample.keys() <= model.model_fields.keys()
            rows = list(_rows(f"{path}.{name}{suffix}", model, sample if fits else None, told))
            yield from (row for row in rows if not (_is_bare(row) and row.partition("`: ")[0] in known))
            known.update(row.partition("`: ")[0] for row in rows)


def _is_bare(row: str) -> bool:
    """Whether a row tells neither a value nor a meaning."""
    return row.partition("`: ")[2].strip() in ("", "`null`")


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
