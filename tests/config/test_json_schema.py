"""Which schemas are taken, what breaks them in which words, and that no stranger's schema takes long."""

from __future__ import annotations

import atexit
import socket
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import shipped_snapshot
from hobus.config.json_schema import SchemaFault, check_schema, get_validator

SECONDS_MAX = 3.0
"""Beyond any of these here, on a busy machine too; without a bound they take minutes, or until the end of time."""

LETTERS = {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}
ONE_OF_MANY = {
    "$defs": {f"d{n}": {"properties": {"k": {"const": n}}} for n in range(100)},
    "items": {"oneOf": [{"$ref": f"#/$defs/d{n}"} for n in range(100)]},
}
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
"""What a widespread TypeScript library writes into the schemas of its tools."""


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def high(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def doubling(levels: int, by: str = "allOf") -> dict[str, Any]:
    """Two references at each step: 2^levels looks at any value."""
    steps: dict[str, Any] = {f"d{n}": {by: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"d{levels}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


def doubling_below(by: str) -> dict[str, Any]:
    """Two references at each step down: 2^height looks at a value."""
    below = {"items": {"$ref": "#/$defs/t"}} if by == "items" else {by: {"": {"$ref": "#/$defs/t"}}}
    return {"$defs": {"t": {"allOf": [below, below]}}, "$ref": "#/$defs/t"}


def unevaluated(levels: int) -> dict[str, Any]:
    """Each level asks again what those below evaluated."""
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


def own_documents(count: int) -> dict[str, Any]:
    """Documents in a document, each of which refers to its own beginning."""
    each = {str(n): {"$id": f"urn:x:{n}", "allOf": [{"$ref": "#"}] * 2} for n in range(count)}
    return {"$defs": each, "allOf": [{"$ref": f"#/$defs/{n}"} for n in range(count)]}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_fetched() -> Iterator[None]:
    """A server listens where remote references lead: nobody ever comes. A worker may come back to this module."""
    yield
    with pytest.raises(BlockingIOError):
        SERVER.accept()


SERVER = socket.create_server(("127.0.0.1", 0))
atexit.register(SERVER.close)  # also where these tests are collected, and others of them run
SERVER.setblocking(False)  # noqa: FBT003 - the socket's own method
REMOTE = f"http://127.0.0.1:{SERVER.getsockname()[1]}/x"


NO_SCHEMAS = [
    ({"type": 5}, "is no JSON Schema at $.type"),
    ({"properties": {"a b": {"type": 5}}}, "is no JSON Schema at $.properties['a b'].type"),
    ({"pattern": "("}, "is no JSON Schema at $.pattern"),
    ({"patternProperties": {"(": {}}}, "is no JSON Schema at $.patternProperties"),
    ("nonsense", "is no JSON Schema at $"),
    ([], "is no JSON Schema at $"),
    (None, "is no JSON Schema at $"),
    ({"$ref": REMOTE}, "outside itself"),
    ({"$ref": "file:///etc/hostname"}, "outside itself"),
    ({"properties": {"a": {"items": {"$dynamicRef": "other.json"}}}}, "outside itself"),
    (nested(50_000), "nested too deeply"),
]
NOT_TO_RUN = [
    ({"pattern": "a{99999999999999999999}"}, "pattern"),
    ({"pattern": "(a{1000}){1000}"}, "a pattern that cannot be used at $.pattern"),
    ({"allOf": [{"pattern": r"\p{L}{1,100}" + "x" * n} for n in range(300)]}, "a pattern that cannot be used"),
    ({"$ref": "#/nowhere"}, "a missing definition"),
    ({"items": {"$ref": "#nowhere"}}, "a missing definition"),
    ({"$ref": "#"}, "without end"),
    ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "without end"),
    ({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}, {"$dynamicRef": "#x"}]}, "without end"),
    (doubling(20), "too often"),
    (doubling(1000), "nested too deeply"),
    (doubling(20, "anyOf"), "too often"),
    (unevaluated(20), "too often"),
    (own_documents(300), "without end"),
]


@pytest.mark.parametrize(("schema", "words"), NO_SCHEMAS)
def test_what_is_no_schema_is_refused_whether_it_is_run_or_not(schema: Any, words: str) -> None:
    for _ in range(2):
        for take in (partial(check_schema, is_run=False), get_validator):
            with pytest.raises(SchemaFault) as caught:
                take(schema)
            assert words in str(caught.value)


@pytest.mark.parametrize(("schema", "words"), NOT_TO_RUN)
def test_a_schema_that_cannot_be_run_in_bounded_time_is_refused_in_time(schema: Any, words: str) -> None:
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(SchemaFault) as caught:
            get_validator(schema)
        assert words in str(caught.value)
        assert time.monotonic() - began < SECONDS_MAX


def test_a_schema_that_is_not_run_is_not_looked_through_for_what_it_would_cost() -> None:
    """One that somebody else runs: all that can be said of it is that it is one."""
    check_schema(doubling(20), is_run=False)
    check_schema({"pattern": "(a{1000}){1000}"}, is_run=False)


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 1_000_000 + "!", ['$: pattern "^(a+)+$"']),
        ({"pattern": r"(x+x+)+y"}, "x" * 100_000, ['$: pattern "(x+x+)+y"']),
        ({"pattern": "(?=[ab]*a[ab]{500}c)a"}, "ab" * 5000, ["$: pattern, takes too long to match"]),
        ({"pattern": r"^([ab]+)\1+c$"}, "ab" * 5000, ["$: pattern, takes too long to match"]),
        (doubling(12), 1, []),
        (doubling(12), "x", ['$: type "integer"']),
        (doubling_below("items"), high(10), []),
        (doubling_below("items"), high(200), ["$: too large for its schema, or nested too deeply"]),
        (doubling_below("patternProperties"), {"a": {"a": {}}}, []),
        (LETTERS, high(200), []),
        (LETTERS, high(100_000), ["$: too large for its schema, or nested too deeply"]),
        ({"const": 1}, high(100_000), ["$: breaks its schema, and is too large to say where"]),
        ({"items": {"enum": [{"a": n} for n in range(3000)]}}, [{"a": -1}] * 3000, ["$: breaks its schema, and is too large to say where"]),
        ({"items": {"anyOf": [{"type": "integer"}] * 2000}}, ["x"] * 2000, ["$: breaks its schema, and is too large to say where"]),
        ({"uniqueItems": True}, [{"a": [n, {"b": n}]} for n in range(5000)], []),
        ({"propertyNames": {"maxLength": 0}}, {"a" * n: 1 for n in range(1, 2000)}, ["$: breaks its schema, and is too large to say where"]),
        (ONE_OF_MANY, [{"k": n % 100, "x": [1] * 5} for n in range(5000)], []),
        (unevaluated(5), {"a": 1}, []),
        ({"type": "string"}, b"x", ["$: is no JSON value"]),
        ({"type": "object"}, {1: 2}, ["$: is no JSON value"]),
        ({"type": "number"}, float("nan"), ['$: type "number"']),
    ],
)  # fmt: skip
def test_no_value_takes_long_whatever_its_schema(schema: Any, value: Any, told: list[str]) -> None:
    validator, began = get_validator(schema), time.monotonic()
    assert [str(fault) for fault in validator.faults(value)] == told
    assert time.monotonic() - began < SECONDS_MAX


@pytest.mark.parametrize(
    ("text", "is_valid"), [("a.b@example.org", True), ("a" * 300 + "@example.org", True), ("a..b@example.org", False)]
)
def test_a_pattern_may_look_around(text: str, is_valid: bool) -> None:
    assert get_validator({"pattern": EMAIL}).is_valid(text) is is_valid


WORDS: list[tuple[Any, Any, list[str]]] = [
    ({"required": ["b", "a"]}, {}, ["$: required, missing b, a"]),
    ({"additionalProperties": False}, {"secret": 1}, ["$: additional properties are not allowed"]),
    ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, ['$.a: type "integer"']),
    ({"properties": {"a": {"type": ["null", "integer"]}}}, {"a": "x"}, ['$.a: type ["null", "integer"]']),
    ({"items": {"properties": {"a b": {"enum": [1, 2]}}}}, [{}, {"a b": 3}], ["$[1]['a b']: enum [1, 2]"]),
    ({"const": {"b": 1, "a": 2}}, 3, ['$: const {"a": 2, "b": 1}']),
    ({"minLength": 2, "pattern": "^b"}, "a", ["$: minLength 2", '$: pattern "^b"']),
    ({"maximum": 1.5, "multipleOf": 2}, 3, ["$: maximum 1.5", "$: multipleOf"]),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", ["$: anyOf"]),
    ({"oneOf": [{}, {}]}, "x", ["$: oneOf"]),
    ({"not": {}}, "x", ["$: not"]),
    ({"properties": {"b": {"minItems": 1}, "a": {"maxItems": 0}}}, {"a": [1], "b": []}, ["$.a: maxItems 0", "$.b: minItems 1"]),
    ({"format": "email"}, "no address", []),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"}, 1, []),
    ({"$schema": REMOTE, "type": "object"}, {}, []),
    ({"$id": REMOTE, "$defs": {"a": {"$anchor": "A", "type": "null"}}, "$ref": "#A"}, 1, ['$: type "null"']),
    (True, 1, []),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "told"), WORDS)
def test_a_fault_names_its_place_and_rule_and_never_the_value(schema: Any, value: Any, told: list[str]) -> None:
    """In order of place; formats are annotations, and `$schema` is not followed: 2020-12 holds for all."""
    assert [str(fault) for fault in get_validator(schema).faults(value)] == told


def test_a_schema_may_refer_to_itself() -> None:
    assert get_validator(LETTERS).is_valid([[], [[]]])
    assert not get_validator(LETTERS).is_valid([1])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "question", "low"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [True, False, {"type": "integer"}, {"type": ["array", "null"]}, {"enum": [1, "a", [], None]}, {"minimum": 1},
         {"maxItems": 1}, {"required": ["a"]}, {"pattern": "^a?$"}, {"const": {"a": 1}}, {"$ref": "#/$defs/t"}]
    ),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["items", "not", "contains", "additionalProperties", "propertyNames", "if", "then",
                                         "unevaluatedProperties", "unevaluatedItems"]), inner, max_size=3),
        st.dictionaries(st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems"]), st.lists(inner, min_size=1, max_size=3), max_size=2),
        st.dictionaries(st.sampled_from(["properties", "patternProperties", "dependentSchemas"]),
                        st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_size=2),
    ),
    max_leaves=8,
)  # fmt: skip


@given(schema=SCHEMAS, value=VALUES)
def test_the_verdict_is_that_of_the_reference_implementation(schema: Any, value: Any) -> None:
    whole = {
        "$defs": {"t": {"type": ["object", "integer"], "properties": {"a": {"$ref": "#/$defs/t"}}}},
        "allOf": [schema],
    }
    assert get_validator(whole).is_valid(value) is jsonschema.Draft202012Validator(whole).is_valid(value)


def test_shipped_schemas_are_taken() -> None:
    for contract in shipped_snapshot().contracts.values():
        get_validator(contract.input_schema)
        if contract.output_schema is not None:
            get_validator(contract.output_schema)
