"""Prompt packs: logic-free templates with provenance. Pure; used by everyone who renders one.

A pack is text in sections, `[[system]]` (at most one) and `[[user]]` (one or more), each on a line of its own; inside
a section `{{ name }}` stands for an input. There is no condition, loop, filter or escape: what a model is told can be
read off the file. Inputs are segments and stay segments, so that a text with a ref is recorded by its ref; a text is
never scanned for placeholders, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hobus.bus.errors import ConfigError, WorkOrderFault
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment

Role = Literal["system", "user"]

_SECTION = re.compile(r"^\[\[(.*)\]\][ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{ *([a-z][a-z0-9_]*) *\}\}")


@dataclass(frozen=True, slots=True)
class Variable:
    """Where an input goes."""

    name: str


@dataclass(frozen=True, slots=True)
class PackSection:
    """One message of the prompt: variables and literal texts in order; a literal is one segment for every prompt."""

    role: Role
    parts: tuple[Segment | Variable, ...]


@dataclass(frozen=True, slots=True)
class PromptPack:
    """A parsed pack."""

    pack_id: str
    sections: tuple[PackSection, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the inputs it needs, sorted, each once."""
        names = {part.name for section in self.sections for part in section.parts if isinstance(part, Variable)}
        return tuple(sorted(names))

    @property
    def texts(self) -> tuple[str, ...]:
        """What stands in it between the inputs, in order: the record names these by number."""
        return tuple(part.text for section in self.sections for part in section.parts if isinstance(part, Segment))


def parse_pack(pack_id: str, text: str) -> PromptPack:
    """The pack behind a file's text. Raises ConfigError naming the pack, the line and the fix."""
    pieces = _SECTION.split(text)
    if pieces[0].strip():
        raise ConfigError(f"{pack_id}: text before the first section; begin the file with [[system]] or [[user]]")
    sections: list[PackSection] = []
    line = 1 + pieces[0].count("\n")
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if name not in ("system", "user"):
            raise ConfigError(f"{pack_id}: line {line}: no section [[{name}]]; use [[system]] or [[user]]")
        sections.append(PackSection(name, _parts(pack_id, body, line)))
        line += body.count("\n")
    roles = [section.role for section in sections]
    if "user" not in roles or "system" in roles[1:]:
        raise ConfigError(f"{pack_id}: sections are {roles}; at most one [[system]], first, then one or more [[user]]")
    return PromptPack(pack_id, tuple(sections))


def fill_pack(pack: PromptPack, inputs: Mapping[str, Sequence[Segment]]) -> list[PromptMessage]:
    """The messages of a pack with its inputs in place, each input segment as it is, literals named by the pack.

    Raises WorkOrderFault(input_schema_invalid) that names every missing input.
    """
    messages: list[PromptMessage] = []
    try:
        for section in pack.sections:
            segments: list[Segment] = []
            for part in section.parts:
                segments += [part] if type(part) is Segment else [one for one in inputs[part.name] if one.text]
            messages.append(PromptMessage(role=section.role, segments=segments))
    except KeyError:
        missing = [name for name in pack.variables if name not in inputs]
        raise WorkOrderFault(
            "input_schema_invalid", f"{pack.pack_id} needs inputs that nobody gave: {missing}"
        ) from None
    return messages


def _parts(pack_id: str, body: str, first_line: int) -> tuple[Segment | Variable, ...]:
    text = body.strip("\n")
    pieces = _PLACEHOLDER.split(text)
    literals, names = pieces[0::2], pieces[1::2]
    offset = len(body) - len(body.lstrip("\n"))
    for literal in literals:
        # `}}` alone is left in peace: it ends nested JSON in examples.
        if "{{" in literal:
            line = first_line + body[: offset + text.index(literal)].count("\n") + literal.split("{{")[0].count("\n")
            raise ConfigError(f"{pack_id}: line {line}: `{{{{` that is no placeholder; write {{{{ name }}}}")
    parts: list[Segment | Variable] = [Segment(name=pack_id, text=literals[0])] if literals[0] else []
    for name, literal in zip(names, literals[1:], strict=True):
        parts.append(Variable(name))
        if literal:
            parts.append(Segment(name=pack_id, text=literal))
    return tuple(parts)
