"""Who asks the same at once hears the same, and nothing is kept for those who have gone."""

from __future__ import annotations

from hobus.bus.first_answer import FirstAnswers


def answers() -> FirstAnswers[str]:
    """Final is whatever is no error."""
    return FirstAnswers(lambda answer: not answer.startswith("error"))


def test_the_first_final_answer_is_everybodys():
    shared = answers()
    with shared.asked("q") as one, shared.asked("q") as other, shared.asked("r") as another:
        assert one.given("error: late") == "error: late" and one.value is None
        assert other.given("yes") == "yes"
        assert (one.given("no"), one.value, one.given("error: late")) == ("yes", "yes", "error: late")
        assert another.given("no") == "no"


def test_it_is_forgotten_with_the_last_who_asks():
    """Nobody hears of it later."""
    shared = answers()
    with shared.asked("q") as first:
        with shared.asked("q") as second:
            second.given("yes")
        assert first.value == "yes"
    with shared.asked("q") as later:
        assert later.given("no") == "no"
