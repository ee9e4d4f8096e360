"""Contracts: choose one, check its schemas, an order's inputs against its input schema, and what a model answered.

Of an answer one code fence is taken off, JSON is read where the contract wants it, and a repair is asked for. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.errors import WorkOrderFault
from hobus.bus.json_text import read_json
from hobus.bus.messages.gateway import PromptMessage, PromptResponse
from hobus.bus.messages.work_order import Segment
from hobus.config.assets import Contract
from hobus.config.json_schema import SchemaFault, Validator, get_validator
from hobus.config.sections.turns import ClassifyLabels


class CheckedContract(Struct, frozen=True):
    """A contract whose schemas are valid, with their validators."""

    contract: Contract
    inputs: Validator
    output: Validator | None
    defaults: Mapping[str, Sequence[Segment]]
    """Inputs that the input schema declares a default for."""
    read_as_json: Mapping[str, Any]
    """Inputs that the input schema wants as something else than text, and what as."""
    is_asked_for: bool = False
    """Its output schema is that of whoever asked: to be told to the model."""

    @property
    def wants_json(self) -> bool:
        """Return whether the answer is a JSON document rather than plain text."""
        schema = self.contract.output_schema
        return self.contract.boundary.structured_output or (schema is not None and schema.get("type") == "object")


def check_contract(contracts: Mapping[str, Contract], contract_id: str) -> CheckedContract:
    """Return the contract with its validators.

    Raises WorkOrderFault: contract_not_found, or contract_schema_invalid with schema and place.
    """
    if (contract := contracts.get(contract_id)) is None:
        raise WorkOrderFault("contract_not_found", f"no contract {contract_id or '(none named)'} in this snapshot")
    return CheckedContract(
        contract=contract,
        inputs=_get_validator(contract, "input_schema", contract.input_schema),
        output=None
        if contract.output_schema is None
        else _get_validator(contract, "output_schema", contract.output_schema),
        defaults={
            name: [Segment(name=name, text=_as_text(schema["default"]))]
            for name, schema in _get_properties(contract).items()
            if isinstance(schema, dict) and "default" in schema
        },
        read_as_json={
            name: wanted for name, schema in _get_properties(contract).items() if (wanted := _find_wanted(schema))
        },
    )


def with_form(checked: CheckedContract, schema: dict[str, Any]) -> CheckedContract:
    """Return the contract with this schema for its answer. Raises WorkOrderFault(format_not_met): it cannot be run."""
    contract = checked.contract
    boundary = contract.boundary.model_copy(update={"structured_output": True})
    try:
        output = get_validator(schema)
    except SchemaFault as fault:
        raise WorkOrderFault("format_not_met", f"output_schema {fault}") from None
    wanted = contract.model_copy(update={"output_schema": schema, "boundary": boundary})
    return replace(checked, contract=wanted, output=output, is_asked_for=True)


def make_label_inputs(labels: ClassifyLabels) -> dict[str, list[Segment]]:
    """Return the closed vocabulary as inputs that every pack may name."""
    return {
        "domain_labels": [Segment(name="domain_labels", text=", ".join(labels.domain))],
        "task_labels": [Segment(name="task_labels", text=", ".join(labels.task))],
    }


def gather_inputs(
    checked: CheckedContract, given: Sequence[Segment], standing: Mapping[str, Sequence[Segment]]
) -> dict[str, Sequence[Segment]]:
    """Return everything a pack may name, by name.

    What the order gives (segments of one name in order) wins over what stands in configuration, and that over the
    defaults that the input schema declares. Raises WorkOrderFault(input_schema_invalid), naming inputs and rules and
    never their texts.
    """
    own: dict[str, list[Segment]] = {}
    for segment in given:
        own.setdefault(segment.name, []).append(segment)
    inputs: dict[str, Sequence[Segment]] = {**checked.defaults, **standing, **own}
    document: dict[str, Any] = {
        name: "".join([segment.text for segment in segments]) if not segments or segments[1:] else segments[0].text
        for name, segments in inputs.items()
    }
    for name, wanted in checked.read_as_json.items():
        if name in document:
            document[name] = _read_value(name, document[name], wanted)
    if faults := list_schema_faults(checked.inputs, document):
        raise WorkOrderFault("input_schema_invalid", f"{checked.contract.contract_id}: {'; '.join(faults)}")
    return inputs


def list_schema_faults(validator: Validator, value: Any) -> list[str]:
    """Return every fault as `place: rule`, in order of place; rules are named, values are not shown."""
    return [str(fault) for fault in validator.faults(value)]


def _get_properties(contract: Contract) -> dict[str, Any]:
    found: dict[str, Any] = contract.input_schema.get("properties", {})
    return found


def _get_validator(contract: Contract, which: str, schema: dict[str, Any]) -> Validator:
    try:
        return get_validator(schema)
    except SchemaFault as fault:
        raise WorkOrderFault(
            "contract_schema_invalid", f"{contract.contract_id} {contract.version}: {which} {fault}"
        ) from None


def _as_text(default: Any) -> str:
    return default if isinstance(default, str) else json.dumps(default, sort_keys=True)


def _find_wanted(schema: Any) -> Any:
    """Return what an input's schema asks for where that is not text; else None."""
    wanted = schema.get("type", "string") if isinstance(schema, dict) else "string"
    return None if wanted == "string" or (isinstance(wanted, list) and "string" in wanted) else wanted


def _read_value(name: str, text: str, wanted: Any) -> Any:
    """Return an input as its schema sees it: the JSON value in its text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WorkOrderFault("input_schema_invalid", f"{name}: wanted {wanted}, is not JSON") from None


_FENCE = "```"
_OPENING = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?")


class OutputVerdict(Struct, frozen=True):
    """A judged answer; `faults` are sentences without the answer's text, empty if it is good."""

    parsed: dict[str, Any] | None
    faults: tuple[str, ...]


_FORM = """<output_schema>
Your answer is read by a program: give it as JSON alone, without a code fence or a word before or behind it, as one
object that this JSON Schema takes.
{schema}
</output_schema>"""

NO_TOOLS = OutputVerdict(None, ("a tool is called, and there is none",))
NO_CALL = OutputVerdict(None, ("no tool is asked for, and one has to be",))
JSON_ALONE = "one JSON object and nothing else, no code fence"
WHOLE_TEXT = "the complete answer as text"
A_CALL = "a call of one of the tools"
NOTHING = "the model answered with nothing, each time that it was asked"


def strip_fence(text: str) -> str:
    """Remove one code fence around all of the text; leave anything else as it is.

    No single pattern: it would try each blank anew, and a model's answer of blanks held its executor up for seconds.
    """
    opening, line_end, rest = text.strip().partition("\n")
    if not line_end or not rest.endswith(_FENCE) or _OPENING.fullmatch(opening) is None:
        return text
    return rest.removesuffix(_FENCE).rstrip(" \t").removesuffix("\n").removesuffix("\r")


def judge_output(checked: CheckedContract, content: str) -> OutputVerdict:
    """Judge an answer that asks for no tools by its contract."""
    if not checked.wants_json:
        if not content.strip():
            return OutputVerdict(None, ("$: blank text",))
        return OutputVerdict(None, tuple(list_schema_faults(checked.output, content)) if checked.output else ())
    try:
        value = read_json(strip_fence(content))
    except ValueError:
        return OutputVerdict(None, ("$: not JSON",))
    if not isinstance(value, dict):
        return OutputVerdict(None, ("$: not a JSON object",))
    faults = tuple(list_schema_faults(checked.output, value)) if checked.output else ()
    return OutputVerdict(None if faults else value, faults)


def strip_answer_fence(answer: Segment, checked: CheckedContract) -> Segment:
    """Return the answer as the requester reads it: in a form of theirs the JSON alone, without its fence."""
    text = strip_fence(answer.text).strip() if checked.is_asked_for else answer.text
    return answer if text == answer.text else Segment(name=answer.name, text=text)


def with_form_told(messages: Sequence[PromptMessage], schema: dict[str, Any]) -> list[PromptMessage]:
    """Put the form of the answer in words before the message that is to be answered.

    In words beside what the provider is told: not every provider keeps to a schema, or takes every one.
    """
    asking = [number for number, one in enumerate(messages) if one.role == "user"]
    at = next((n for n in asking if any(part.name == "user_input" for part in messages[n].segments)), asking[-1])
    told = Segment(name="output_schema", text=_FORM.format(schema=json.dumps(schema, ensure_ascii=False)))
    return [*messages[:at], PromptMessage(role="user", segments=[told]), *messages[at:]]


def make_repair_messages(response: PromptResponse, faults: Sequence[str], shape: str) -> list[PromptMessage]:
    """Return what is added to the transcript to mend a rejected answer: the answer, and what is wrong with it."""
    listed = "\n".join(f"- {fault}" for fault in faults)
    ask = f"Your answer was not accepted:\n{listed}\nAnswer again with {shape}."
    said = [Segment(name="answer", ref=response.content_ref, text=response.content)] if response.content else []
    return [
        *([PromptMessage(role="assistant", segments=said)] if said else []),
        PromptMessage(role="user", segments=[Segment(name="repair", text=ask)]),
    ]
