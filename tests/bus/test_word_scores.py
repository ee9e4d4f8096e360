"""Scores of texts by a question's words: bounds, and what makes one answer better than another."""

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.word_scores import score, weigh_words

COUNTS = {"the": 90, "door": 2, "code": 2, "key": 1}
KNOWN = weigh_words(COUNTS, 100, usual=10)


def test_rare_words_count_more_and_common_ones_alone_nothing():
    """A word that stands in nearly every text answers no question."""
    assert score({"key": 1}, KNOWN, 10) > score({"door": 1}, KNOWN, 10) > 10 * score({"the": 3}, KNOWN, 10)
    assert score({"door": 1, "code": 1}, KNOWN, 10) > score({"door": 2}, KNOWN, 10)
    assert score({"door": 1}, KNOWN, 10) > score({"door": 1}, KNOWN, 40)


def test_words_that_no_text_has_change_nothing():
    more = weigh_words({**COUNTS, "kingfisher": 0}, 100, usual=10)
    assert score({"door": 1}, more, 10) == score({"door": 1}, KNOWN, 10)
    assert (
        score({"kingfisher": 5}, KNOWN, 10) == score({}, KNOWN, 10) == score({"a": 1}, weigh_words({}, 0, 0), 10) == 0
    )


def test_a_text_of_usual_length_with_every_word_once_has_the_same_score_in_any_record():
    """So that a threshold means the same in a small one and in a large one."""
    for texts in (3, 100, 100_000):
        known = weigh_words({"door": 1, "code": 1}, texts, usual=10)
        assert round(score({"door": 1, "code": 1}, known, 10), 6) == round(1 / 2.2, 6)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50)),
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 9)),
    st.integers(0, 60), st.floats(0, 1e6), st.integers(0, 10_000),
)  # fmt: skip
def test_every_score_is_between_none_and_all(counts, held, texts, usual, length):
    assert 0 <= score(held, weigh_words(counts, texts, usual), length) <= 1
