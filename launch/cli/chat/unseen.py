"""Marks of writing direction and the like in a line that is edited: shown by names, `<U+202E>`; the text stays."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output.vt100 import Vt100_Output

from hobus.launch.console.output import COMMANDS

_CONTROLS_END = "\x9f"
"""Up to here the line editor shows by itself what cannot be seen: `^[`."""


def named(text: str) -> str:
    """The text with the names of what a terminal would not show, or would turn words around by."""
    return COMMANDS.sub(lambda found: _name(found[0]), text)


def _name(char: str) -> str:
    return char if char <= _CONTROLS_END else f"<U+{ord(char):04X}>"


class NamedMarks(Processor):
    """Each mark of the line takes the cells of its name; the cursor passes over it in one step."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """The line as it is shown, and where its characters stand there."""
        fragments = transformation_input.fragments
        text = fragment_list_to_text(fragments)
        if named(text) == text:
            return Transformation(fragments)
        shown: StyleAndTextTuples = [(one[0], named(one[1])) for one in explode_text_fragments(fragments)]
        begins = list(accumulate((len(one[1]) for one in shown), initial=0))
        last = len(shown)

        def to_display(position: int) -> int:
            return begins[position] if position <= last else begins[last] + position - last

        def to_source(position: int) -> int:
            return bisect_right(begins, position) - 1 + max(0, position - begins[last])

        return Transformation(shown, source_to_display=to_display, display_to_source=to_source)


class WithoutMarks(Vt100_Output):
    """A terminal that no part of the line editor sends such a mark; they take no cells of their own."""

    def write(self, data: str) -> None:
        """Text, and what moves the cursor to it."""
        super().write(COMMANDS.sub(lambda found: found[0] if found[0] <= _CONTROLS_END else "", data))
