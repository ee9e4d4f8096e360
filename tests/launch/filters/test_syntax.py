"""The filter language's text: what is taken, what it becomes, and where a wrong one is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.filters.syntax import (
    DEPTH_MAX,
    And,
    Compare,
    FilterError,
    Node,
    Not,
    Or,
    Value,
    list_comparisons,
    parse,
)

NAMES = st.sampled_from(["turn", "kind", "actor", "size", "stream", "wo_id"])
BARE = st.text(st.sampled_from("abcXYZ019*?.:/@#-_+=!<>\"'\\"), max_size=8).filter(
    lambda text: not text or text[0] not in "=<>\"'"
)
VALUES = st.builds(Value, BARE) | st.builds(lambda text: Value(text, is_literal=True), st.text(max_size=8))
COMPARES = st.builds(Compare, NAMES, st.sampled_from(["=", "!=", "<", ">", "<=", ">="]), VALUES)
TREES = st.recursive(
    COMPARES,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple))
    ),
    max_leaves=12,
)


def compare(name: str, operator, text: str) -> Compare:
    return Compare(name, operator, Value(text))


def parsed(text: str):
    try:
        return parse(text)
    except FilterError as error:
        return error


def printed(node: Node) -> str:
    """The text of a tree; parsing it gives the same tree."""
    match node:
        case Compare(name, operator, value):
            return f"{name}{operator}{printed_value(value)}"
        case Not(inner):
            return f"!{grouped(inner, (And, Or))}"
        case And(parts):
            return " & ".join(grouped(part, (And, Or)) for part in parts)
        case Or(parts):
            return " | ".join(grouped(part, (Or,)) for part in parts)


def grouped(node: Node, kinds: tuple[type, ...]) -> str:
    return f"({printed(node)})" if isinstance(node, kinds) else printed(node)


def printed_value(value: Value) -> str:
    if not value.is_literal:
        return value.text
    escaped = value.text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@given(TREES)
def test_a_printed_tree_parses_to_itself(tree):
    """Nothing is lost between a tree and its text, whatever stands in a value."""
    assert parse(printed(tree)) == tree


@given(st.text(st.sampled_from("ab =!<>&|()*\"'\\1k"), max_size=30))
def test_any_text_is_a_tree_or_an_error_with_a_place_in_it(text):
    """Never another exception; what is taken prints to something that means the same."""
    outcome = parsed(text)
    if isinstance(outcome, FilterError):
        assert 0 <= outcome.at <= len(text)
        assert outcome.point_at().endswith("^")
    else:
        assert parse(printed(outcome)) == outcome


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("type=wo.*", compare("type", "=", "wo.*")),
        ("size >= 10k", compare("size", ">=", "10k")),
        ("worker=", compare("worker", "=", "")),
        ("key=a=b", compare("key", "=", "a=b")),
        ("key='a b'", Compare("key", "=", Value("a b", is_literal=True))),
        (r'key="a\"b\\"', Compare("key", "=", Value('a"b\\', is_literal=True))),
        ("a=1 & b=2 | c=3", Or((And((compare("a", "=", "1"), compare("b", "=", "2"))), compare("c", "=", "3")))),
        ("a=1&(b=2|c=3)", And((compare("a", "=", "1"), Or((compare("b", "=", "2"), compare("c", "=", "3")))))),
        ("!a=1 && !!b=2", And((Not(compare("a", "=", "1")), Not(Not(compare("b", "=", "2")))))),
        ("a!=1 || b<2", Or((compare("a", "!=", "1"), compare("b", "<", "2")))),
    ],
)
def test_what_is_written_becomes_this_tree(text, tree):
    """Operators, precedence, quotes; `&&` and `||` are taken too."""
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("", 0, "NAME=VALUE"),
        ("type", 4, "after type"),
        ("type:x", 4, "after type"),
        ("=x", 0, "NAME=VALUE"),
        ("type==x", 5, "a value"),
        ("a=1 b=2", 4, "& or |"),
        ("a=1 &", 5, "NAME=VALUE"),
        ("(a=1", 4, "expected )"),
        ("a=1)", 3, "parenthesis"),
        ("a=1 & b='x", 8, "never closed"),
        ("!" * (DEPTH_MAX + 1) + "a=1", DEPTH_MAX, "deeper"),
    ],
)
def test_an_error_points_at_its_place(text, at, said):
    """The caret stands below the first character that cannot be."""
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert (caught.value.at, said in caught.value.message) == (at, True)
    shown, caret = caught.value.point_at().split("\n")
    assert (shown[2:], caret) == (text, " " * (at + 2) + "^")


def test_deep_nesting_is_refused_and_not_a_crash():
    """A thousand parentheses are an error in the text, not one of the stack."""
    with pytest.raises(FilterError):
        parse("(" * 1000 + "a=1" + ")" * 1000)


def test_comparisons_come_from_left_to_right():
    found = list_comparisons(parse("a=1 & !(b=2 | !c=3)"))
    assert [one.name for one in found] == ["a", "b", "c"]
    assert [one.at for one in found] == [0, 8, 15]
