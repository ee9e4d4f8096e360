"""What a tree means: against an evaluator that is as simple as can be, and at the borders."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.filters.meaning import Number, Texts, bind_fields, filter_of
from hobus.launch.filters.quantities import count_of, parse_duration, parse_size
from hobus.launch.filters.syntax import And, Compare, FilterError, Not, Or, Value


class Thing(NamedTuple):
    names: tuple[str, ...]
    size: float | None


FIELDS = {"name": Texts(lambda thing: thing.names), "size": Number(lambda thing: thing.size, parse_size)}
THINGS = st.builds(
    Thing,
    st.lists(st.text(st.sampled_from("ab."), max_size=3), max_size=3).map(tuple),
    st.none() | st.integers(0, 3).map(float),
)
NAMED = st.builds(
    Compare,
    st.just("name"),
    st.sampled_from(["=", "!="]),
    st.builds(Value, st.text(st.sampled_from("ab.*?"), max_size=3), st.booleans()),
)
SIZED = st.builds(
    Compare,
    st.just("size"),
    st.sampled_from(["=", "!=", "<", ">", "<=", ">="]),
    st.builds(Value, st.integers(0, 3).map(str)),
)
TREES = st.recursive(
    NAMED | SIZED,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=8,
)


def naive(node, thing: Thing) -> bool:
    match node:
        case Not(inner):
            return not naive(inner, thing)
        case And(parts):
            return all(naive(part, thing) for part in parts)
        case Or(parts):
            return any(naive(part, thing) for part in parts)
        case Compare("name", operator, Value(text, is_literal)):
            fits = text in thing.names if is_literal else any(fnmatch.fnmatchcase(name, text) for name in thing.names)
            return fits == (operator == "=")
        case Compare("size", operator, Value(text, _)):
            if thing.size is None:
                return operator == "!="
            return bool(eval(f"{thing.size} {'==' if operator == '=' else operator} {text}"))  # noqa: S307 - numbers
    raise AssertionError(node)


@given(TREES, THINGS)
def test_a_bound_tree_agrees_with_the_naive_evaluator(tree, thing):
    assert bind_fields(tree, FIELDS)(thing) == naive(tree, thing)


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("name=a & colour=red", 9, "no field colour"),
        ("Name=a", 0, "no field Name"),
        ("name>a", 4, "= and !="),
        ("size>ten", 5, "10k"),
        ("size=", 5, "10k"),
    ],
)
def test_what_no_field_takes_is_an_error_at_its_place(text, at, said):
    """Unknown fields, comparisons that a text has not, values that are no size."""
    with pytest.raises(FilterError) as caught:
        filter_of((text,), FIELDS)
    assert caught.value.at == at
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["-1", "1e3", "10x", "k", "nan", "inf", "1.2.3", "ten"])
@pytest.mark.parametrize("parse", [parse_size, parse_duration, count_of])
def test_what_is_no_quantity_is_refused(parse, text):
    with pytest.raises(FilterError):
        filter_of((f"it={text}",), {"it": Number(lambda number: number, parse)})


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_size, "10k", 10_240.0),
        (parse_size, "1.5M", 1.5 * 1024**2),
        (parse_size, "2GiB", 2.0 * 1024**3),
        (parse_size, "800", 800.0),
        (parse_size, "7B", 7.0),
        (parse_duration, "10m", 600.0),
        (parse_duration, "90s", 90.0),
        (parse_duration, "1h", 3600.0),
        (parse_duration, "250ms", 0.25),
        (parse_duration, "2d", 172_800.0),
        (parse_duration, "60", 60.0),
        (count_of, "7", 7.0),
    ],
)
def test_sizes_lengths_of_time_and_counts_as_people_type_them(parse, text, value):
    """One value exactly, one step below it not."""
    wanted = filter_of((f"it>={text}",), {"it": Number(lambda number: number, parse)})
    assert wanted(value)
    assert not wanted(value - 0.001)
