"""From the text of a governed file to a checked model; every fault in words, with its place and the fix.

Values of text settings are never repeated in a fault: somebody may have typed a secret where a reference belongs.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hobus.bus.settings import ADDRESS

M = TypeVar("M", bound=BaseModel)

BYTE_ORDER_MARK = (
    "begins with a byte order mark (BOM), invisible bytes that some editors put there; save it as `UTF-8`, not as "
    "`UTF-8 with BOM`"
)
"""What is wrong with such a file, and the fix."""

INTEGER_MAX = 2**53
"""Up to here an integer is the same number for every reader of JSON; a property of the format, not a setting."""


_HALF = re.compile("[\ud800-\udfff]")
_HALVED = "half of a character; write the character itself, or leave it out"
_FAULTS_SHOWN = 50
"""Of one file; each costs a look for what it may have been meant to be."""


_DEPTH_MAX = 256
"""What looks at a value calls itself for what is in it, and Python has an end of that at a thousand or so."""


class BadText(Exception):
    """Say place and reason of a file that is not what its name says."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raises BadText with line and column, also for a repeated key and for NaN."""
    if text.startswith("\ufeff"):
        raise BadText(BYTE_ORDER_MARK)
    if not text.strip():
        raise BadText("is empty; write what belongs there, or remove it")
    try:
        value = json.loads(text, object_pairs_hook=_require_unique_keys, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadText(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise BadText("nested too deeply") from error
    except ValueError as error:
        raise BadText(f"an integer beyond {INTEGER_MAX} (2**53); write a smaller one") from error
    level, depth = [value], 0
    while level := [item for one in level for item in _list_items(one) if isinstance(item, (dict, list))]:
        depth += 1
        if depth > _DEPTH_MAX:
            raise BadText("nested too deeply")
    return value


def _list_items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def check_model(model: type[M], value: Any, *, written: Any = None, strict: bool = False) -> tuple[M | None, list[str]]:
    """Return the model of `value`, or None and every fault, each beginning with its dotted path.

    `written`: what of it somebody wrote, where the rest was laid below it.
    """
    if halves := _find_halves(value, ()):
        return None, halves[:_FAULTS_SHOWN]
    faults = _find_too_large(value, ())[:_FAULTS_SHOWN]
    try:
        sound = model.model_validate(value, strict=strict or None)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        said = value if written is None else written
        told = {fault.partition(": ")[0] for fault in faults}
        faults += [
            fault
            for fault in (_describe_fault(model, detail, value, said) for detail in details[:_FAULTS_SHOWN])
            if fault.partition(": ")[0] not in told
        ]
        if len(details) > _FAULTS_SHOWN:
            faults.append(f"(the whole file): has {len(details) - _FAULTS_SHOWN} more faults; mend those first")
        return None, faults
    return (None if faults else sound), faults


def _find_too_large(value: Any, loc: tuple[str, ...]) -> list[str]:
    """Return a fault for every number that some readers of JSON take for another one, or (`1e999`) infinite."""
    if isinstance(value, dict):
        return [fault for key, item in value.items() for fault in _find_too_large(item, (*loc, str(key)))]
    if isinstance(value, list):
        return [fault for number, item in enumerate(value) for fault in _find_too_large(item, (*loc, str(number)))]
    if isinstance(value, (int, float)) and not abs(value) <= INTEGER_MAX:
        return [f"{'.'.join(loc)}: a number beyond {INTEGER_MAX} (2**53); write a smaller one"]
    return []


def _find_halves(value: Any, loc: tuple[str, ...]) -> list[str]:
    """Return a fault for every text with half of a character (a surrogate): JSON can write it, nobody store it."""
    if isinstance(value, dict):
        named = [(key, (*loc, _escape(str(key)))) for key in value]
        keys = [f"{'.'.join(path)}: a key with {_HALVED}" for key, path in named if _HALF.search(str(key))]
        return keys + [fault for key, path in named for fault in _find_halves(value[key], path)]
    if isinstance(value, list):
        return [fault for number, item in enumerate(value) for fault in _find_halves(item, (*loc, str(number)))]
    if isinstance(value, str) and (half := _HALF.search(value)):
        return [f"{'.'.join(loc)}: holds {_escape(half[0])}, {_HALVED}"]
    return []


def _escape(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise BadText(f"key {key!r} is written twice in one object")
        result[key] = value
    return result


def _refuse_constant(name: str) -> Any:
    raise BadText(f"{name} is not a number that JSON knows")


def _describe_fault(model: type[BaseModel], detail: ErrorDetails, value: Any, written: Any) -> str:
    loc = restore_written_path(detail["loc"], value)
    path = ".".join(str(part) for part in loc) or "(the whole file)"
    match detail["type"]:
        case "missing":
            return f"{path}: missing; add it"
        case "extra_forbidden":
            return f"{path}: unknown key; {_suggest_key(model, loc, written)}"
        case "union_tag_invalid" | "union_tag_not_found" as kind:
            context = detail.get("ctx", {})
            tag = str(context["discriminator"]).strip("'")  # the setting that says which of several kinds it is
            if kind == "union_tag_not_found":
                return f"{path}.{tag}: missing; add it"
            return f"{path}.{tag}: is {str(context['tag'])[:40]!r}; one of {context['expected_tags']}"
        case "literal_error":
            found: Any = detail["input"]
            shown = repr(found[:40]) if isinstance(found, str) else _show_value(found)
            return f"{path}: is {shown}; write {detail.get('ctx', {})['expected']}"
        case "value_error":
            return f"{path}: {detail['msg'].removeprefix('Value error, ')}"
        case "string_too_short" if not str(detail["input"]).strip():
            return f"{path}: is blank; write {WORDS[NOT_BLANK]}"
        case "string_pattern_mismatch" if (form := str(detail.get("ctx", {}).get("pattern"))) in WORDS:
            said = "is blank" if form == NOT_BLANK else "has another form"
            return f"{path}: {said}; write {WORDS[form]}"
        case _:
            return f"{path}: {_describe_wanted(detail['msg'], _show_value(detail['input']))}"


_CALLED = {
    "dictionary": "an object", "list": "a list", "tuple": "a list", "string": "text", "boolean": "true or false",
    "integer": "a whole number", "number": "a number",
}  # fmt: skip
"""How what pydantic calls a valid one is called in JSON."""
_VALID = re.compile(r"Input should be a valid (\w+)\b.*", re.DOTALL)
_BOUND = re.compile(r"Input should be ((?:greater|less) than .*)")
_FORM = re.compile(r"String should match pattern '(.*)'", re.DOTALL)


def _describe_wanted(message: str, shown: str) -> str:
    """Return what pydantic says of a value: what it is, and what to write instead; no class is named."""
    if found := _VALID.fullmatch(message):
        return f"is {shown}; write {_CALLED.get(found[1], f'a valid {found[1]}')}"
    if found := _BOUND.fullmatch(message):
        return f"is {shown}; write a number {found[1]}"
    if found := _FORM.fullmatch(message):
        return f"is {shown} of another form than {found[1]}; write it in this form"
    subject, should, rest = message.partition(" should ")
    if should and len(subject.split()) == 1:
        return f"is {shown}, which is not valid; it should {rest.partition(' after validation')[0]}"
    return f"is {shown}: {message}; correct it"


def restore_written_path(loc: tuple[int | str, ...], value: Any) -> tuple[int | str, ...]:
    """Return the path as somebody wrote it: without the kinds that pydantic names where one of several may stand."""
    path: list[int | str] = []
    for position, part in enumerate(loc):
        if isinstance(value, dict) and part not in value and position < len(loc) - 1:
            continue
        path.append(part)
        value = _find_at(value, (part,))
    return tuple(path)


def _show_value(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if isinstance(value, str):
        return "text" if value.strip() else "blank text"
    return {dict: "an object", list: "a list"}.get(type(value), type(value).__name__)


def _find_at(value: Any, loc: tuple[int | str, ...]) -> Any:
    """Return the value at a path; None where there is none."""
    for part in loc:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _suggest_key(model: type[BaseModel], loc: tuple[int | str, ...], value: Any) -> str:
    """Return the fix for an unknown key: the nearest known key that is not used yet, if there is one."""
    section: Any = model
    for part in loc[:-1]:
        fields = section.model_fields if isinstance(section, type) and issubclass(section, BaseModel) else {}
        field = fields.get(str(part))
        section = field.annotation if field else None
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        return "remove it"
    present = _find_at(value, loc[:-1])
    free = [name for name in section.model_fields if not isinstance(present, Mapping) or name not in present]
    near = difflib.get_close_matches(str(loc[-1]), free, n=1)
    return f"did you mean {near[0]!r}?" if near else "remove it"


NOT_BLANK = r"\S"
VERSION = r"^(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}$"
TIMESTAMP = r"^[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z$"
AGENT_ID = r"^[A-Z][A-Z0-9_]{0,63}$"
FRAMEWORK_ID = r"^FMWK-[0-9]{3}$"
SPEC_ID = r"^SPEC-[A-Z0-9]+(-[A-Z0-9]+)*$"
PACKAGE_ID = r"^PKG-[A-Z0-9]+(-[A-Z0-9]+)*$"
CONTRACT_ID = r"^PRC-[A-Z0-9]+-[0-9]{3}$"
PROMPT_PACK_ID = r"^PRM-[A-Z0-9]+-[0-9]{3}$"
TEMPLATE_ID = r"^ATT-[A-Z0-9]+-[0-9]{3}$"
GOVERNED_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
PLACES = r"^[A-Za-z0-9_.*-]+(/[A-Za-z0-9_.*-]+)*$"

WORDS: Mapping[str, str] = {
    ADDRESS: "HOST:PORT, such as 127.0.0.1:8080, or nothing",
    NOT_BLANK: "a text that is not blank",
    VERSION: "three numbers, such as 1.0.0",
    TIMESTAMP: "a time in UTC, such as 2026-11-25T09:30:00Z",
    AGENT_ID: "a capital letter, then A-Z, 0-9 and `_`, 64 at most, such as CLERK",
    FRAMEWORK_ID: "`FMWK-` and three digits, such as FMWK-200",
    SPEC_ID: "`SPEC-` and parts of A-Z and 0-9 with hyphens between, such as SPEC-CLERK-001",
    PACKAGE_ID: "`PKG-` and parts of A-Z and 0-9 with hyphens between, such as PKG-CLERK-001",
    CONTRACT_ID: "`PRC-`, a name of A-Z and 0-9, a hyphen and three digits, such as PRC-CLERK-001",
    PROMPT_PACK_ID: "`PRM-`, a name of A-Z and 0-9, a hyphen and three digits, such as PRM-CLERK-001",
    TEMPLATE_ID: "`ATT-`, a name of A-Z and 0-9, a hyphen and three digits, such as ATT-CLERK-001",
    GOVERNED_PATH: "a path below config/ of A-Z, a-z, 0-9 and `._-`, such as agents/CLERK.json",
    PLACES: "a path below config/, in which `*` stands for a part of a name, such as prompt_packs/PRM-CLERK-*.txt",
}
"""Form -> what is to be written."""
