"""One ref for a text of many parts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.base import pack
from hobus.bus.record.text_parts import (
    KeptText,
    TextPart,
    cut_part,
    join,
    join_parts,
    merge,
    pack_body,
    read_parts,
    share_text,
)

REFS = st.none() | st.text(min_size=1, max_size=9)
PARTS = st.lists(st.builds(TextPart, ref=REFS, text=st.text(max_size=20), stretch=st.just("")))


@given(parts=PARTS)
def test_the_parts_give_the_whole_again(parts: list[TextPart]) -> None:
    """What has a ref is listed by it and stored no second time; put together, it is the text that was shown."""
    segment = join_parts("history", parts)
    listed = read_parts(pack_body(parts))
    assert listed is not None
    assert [ref for ref, _ in listed] == [part.ref for part in parts]
    assert "".join(part.text if ref else text for (ref, text), part in zip(listed, parts, strict=True)) == segment.text
    assert all(text == "" for ref, text in listed if ref is not None)


ID = "11111111-2222-5333-8444-555555555555"
USUAL = [f"RunRequested:{ID}/in-0/1", f"OrderEnded:WO-{ID}-1.1.2.001/1", f"PROMPT_RECEIVED:WO-{ID}-1.2.1#1/1/1"]


@pytest.mark.parametrize("odd", ["", "\1", "a~b", "OrderEnded:WO-~-1/1", "\n"])
def test_refs_of_a_conversation_are_listed_short_and_read_back(odd: str) -> None:
    """Where one holds what stands for something, none is shortened."""
    refs = [*USUAL, f"WO_DISPATCHED:WO-{ID}-1.1.1/2", *([odd] if odd else [])]
    body = pack_body([TextPart(ref, "") for ref in refs])
    assert read_parts(body) == [(ref, "") for ref in refs]
    assert odd or len(body) < len(ID) + 90


def test_a_stretch_of_a_recorded_text_is_named_by_where_it_is() -> None:
    listed = read_parts(pack_body([TextPart(None, "found: "), TextPart("o/1", "lo wo", "3:8")])) or []
    assert listed == [(None, "found: "), ("o/1", "3:8")]
    assert join(listed, {"o/1": "hello world"}) == "found: lo wo"


@given(parts=PARTS)
def test_merged_parts_say_the_same_in_no_more_pieces(parts: list[TextPart]) -> None:
    found = merge(parts)
    assert "".join(part.text for part in found) == "".join(part.text for part in parts)
    assert [part for part in found if part.ref is not None] == [part for part in parts if part.ref is not None]
    assert all(one.ref is not None or other.ref is not None for one, other in pairwise(found))


@given(st.text())
def test_no_text_is_taken_for_a_list(text: str) -> None:
    assert read_parts(text.encode()) is None


@given(st.integers(min_value=120, max_value=400), st.integers(min_value=0, max_value=200), st.integers(0, 40))
def test_older_lines_are_recorded_whole_only_now_and_then(lines: int, added: int, dropped: int) -> None:
    """A later text of lines gives itself again from a stretch of the earlier one and what was added; a little is new."""
    line = [f"- user: question {number} of a long talk" for number in range(lines + added)]
    earlier = "\n".join([*line[:lines], "user: "])
    later = "\n".join([*line[min(dropped, lines - 1) :], "user: "])
    recorded = TextPart("RunRequested:s/i/1", "hello")
    first_body, kept = share_text([TextPart(None, earlier), recorded], None, "WO_DISPATCHED:a/3")
    assert (read_parts(first_body) or [])[0] == ("WO_DISPATCHED:a/3", "") and kept == KeptText(
        "WO_DISPATCHED:a/3", earlier
    )
    body, again = share_text([TextPart(None, later), recorded], kept, "WO_DISPATCHED:b/3")
    behind = {"WO_DISPATCHED:a/3": earlier, "WO_DISPATCHED:b/3": later, "RunRequested:s/i/1": "hello"}
    listed = read_parts(body) or []
    assert "".join(part if ref is None else cut_part(part, behind[ref]) for ref, part in listed) == later + "hello"
    assert again is not None or len(body) < len(later) / 4


def test_a_short_text_stands_in_the_list() -> None:
    """A few lines are not worth a body of their own."""
    body, kept = share_text([TextPart(None, "- user: hi\nuser: "), TextPart("r/1", "x")], None, "o/1")
    assert kept is None and read_parts(body) == [(None, "- user: hi\nuser: "), ("r/1", "")]


@pytest.mark.parametrize(
    "listed",
    [5, None, [], {}, {"a": 1}, [7], ["", 0], ["", 9], ["", True], ["", 2, 1], ["", []], ["", ["x"]], ["", ["x", 1]],
     ["", [1, ""]], ["", 1.5], ["", b"\xff"], [[], b"~"]],
)  # fmt: skip
def test_a_damaged_list_is_a_value_error(listed: object) -> None:
    """Whoever wrote it: a reader shows the bytes as they are, and does not end with a defect."""
    with pytest.raises(ValueError):  # noqa: PT011 - which of them is of no interest to anybody
        read_parts(b"\xc1" + pack(listed))
