"""docs/configuration.md, docs/attention.md and the entries in docs/ledger.md, from schema, shipped values and catalogue."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hobus.bus.messages.ledger import STREAMS
from hobus.bus.record.catalog import KINDS, SESSION, EntryKind
from hobus.config.assets import AgentFile, Approval, Permissions
from hobus.config.attention_template import AnyStage, AppliesTo, PipelineFallback, Template, TemplateBudget
from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.config.parse import parse_json
from hobus.config.schema import AdminConfig

_PARTS = (("applies_to", AppliesTo), ("budget", TemplateBudget), ("fallback", PipelineFallback))


def attention_page() -> str:
    keys = [*_key_rows("", Template), *(row for name, model in _PARTS for row in _key_rows(f"{name}.", model))]
    kinds: dict[str, list[str]] = {}
    for stage in get_args(AnyStage):
        config = stage.model_fields["config"].annotation
        sentence = " ".join((config.__doc__ or "").split("\n\n")[0].split())
        told = f"{sentence}\n\n{''.join(_key_rows('', config))}"
        kinds.setdefault(told, []).extend(f"`{kind}`" for kind in get_args(stage.model_fields["type"].annotation))
    stages = "".join(f"\n### {', '.join(names)}\n\n{told}" for told, names in kinds.items())
    page = Path(__file__).with_name("attention.md").read_text(encoding="utf-8")
    return page.replace("{keys}", "".join(keys)).replace("{stages}", stages)


def _key_rows(path: str, model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if field.description is not None:
            yield f"- `{path}{name}`: {field.description}{_default(field)}\n"


def _default(field: FieldInfo) -> str:
    """What a key means that is left out, where its description does not say it."""
    value: Any = None if field.is_required() else field.get_default(call_default_factory=True)
    return f" (default: `{value}`)" if isinstance(value, str) else ""


def lists() -> str:
    """A list per stream; what most of its entries share is said above them."""
    parts: list[str] = []
    for stream in (SESSION, *STREAMS):
        kinds = [kind for kind in KINDS if kind.stream == stream]
        name = "session/<session>" if stream == SESSION else stream
        writers = Counter(", ".join(kind.writers) for kind in kinds).most_common(1)[0][0]
        parts.append("\n".join((f"`{name}`, by {writers}:\n", *(_line(kind, writers) for kind in kinds))))
    return "\n\n".join(parts)


def _line(kind: EntryKind, writers: str) -> str:
    searched = {body.number for body in kind.searched}
    own = ", ".join(kind.writers)
    texts = ", ".join(f"*{text}*" if number in searched else text for number, text in enumerate(kind.texts, start=1))
    said = (
        kind.means.removeprefix(f"Entry {kind.event_type}: ").replace(f" (entry {kind.event_type})", "").rstrip("."),
        f"by {own}" if own != writers else "",
        f"texts: {texts}" if texts else "",
    )
    return f"- {kind.event_type}{' **!**' if kind.is_barrier else ''}: {'; '.join(filter(None, said))}"


def entries_page() -> str:
    page = (Path(__file__).resolve().parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    (before, begin, rest), end = page.partition("<!-- entries: begin -->"), "<!-- entries: end -->"
    return f"{before}{begin}\n{lists()}\n{end}{rest.partition(end)[2]}"


_OPERATORS = ("bus", "ledger", "launcher", "ho1", "ho2")  # sections that an agent's owner need not know


def settings_page() -> str:
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
    files = (AgentFile, ""), (Permissions, "permissions."), (Approval, "approval.")
    agent = (
        f"- `{of}{name}`: {field.description}\n" for model, of in files for name, field in model.model_fields.items()
    )
    return "".join((*parts, "\n## agents/&lt;ID&gt;.json\n\nOne file per agent.\n\n", *agent))


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
            for row in rows:
                setting, _, said = row.partition("`: ")
                if setting not in known or said.strip() not in ("", "`null`"):
                    yield row
            known.update(row.partition("`: ")[0] for row in rows)


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
