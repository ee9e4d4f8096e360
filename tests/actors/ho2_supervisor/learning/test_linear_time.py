"""Whatever stands in a message or a statement, what judges it takes time in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hobus.actors.ho2_supervisor.learning.answer_form import is_form_of_answers
from hobus.actors.ho2_supervisor.learning.own_words import is_said
from tests.linear_time import is_linear

AGAIN = [
    "[a=", "[a= ", "[a", "'see [note= ", "<a ", "<a", "<", "<|", "<|a", "<a>", "</a>", "<a><b>", "<pre>", "<pre>\n\n", "\\begin{a", "\\begin{a}",
    "#+begin_a", "{quote}", "\n---", "---\n", "*** \n", "--", "-- ", "--a", "\n--", "\n-- ", "- ", "1. ", "-\t", "\t", " ", "    \n", "\n", "\r\n",
    "`", "```\n", "~~~", "`a", "'", '"', "' ", '"""', "''", "'a", "'9", "'tis", '9"', "「", "」", "&", "&#", "&#9", "&#x", "9", "&a", "&quot;", "&#0",
    "\u0315\u0316", "\u0316", "a\u0315\u0316", "\u200b", "do not ", "n't ", "n t", "mr. ", "a. ", "e.g. ", "! ", "be brief ", "be brief", "> ", "|",
    "Bob>", "a@b.", "\u2028", "\0", "A\n", "a,\n", "call me ", "call me a ", "Call me A", "like a ", "like a b ", "no word ", "1", "3", ".", "never word ",
    "[10:33, 03/11/2025] ", "On a wrote: ", "wrote:\n", "wrote: ", "_", "__________\nFrom: ", "__________\n", "From: a\n", "@@ ", "\n@@", "\n@@ ", "+", "\n+",
    "Begin forwarded message:", "am 1", "1 schrieb ", "am 1 schrieb \n",
]  # fmt: skip


def _says(text: str) -> bool:
    return is_said("be brief", f"{text} be brief")


@pytest.mark.parametrize(
    ("looks", "first"),
    [
        (_says, ""), (_says, "am "), (_says, "From: "), pytest.param(_says, "call me ", marks=pytest.mark.slow),
        (is_form_of_answers, ""), (is_form_of_answers, "call me "),
        *(pytest.param(is_form_of_answers, first, marks=pytest.mark.slow) for first in ("am ", "From: ")),
    ],
)  # fmt: skip
def test_a_text_four_times_as_long_takes_about_four_times_as_long(looks: Callable[[str], bool], first: str) -> None:
    """Whoever wrote it: a supervisor that looks at a text does nothing else meanwhile, and stalls.

    A beginning that the rule gives no meaning is tried where slow tests run.
    """
    slow = [again for again in AGAIN if not is_linear(looks, first, again, " x than", chars=750)]
    assert not slow


def test_no_number_of_a_character_is_too_long() -> None:
    """Python refuses to read one of more than 4,300 digits; leading zeros are none."""
    assert is_said("be brief", f"&#{'9' * 5_000}; be brief")
    assert not is_said("be brief", f"&#{'0' * 5_000}34; be brief")
