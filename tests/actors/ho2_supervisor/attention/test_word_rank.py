"""Texts in memory ranked by words: as the record's own search ranks, whatever the words hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho2_supervisor.attention.word_rank import rank_texts

TEXTS = ["the ledger keeps the record", "the gateway asks providers", "LÉDGER ledger: a chain of entries", ""]


def order(words: str, words_max: int = 10) -> list[int]:
    """Places of those that answer."""
    return [place for _, place in rank_texts(TEXTS, words, words_max=words_max)]


def test_what_has_more_and_rarer_of_the_words_goes_first() -> None:
    """Without case and diacritics; what has none of them is no find."""
    assert order("ledger") == [2, 0]
    assert order("providers of the ledger")[0] == 1
    assert order("kingfisher") == order("!!! ???") == order("") == []
    assert order("a chain ledger", words_max=1) == [2]


def test_a_score_is_a_share_of_the_most_that_a_text_could_have() -> None:
    """Never above 1; a word that another text has lowers it, one that stands nowhere does not."""
    [(best, place), *_] = rank_texts(TEXTS, "ledger", words_max=10)
    [(same, _), *_] = rank_texts(TEXTS, "ledger kingfisher", words_max=10)
    lower = next(
        score for score, at in rank_texts([*TEXTS, "a kingfisher"], "ledger kingfisher", words_max=10) if at == place
    )
    assert 0 < lower < best == same < 1


PARTS = st.sampled_from(["ledger", "LÉDGER", "gateway", "a", "record"]) | st.text(max_size=8)
SAID = st.lists(PARTS, max_size=8).map(" ".join)


@given(texts=st.lists(SAID, max_size=6), words=SAID)
def test_any_texts_and_words_are_ranked(texts: list[str], words: str) -> None:
    """Quotes, zeros, halves of pairs: nothing is syntax; the same again is the same."""
    found = rank_texts(texts, words, words_max=8)
    assert all(0 < score <= 1 for score, _ in found)
    assert found == sorted(found, key=lambda one: (-one[0], one[1])) == rank_texts(texts, words, words_max=8)
