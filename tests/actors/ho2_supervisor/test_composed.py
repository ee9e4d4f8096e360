"""One ref for a text of many parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.ho2_supervisor.composed import parts_in, whole
from bus.messages.work_order import Segment

SEGMENTS = st.lists(st.builds(Segment, ref=st.none() | st.text(min_size=1, max_size=9), text=st.text(max_size=20)))


@given(SEGMENTS)
def test_the_parts_give_the_whole_again(segments: list[Segment]) -> None:
    """What has a ref is listed by it and stored no second time; put together, it is the text that was shown."""
    segment, body = whole("history", segments)
    listed = parts_in(body)
    assert listed is not None
    assert [ref for ref, _ in listed] == [part.ref for part in segments]
    assert (
        "".join(part.text if ref else text for (ref, text), part in zip(listed, segments, strict=True)) == segment.text
    )
    assert all(text == "" for ref, text in listed if ref is not None)


@given(st.text())
def test_no_text_is_taken_for_a_list(text: str) -> None:
    """The mark begins no UTF-8 text."""
    assert parts_in(text.encode()) is None
