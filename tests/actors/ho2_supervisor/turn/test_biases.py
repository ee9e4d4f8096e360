"""Which lines a turn gets: every filter at its border, the ranking, the budget, nothing but numbers and fields."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.turn.recall import score, weigh
from hobus.bus.messages.memory import Bias, InForce, Labels
from tests.actors.ho2_supervisor.remembering import bias

AS_OF = "2026-03-10T12:00:00.000000Z"
SYSTEM = Labels(domain=["system"])


def chosen(*biases: Bias, labels: Labels = SYSTEM, tokens: int = 1000) -> list[str]:
    """Ids of the selected artifacts."""
    return [one.artifact.artifact_id for one in weigh(biases, labels, tokens, 4, AS_OF) if not one.left_out]


@pytest.mark.parametrize(
    ("changes", "is_chosen"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"weight": 0.0}, False),
        ({"expires_at_event_ts": AS_OF}, True),
        ({"expires_at_event_ts": "2026-03-10T11:59:59.999999Z"}, False),
        ({"labels": Labels(domain=["config"])}, False),
        ({"labels": Labels()}, False),
        ({"labels": Labels(domain=["config", "system"])}, True),
        ({"labels": Labels(task=["system"])}, False),  # a pair is kind and label
        ({"labels": Labels(), "scope": "global"}, True),
        ({"labels": Labels(domain=["config"]), "scope": "global"}, True),
    ],
)
def test_fields_alone_decide_what_applies(changes: dict[str, Any], is_chosen: bool) -> None:
    """Enabled, weight above 0, expiry inclusive, one shared pair of kind and label or scope global."""
    assert chosen(bias("ART-1", **changes)) == (["ART-1"] if is_chosen else [])


def test_a_turn_without_labels_gets_what_is_global() -> None:
    """Without labels nothing can match but what needs no match."""
    both = (bias("ART-1"), bias("ART-2", scope="global"))
    assert chosen(*both, labels=Labels()) == ["ART-2"]


def test_rank_is_weight_times_decay_times_recency() -> None:
    """The product decides, not one factor; recency is the modifier to the power of days."""
    heavy_but_stale = bias("ART-1", weight=0.9, decay=0.2)
    light_and_fresh = bias("ART-2", weight=0.5, decay=0.9)
    old = bias("ART-3", weight=1.0, decay_modifier=0.5, consolidation_event_ts="2026-03-08T12:00:00.000000Z")
    assert score(old, AS_OF) == 0.25
    assert chosen(heavy_but_stale, light_and_fresh, old) == ["ART-2", "ART-3", "ART-1"]


def test_a_consolidation_later_than_the_turn_counts_as_fresh() -> None:
    """Clocks of two machines may differ a little: recency is never above 1."""
    assert score(bias("ART-1", decay_modifier=0.5, consolidation_event_ts="2027-01-01T00:00:00.000000Z"), AS_OF) == 0.5


def test_equal_scores_go_by_weight_then_id_whatever_the_order_of_arrival() -> None:
    """0.4 x 0.5 and 0.5 x 0.4 are one score; the heavier one is first, then the lower id."""
    tied = [
        bias("ART-b", weight=0.4, decay=0.5),
        bias("ART-c", weight=0.5, decay=0.4),
        bias("ART-a", weight=0.4, decay=0.5),
    ]
    assert {tuple(chosen(*order)) for order in permutations(tied)} == {("ART-c", "ART-a", "ART-b")}


def test_a_line_that_does_not_fit_is_skipped_and_the_next_one_tried() -> None:
    """40 characters are 10 tokens: exactly the budget fits, one token less does not, and smaller ones fill what is left."""
    large = bias("ART-1", weight=0.9, context_line="x" * 40)
    small = bias("ART-2", weight=0.5, context_line="y" * 20)
    smaller = bias("ART-3", weight=0.4, context_line="z" * 16)
    assert chosen(large, small, smaller, tokens=10) == ["ART-1"]
    assert chosen(large, small, smaller, tokens=9) == ["ART-2", "ART-3"]
    assert chosen(large, small, smaller, tokens=8) == ["ART-2"]
    assert chosen(large, small, smaller, tokens=19) == ["ART-1", "ART-2", "ART-3"]
    assert chosen(large, tokens=0) == []


def test_of_lines_with_the_same_words_the_strongest_is_shown() -> None:
    """Whatever their case and white space, and whatever they rest on; the room is another one's."""
    weak = bias("ART-1", weight=0.4, context_line="Never  use SSH.")
    strong = bias("ART-2", weight=0.9, context_line="never use ssh.")
    other = bias("ART-3", weight=0.3, context_line="Never use tar.")
    assert chosen(weak, strong, other, tokens=6) == ["ART-2", "ART-3"]


def test_the_sign_at_the_end_of_a_line_is_none_of_its_words() -> None:
    """A question mark is: it asks, and the others say."""
    ends = (" in two lines.", " in two lines", " IN TWO LINES!", " in two lines?")
    said = [bias(f"ART-{number}", context_line=f"Always answer{end}") for number, end in enumerate(ends)]
    assert chosen(*said) == ["ART-0", "ART-3"]


def test_the_line_is_passed_on_verbatim() -> None:
    """What was learned is copied, never edited."""
    line = "  Ünïcode, “quotes” and {{ braces }} stay.  "
    [one] = weigh([bias("ART-1", context_line=line)], SYSTEM, 1000, 4, AS_OF)
    assert isinstance(one.artifact, InForce)
    assert one.artifact.context_line == line


def test_each_line_that_is_left_out_has_its_reason() -> None:
    """Another turn's labels, the words of a stronger one, no room; what is shown has none."""
    shown, twin = (
        bias("ART-1", context_line="Answer briefly."),
        bias("ART-2", context_line="answer briefly", weight=0.1),
    )
    others = (bias("ART-3", labels=Labels(domain=["config"])), bias("ART-4", context_line="x" * 400, weight=0.2))
    found = weigh((twin, *others, shown), SYSTEM, 20, 4, AS_OF)
    assert {one.artifact.artifact_id: one.left_out for one in found} == {
        "ART-1": "", "ART-2": "words", "ART-3": "labels", "ART-4": "room",
    }  # fmt: skip
    assert [one.score for one in found] == sorted((score(one, AS_OF) for one in (shown, twin, *others)), reverse=True)
