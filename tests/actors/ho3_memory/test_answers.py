"""Pages: so many lines and ids, at least one line, all of them once."""

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.answers import cut_page


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_pages_together_are_the_whole_and_each_keeps_its_bound(sizes, page_max):
    left, pages = list(enumerate(sizes)), []
    while True:
        page, has_more = cut_page(left, page_max, lambda row: row[1])
        pages.append(page)
        left = left[len(page) :]
        assert has_more == bool(left)
        assert len(page) <= 1 or sum(1 + size for _, size in page) <= page_max
        if not has_more:
            break
        assert page
    assert [row for page in pages for row in page] == list(enumerate(sizes))
