"""Durations as people type them: one grammar, and every option that takes one has it."""

import click
import pytest

from hobus.launch.cli.commands.options import DURATION
from hobus.launch.filters.quantities import parse_duration
from tests.launch.cli.test_every_command import COMMANDS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "-1",
        "+1",
        "1w",
        "1 h",
        "30m1h",
        "1h1h",
        "1h30",
        "1.5h30m",
        "1e3",
        "inf",
        "nan",
        "1,5h",
        "\uff11h",
        "9" * 13,
    ],
)
def test_anything_else_is_refused_with_what_is_expected(text):
    with pytest.raises(ValueError, match=r"expected a duration such as 90 \(seconds\), 500ms, 1.5h or 1h30m"):
        parse_duration(text)


BY_ITSELF = {"token create --ttl", "cost --since"}
"""They repeat what was typed, or take a date too; their own tests hold the grammar."""


def test_every_option_that_takes_a_length_of_time_has_this_grammar():
    found = {
        f"{path} {option}": parameter.type
        for path, command in COMMANDS.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option in ("--timeout", "--since", "--ttl", "--interval")
    }
    assert len(found) > 10
    assert {name for name, kind in found.items() if kind is not DURATION} == BY_ITSELF
