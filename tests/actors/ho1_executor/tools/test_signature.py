"""A function's annotations as a JSON Schema, and what it is given of the arguments that fit it."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema_rs import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from typing_extensions import TypedDict

from hobus.actors.ho1_executor.tools.definition import BadArguments
from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, read_signature
from hobus.bus.tool import Invocation
from hobus.config.json_schema import check_schema, get_validator


def plain(  # noqa: PLR0917 - one parameter per kind of annotation
    text: str,
    whole: int,
    share: float = 0.5,
    yes: bool = False,
    kind: Literal["a", "b"] = "a",
    many: list[int] | None = None,
    named: dict[str, float] | None = None,
    some: Sequence[str] = (),
    rows: Mapping[str, Any] | None = None,
    *,
    call: Invocation,
) -> str:
    """Whatever."""
    return text


def test_every_plain_annotation_has_its_schema():
    signature = read_signature(plain)
    schema = signature.schema()
    check_schema(schema, is_run=False)
    assert schema["required"] == ["text", "whole"]
    assert schema["additionalProperties"] is False
    assert "call" not in schema["properties"]
    assert schema["properties"]["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert schema["properties"]["many"] == {
        "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}],
        "default": None,
    }
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"text": "x", "whole": 1, "named": {"a": 1.5}, "some": ["x"], "rows": {"z": []}})
    assert not validator.is_valid({"text": "x", "whole": "1"})
    assert not validator.is_valid({"text": "x", "whole": 1, "call": {}})
    assert signature.invocation == "call"


class Urgency(enum.Enum):
    """Two."""

    LOW = "low"
    HIGH = "high"


@dataclass
class Person:
    """Who."""

    name: str
    age: Annotated[int, Field(ge=0)] = 0


class Place(TypedDict):
    """Where."""

    city: str


class Ticket(BaseModel):
    """A model of its own."""

    title: str
    due: date | None = None


def rich(  # noqa: PLR0917 - one parameter per kind of annotation
    amount: Annotated[int, Field(ge=1, le=10, description="how many")],
    urgency: Urgency,
    who: Person,
    where: Place,
    pair: tuple[int, str],
    at: datetime,
    wait: timedelta,
    tags: set[str],
    file: Path,
    ticket: Ticket,
    schema: str = "a name that models have",
    _private: int = 1,
    copy: Urgency = Urgency.LOW,
):
    """Whatever."""


GIVEN: dict[str, Any] = {
    "amount": 3,
    "urgency": "high",
    "who": {"name": "Ada", "age": 36},
    "where": {"city": "Bonn"},
    "pair": [1, "x"],
    "at": "2026-11-25T12:00:00Z",
    "wait": "PT1M",
    "tags": ["a", "b"],
    "file": "/tmp/x",
    "ticket": {"title": "t", "due": "2026-11-25"},
    "_private": 2,
}


def test_rich_annotations_say_what_they_mean():
    schema = read_signature(rich).schema()
    check_schema(schema, is_run=False)
    properties = schema["properties"]
    assert list(properties) == list(rich.__annotations__)
    assert properties["amount"] == {"type": "integer", "minimum": 1, "maximum": 10, "description": "how many"}
    assert properties["at"] == {"type": "string", "format": "date-time"}
    assert properties["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert schema["$defs"]["Urgency"]["enum"] == ["low", "high"]
    assert schema["$defs"]["Person"]["properties"]["age"] == {"type": "integer", "minimum": 0, "default": 0}
    assert schema["$defs"]["Person"]["required"] == ["name"]
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert properties["copy"]["default"] == "low"
    assert "title" not in schema
    assert get_validator(schema).is_valid(GIVEN)
    assert not get_validator(schema).is_valid(GIVEN | {"urgency": "middling"})


def test_the_function_gets_what_its_annotations_say():
    assert read_signature(rich).converted(GIVEN) == {
        "amount": 3,
        "urgency": Urgency.HIGH,
        "who": Person("Ada", 36),
        "where": {"city": "Bonn"},
        "pair": (1, "x"),
        "at": datetime(2026, 11, 25, 12, tzinfo=UTC),
        "wait": timedelta(minutes=1),
        "tags": {"a", "b"},
        "file": Path("/tmp/x"),
        "ticket": Ticket(title="t", due=date(2026, 11, 25)),
        "_private": 2,
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"amount": 11}, "amount: Input should be less than or equal to 10"),
        ({"at": "tomorrow"}, "at: Input should be a valid datetime"),
        ({"who": {"age": 1}}, "who.name: Field required"),
        ({"other": 1}, "other: Extra inputs are not permitted"),
    ],
)
def test_what_does_not_fit_is_said_by_its_place_and_never_with_its_value(changed, said):
    """The model is told, so that it can do better; also what no JSON Schema says, such as a date that is none."""
    with pytest.raises(BadArguments, match=f"^{re.escape(said)}"):
        read_signature(rich).converted(GIVEN | changed)


def even(number: int) -> int:
    """A rule of the author's."""
    if number % 2:
        raise ValueError("an even number is needed")
    return number


def ruled(number: Annotated[int, AfterValidator(even)]):
    """Whatever."""


def test_a_validator_of_the_author_s_own_decides_too():
    assert read_signature(ruled).converted({"number": 2}) == {"number": 2}
    with pytest.raises(BadArguments, match="number: Value error, an even number is needed"):
        read_signature(ruled).converted({"number": 3})


def nothing():
    """No parameter at all."""


def test_a_function_without_parameters_takes_nothing():
    assert read_signature(nothing).schema() == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    with pytest.raises(BadArguments, match="a: Extra inputs"):
        read_signature(nothing).converted({"a": 1})


def unannotated(a):
    """No."""


def starred(*a: int):
    """No."""


def positional(a: int, /):
    """No."""


class Strange:
    """Nothing that pydantic knows."""


def strange(a: Strange):
    """No."""


def callback(a: Callable[[], int]):
    """No."""


def unreadable(a: NoSuchName):  # noqa: F821 - that is the point
    """No."""


def patterned(a: Annotated[str, Field(pattern="[")]):
    """No."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (unannotated, "parameter a has no annotation; add one"),
        (starred, "parameter a cannot be given by name; make it one"),
        (positional, "parameter a cannot be given by name; make it one"),
        (strange, "parameter a: .*; mend it, or use a type that JSON has"),
        (callback, "its annotations have no JSON Schema .*; use types that JSON has"),
        (unreadable, "cannot be read .*; import what they name"),
        (patterned, "parameter a: .*; mend it, or use a type that JSON has"),
    ],
)
def test_what_has_no_schema_says_which_parameter_and_what_fixes_it(function, said):
    """And never guesses."""
    with pytest.raises(BadEntryPoint, match=said):
        read_signature(function).schema()


def test_a_schema_of_one_s_own_stands_in_the_annotation():
    """The function gets what came."""

    def free(a: Annotated[Any, WithJsonSchema({"type": "object", "properties": {"b": {"type": "integer"}}})]):
        """Takes it."""

    signature = read_signature(free)
    assert signature.schema()["properties"]["a"]["properties"] == {"b": {"type": "integer"}}
    assert signature.converted({"a": {"b": 1}}) == {"a": {"b": 1}}
