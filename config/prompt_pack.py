"""Prompt packs: logic-free templates with provenance. Pure; used by everyone who renders one.

A pack is a conversation in sections, each begun by a line of its own: `[[system]]` (first), `[[user]]` and
`[[assistant]]` with the text of a message, `[[history]]` where the session's earlier turns come as messages. Inside a
section `{{ name }}` stands for an input. `[[user: name other]]` stands only where one of these inputs has text; so does
`[[system: name]]`, which goes on with the system message. There is no other condition, no loop, filter or escape: what
a model is told can be read off the file. Inputs are segments and stay segments, so that a text with a ref is recorded
by its ref; a text is never scanned for placeholders, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from msgspec import Struct

from hobus.bus.errors import ConfigError, WorkOrderFault
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment

Role = Literal["system", "user", "assistant", "history"]

_SECTION = re.compile(r"^\[\[(.*)\]\][ \t]*$", re.MULTILINE)
_HEAD = re.compile(r"(system|user|assistant|history)(?:: *([a-z][a-z0-9_]*(?: +[a-z][a-z0-9_]*)*))? *")
_PLACEHOLDER = re.compile(r"\{\{ *([a-z][a-z0-9_]*) *\}\}")
_FORM_INPUTS = frozenset({"history", "prior_results", "draft", "steer"})
"""Inputs of packs as they were before: forms with a block for each."""
_CONVERSATION = (
    "a pack is a conversation: write [[system]] with {{ system }}, [[history]] where the earlier turns come, "
    "[[user: ho3_biases]] and [[user: assembled_context]] with these, then [[user]] with {{ user_input }} alone; "
    "steers, notes and drafts come behind it by themselves"
)


class Variable(Struct, frozen=True):
    """Where an input goes."""

    name: str


class PackSection(Struct, frozen=True):
    """One message of the prompt: variables and literal texts in order; a literal is one segment for every prompt."""

    role: Role
    parts: tuple[Segment | Variable, ...]
    needs: tuple[str, ...] = ()
    """Inputs of which one has to have text; none: it always stands."""


class PromptPack(Struct, frozen=True):
    """A parsed pack."""

    pack_id: str
    sections: tuple[PackSection, ...]
    variables: tuple[str, ...]
    """Names of the inputs it needs, sorted, each once."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what stands in it between the inputs, in order: the record names these by number."""
        return tuple(part.text for section in self.sections for part in section.parts if isinstance(part, Segment))


def parse_pack(pack_id: str, text: str) -> PromptPack:
    """Return the pack behind a file's text. Raises ConfigError naming the pack, the line and the fix."""
    pieces = _SECTION.split(text)
    if pieces[0].strip():
        raise ConfigError(f"{pack_id}: text before the first section; begin the file with [[system]] or [[user]]")
    sections: list[PackSection] = []
    line = 1 + pieces[0].count("\n")
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        head = _HEAD.fullmatch(name)
        if head is None:
            known = "[[system]], [[user]], [[assistant]] or [[history]], the first three also as [[user: input]]"
            raise ConfigError(f"{pack_id}: line {line}: no section [[{name}]]; use {known}")
        role = cast("Role", head[1])
        more = "\n\n" if role == "system" and sections else ""
        sections.append(PackSection(role, _parse_parts(pack_id, body, line, more), tuple((head[2] or "").split())))
        line += body.count("\n")
    shown = {part.name for section in sections for part in section.parts if isinstance(part, Variable)}
    variables = sorted(shown.union(*(section.needs for section in sections)))
    pack = PromptPack(pack_id, tuple(sections), tuple(variables))
    if old := sorted(_FORM_INPUTS.intersection(pack.variables)):
        raise ConfigError(f"{pack_id}: {{{{ {old[0]} }}}} is no longer an input: {_CONVERSATION}")
    roles = [section.role for section in sections]
    if "user" not in roles or "system" in roles[roles.count("system") :]:
        raise ConfigError(f"{pack_id}: sections are {roles}; {_CONVERSATION}")
    return pack


def fill_pack(
    pack: PromptPack, inputs: Mapping[str, Sequence[Segment]], history: Sequence[Segment] = ()
) -> list[PromptMessage]:
    """Return the messages of a pack with its inputs in place, each segment as it is, literals named by the pack.

    Raises WorkOrderFault(input_schema_invalid) that names every missing input.
    """
    if missing := [name for name in pack.variables if name not in inputs]:
        raise WorkOrderFault("input_schema_invalid", f"{pack.pack_id} lacks inputs: {missing}")
    messages: list[PromptMessage] = []
    for section in pack.sections:
        if section.needs and not [one for name in section.needs for one in inputs[name] if one.text]:
            continue
        segments = list(history) if section.role == "history" else []
        for part in section.parts:
            segments += [part] if type(part) is Segment else [one for one in inputs[part.name] if one.text]
        if section.role == "system" and messages:
            messages[0] = messages[0].model_copy(update={"segments": [*messages[0].segments, *segments]})
        elif segments:
            # Of a checked pack and checked segments.
            messages += (PromptMessage(role=section.role, segments=segments, tool_calls=[], tool_call_id=""),)
    return messages


def frame_inputs(pack: PromptPack) -> dict[str, tuple[str, str]]:
    """Return what stands before and behind each input that a message behind earlier turns shows alone, in order."""
    found: dict[str, tuple[str, str]] = {}
    roles = [section.role for section in pack.sections]
    for section in pack.sections[roles.index("history") :] if "history" in roles else ():
        names = [part.name for part in section.parts if isinstance(part, Variable)]
        if section.role == "user" and section.needs == tuple(names) and len(names) == 1:
            at = section.parts.index(Variable(names[0]))
            texts = [part.text if isinstance(part, Segment) else "" for part in section.parts]
            found[names[0]] = ("".join(texts[:at]), "".join(texts[at:]))
    return found


def _parse_parts(pack_id: str, body: str, first_line: int, before: str) -> tuple[Segment | Variable, ...]:
    text = body.strip("\n")
    pieces = _PLACEHOLDER.split(text)
    literals, names = pieces[0::2], pieces[1::2]
    offset = len(body) - len(body.lstrip("\n"))
    for literal in literals:
        # `}}` alone is left in peace: it ends nested JSON in examples.
        if "{{" in literal:
            line = first_line + body[: offset + text.index(literal)].count("\n") + literal.split("{{")[0].count("\n")
            raise ConfigError(f"{pack_id}: line {line}: `{{{{` that is no placeholder; write {{{{ name }}}}")
    literals[0] = before + literals[0]
    parts: list[Segment | Variable] = [Segment(name=pack_id, text=literals[0])] if literals[0] else []
    for name, literal in zip(names, literals[1:], strict=True):
        parts.append(Variable(name))
        if literal:
            parts.append(Segment(name=pack_id, text=literal))
    return tuple(parts)
