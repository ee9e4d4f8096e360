"""Filters and lengths of time as arguments of commands: what is wrong with one is shown at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from hobus.launch.console.errors import UsageFault
from hobus.launch.filters.meaning import Filter, S
from hobus.launch.filters.quantities import duration_of
from hobus.launch.filters.syntax import FilterError


def filter_given(
    make: Callable[[tuple[str, ...]], Filter[S]], texts: tuple[str, ...], *, names: Iterable[str], example: str
) -> Filter[S]:
    """The filter behind the arguments. Raises CommandError (usage) that points at the place and names the fields."""
    try:
        return make(texts)
    except FilterError as error:
        raise UsageFault(
            f"not a filter: {error.message}\n{error.pointed()}\n  fields: {', '.join(sorted(names))}", hint=example
        ) from None


def duration_given(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The seconds behind `10m`, `90s`, `1h` or a plain number; None if nothing was given."""
    if value is None:
        return None
    try:
        return duration_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}", ctx, parameter) from None
