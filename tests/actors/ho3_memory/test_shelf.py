"""Which artifacts newer ones have superseded: kept up with each change, and what the definition says."""

from hypothesis import strategies as st

from hobus.actors.ho3_memory.overlay_logs import OverlayLogs
from hobus.actors.ho3_memory.residence import Residence
from hobus.actors.ho3_memory.shelf import Shelf
from tests.actors.ho3_memory.builders import (
    AGENT,
    LATEST,
    artifact,
    confirmed,
    logged,
    moment,
    off,
    on,
    session,
    weighed,
)
from tests.laws import law

SIGNALS = ("tool:a", "tool:b", "tool:c")
CHANGES = {"off": off, "on": on, "confirmed": confirmed}

SAID = st.lists(
    st.tuples(
        st.sampled_from(["logged", "logged", "off", "on", "confirmed", "confirmed", "weight"]),
        st.integers(0, 4),  # which artifact
        st.integers(0, 9),  # hours
        st.sets(st.sampled_from(SIGNALS), min_size=1, max_size=2),
        st.sampled_from([None, None, 1, 2]),  # of which session
        st.sampled_from([None, "Never a.", "never  A."]),  # the words of a constraint
        st.booleans(),  # whether somebody reads it then
    ),
    max_size=14,
)


def fact(seq, kind, number, hours, *, signals, of_session, rule):
    """What is said of an artifact."""
    name = f"ART-{number}"
    if kind == "logged":
        scope = {} if of_session is None else {"scope": "session", "session_id": session(of_session)}
        made = artifact(
            hours=hours, artifact_id=name, source_signal_ids=sorted(signals),
            artifact_type="constraint" if rule else "task_pattern", context_line=rule or "Often a.", **scope,
        )  # fmt: skip
        return logged(made, seq)
    if kind == "weight":
        return weighed(seq, hours, 0.5, name)
    return CHANGES[kind](seq, hours, name)


def by_definition(logs, as_of):
    """For each of its signals, or for its rule, somebody newer that has held, everywhere or in the same session."""
    there = [(log.overlay_id, found) for log in logs if (found := log.standing(as_of)) is not None]

    def is_covered(one, subject):
        return any(
            other.has_held and other.made > one.made and subject in subjects(other)
            and other.artifact.session_id in (None, one.artifact.session_id)
            for _, other in there
        )  # fmt: skip

    def is_superseded(one):
        signals = all(is_covered(one, signal) for signal in one.artifact.source_signal_ids)
        return signals or (rule_of(one) is not None and is_covered(one, rule_of(one)))

    return {name for name, one in there if not is_superseded(one)}


def rule_of(standing):
    """Of a constraint its words, without case and white space, and where it holds."""
    whole = standing.artifact.whole()
    is_rule = whole.artifact_type == "constraint"
    return (" ".join(whole.context_line.lower().split()), whole.scope) if is_rule else None


def subjects(standing):
    """Its signals and its rule."""
    return {*standing.artifact.source_signal_ids, rule_of(standing)} - {None}


def told(found):
    """What stands, in its order."""
    return [(log.overlay_id, one.artifact.whole(), one.made, one.is_pending) for log, one in found]


class Kept:
    """A shelf and its artifacts, as `Artifacts` keeps them."""

    def __init__(self):
        self.logs = OverlayLogs(AGENT, Residence())
        self.shelf = Shelf(self.logs)

    def say(self, one):
        """This was said of an artifact."""
        said = self.logs.append(one)
        assert said is not None
        if said.log.now is not None:
            self.shelf.put(said, said.log.now)

    def all(self):
        """Every log."""
        return [self.logs[number] for number in range(len(self.logs))]

    def standing(self, as_of, signal_ids=None):
        """Logs, and how they stand."""
        return [(log, standing) for _, log, standing in self.shelf.standing(as_of, signal_ids)]


@law(20, 200, said=SAID, hours=st.integers(0, 12), seq=st.integers(0, 14))
def test_what_is_kept_is_what_the_definition_says(said, hours, seq):
    """As of now after every change, whether anybody read in between or not; and as of any earlier moment."""
    kept = Kept()
    for number, (kind, which, at_hours, signals, of_session, rule, is_read) in enumerate(said):
        kept.say(fact(number, kind, which, at_hours, signals=signals, of_session=of_session, rule=rule))
        for as_of in (LATEST, moment(hours), moment(hours, seq)) if is_read else ():
            found = {log.overlay_id for log, _ in kept.standing(as_of)}
            assert found == by_definition(kept.all(), as_of)
    for as_of in (LATEST, moment(hours, seq)):
        found = kept.standing(as_of)
        assert {log.overlay_id for log, _ in found} == by_definition(kept.all(), as_of)
        for asked in (SIGNALS[:1], SIGNALS[1:], ()):
            resting = [one for one in found if not set(asked).isdisjoint(one[1].artifact.source_signal_ids)]
            assert told(kept.standing(as_of, asked)) == told(resting)


def test_what_comes_late_counts_as_of_a_moment_that_was_asked_about_before():
    """Of everything and of one artifact: what was made by then and is told afterwards supersedes, too."""
    kept, as_of = Kept(), moment(5)
    for seq, hours in enumerate((9, 3, 4)):
        kept.say(logged(artifact(hours=hours, artifact_id=f"ART-{seq}", source_signal_ids=[SIGNALS[0]]), seq))
        standing = [found.number for found in kept.shelf.standing(as_of)]
        assert standing == [[], [1], [2]][seq] and kept.shelf.counts(as_of) == (seq, min(seq, 1))
    [(_, found)] = kept.standing(as_of)
    assert not kept.shelf.is_superseded(2, found, as_of) and kept.shelf.is_superseded(1, kept.all()[1].now, as_of)


def confirmed_rules(*changes):
    """A shelf with constraints of signals of their own, made and confirmed one after the other; and what stands."""
    kept = Kept()
    for number, changed in enumerate(changes):
        made = artifact(
            hours=number, artifact_id=f"ART-{number}", artifact_type="constraint", source_signal_ids=[f"tool:{number}"],
            **changed,
        )  # fmt: skip
        kept.say(logged(made, 2 * number))
        kept.say(confirmed(2 * number + 1, number, f"ART-{number}"))
    return kept, [found.number for found in kept.shelf.standing(LATEST)]


def test_a_rule_that_is_confirmed_again_stands_once_and_switched_off_it_is_off():
    """Whatever the older and the newer one rest on; the older one does not come back."""
    kept, standing = confirmed_rules({"context_line": "Never use ssh."}, {"context_line": "never  use SSH."})
    assert standing == [1]
    kept.say(off(9, 9, "ART-1"))
    assert [found.number for found in kept.shelf.standing(LATEST)] == [1]


def test_a_rule_for_less_stands_for_none_that_holds_further():
    """The same words, about one domain alone, or in one session: the wider rule stands beside it."""
    wide = {"context_line": "Never use ssh.", "scope": "global"}
    narrow = {"context_line": "Never use ssh.", "scope": "agent", "labels": {"domain": ["config"], "task": []}}
    here = {"context_line": "Never use ssh.", "scope": "session", "session_id": session(1)}
    assert confirmed_rules(wide, narrow, here)[1] == [0, 1, 2]
