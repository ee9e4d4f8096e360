"""What an account of a turn is made of, printed by a command or told line by line in the chat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hobus.launch.console.output import note, say, styled, table, table_lines


class Heading(NamedTuple):
    """Above what follows, a blank line before it."""

    text: str


class Said(NamedTuple):
    """A line."""

    text: str
    colour: str | None = None
    bold: bool = False


class Aside(NamedTuple):
    """What a program that reads standard output must not see."""

    text: str


class Rows(NamedTuple):
    """A table; of its cells what no terminal is commanded by."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


Part = Heading | Said | Aside | Rows


def show(parts: Iterator[Part]) -> None:
    """Printed, each as soon as it is there."""
    for part in parts:
        match part:
            case Heading(text):
                say()
                say(styled(text, None, bold=True))
            case Said(text, colour, bold):
                say(styled(text, colour, bold=bold) if colour or bold else text)
            case Aside(text):
                note(text)
            case Rows(headings, rows):
                table(headings, rows)


def lines_of(parts: Iterator[Part]) -> Iterator[str]:
    """The same as lines; tables as wide as the terminal."""
    for part in parts:
        if isinstance(part, Rows):
            yield from table_lines(part.headings, part.rows, is_styled=False)
        else:
            yield part.text
