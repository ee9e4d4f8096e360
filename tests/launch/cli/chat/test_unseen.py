"""What a line shows of marks that nobody sees, while it is edited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput

from hobus.launch.cli.chat.unseen import NamedMarks, named
from hobus.launch.console.output import COMMANDS

TEXTS = st.text(st.sampled_from("ab\u202e\u2066\u200f\u2028日"), max_size=12)


def transformed(text: str):
    """The line as it is shown."""
    buffer = Buffer()
    given = TransformationInput(
        BufferControl(buffer), buffer.document, 0, lambda position: position, [("", text[:3]), ("bold", text[3:])], 80, 24
    )  # fmt: skip
    return NamedMarks().apply_transformation(given)


def test_a_mark_is_shown_by_its_name():
    """And what the editor shows by itself is left to it."""
    assert named("a\u202eb\u2066\x1b[1m\t日") == "a<U+202E>b<U+2066>\x1b[1m\t日"


@given(TEXTS)
def test_the_cursor_passes_over_a_name_in_one_step(text):
    """Each character begins where those before it end; within a name is the mark."""
    line = transformed(text)
    shown = "".join(fragment[1] for fragment in line.fragments)
    assert shown == named(text) and not COMMANDS.search(shown)
    for position in range(len(text) + 2):
        begin = line.source_to_display(position)
        assert begin == len(named(text[:position])) + max(0, position - len(text))
        end = line.source_to_display(position + 1)
        assert {line.display_to_source(cell) for cell in range(begin, end)} == {position}
