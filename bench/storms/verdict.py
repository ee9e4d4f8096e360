"""What a storm left, by what was seen and what the record says; what of it must not be. Pure but for the record's reading."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.outside import Outside
from bench.storms.running import PEOPLE, Asked, Seen
from hobus.bus.messages.ledger import Entry
from hobus.launch.lab.simulation.record import answer_text, list_answers

LATE_S = 10.0
"""Whoever waits longer than this, from the first fault or the question on, waits too long, whatever was hit."""
WHOLE_S = 30.0
"""Everybody is ready again so long after the last fault."""
LEFT_S = 15.0
"""What nobody waits for is over this long after everybody is answered and everything runs again."""


@dataclass(slots=True)
class Storm:
    """One storm's figures, as they stand in the results."""

    name: str
    kind: str
    struck: list[str]
    apart_s: float
    moment: str
    outcomes: dict[str, int]  # of the questions asked, as first told; `none`: no answer at first
    p50_s: float  # from the first fault, or the question, to the answer, of those that were answered after it
    slowest_s: float
    asked_again: int
    asked_anew: int  # of a cluster that was started again
    first_told: list[str]
    whole_after_s: float
    left_after_s: float
    model_calls: int
    model_calls_lost: int
    in_doubt: int  # charges that nobody can know of, reported as such
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    told_otherwise: list[str] = field(default_factory=list)
    not_in_the_record: list[str] = field(default_factory=list)
    wrongly_charged: list[str] = field(default_factory=list)
    undriven: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    weights: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def broken(self) -> list[str]:
        """What must not be on any machine, however slow."""
        lists = {
            "not answered": self.lost, "answered twice": self.twice, "told otherwise than recorded": self.told_otherwise,
            "answered without a record": self.not_in_the_record, "wrongly charged": self.wrongly_charged,
            "left open without an owner": self.undriven,
        }  # fmt: skip
        return [f"{what}: {', '.join(names)}" for what, names in lists.items() if names]

    @property
    def faults(self) -> list[str]:
        """That, and what took too long."""
        found = self.broken
        if self.late:
            found.append(f"answered later than {LATE_S:g} s: {', '.join(self.late)}")
        if self.asked_again:
            found.append(f"{self.asked_again} had to ask again: {'; '.join(self.first_told)}")
        if not 0 <= self.whole_after_s <= WHOLE_S:
            found.append("somebody was not ready again" + (" in time" if self.whole_after_s >= 0 else ""))
        if self.left_after_s > LEFT_S:
            found.append(f"what nobody waited for was over only after {self.left_after_s:.1f} s")
        return found


@dataclass(slots=True)
class Row:
    """A row of storms in one cluster: what only its end shows."""

    storms: list[Storm]
    record: str  # "ok", or what is wrong by the invariants or the verifier
    entries: int
    shown: int
    shown_and_lost: list[str]
    wrongly_charged: list[str]
    outlived: list[str]  # pids that were there after `down`
    grown: list[str]

    @property
    def faults(self) -> list[str]:
        """Those of each storm, and its own."""
        return [f"{storm.name}: {fault}" for storm in self.storms for fault in storm.faults] + self._own()

    @property
    def broken(self) -> list[str]:
        """Of these what must not be on any machine, however slow."""
        return [f"{storm.name}: {fault}" for storm in self.storms for fault in storm.broken] + self._own()

    def _own(self) -> list[str]:
        lists = {
            "shown to a reader and lost": self.shown_and_lost, "wrongly charged": self.wrongly_charged,
            "outlived the cluster": self.outlived, "grown": self.grown,
        }  # fmt: skip
        found = [f"{what}: {', '.join(names)}" for what, names in lists.items() if names]
        return found if self.record == "ok" else [*found, f"the record: {self.record}"]


def storm_of(seen: Seen, entries: Sequence[Entry], outside: Outside) -> Storm:
    """What became of it."""
    plan = seen.plan
    inputs = {one.input_id for one in seen.asked}
    runs = {
        (entry.provenance.session_id, entry.provenance.run_seq)
        for entry in entries
        if entry.event_type == "RunRequested" and entry.submission_id.rpartition("/")[2] in inputs
    }
    of_runs = [e for e in entries if (e.provenance.session_id, e.provenance.run_seq) in runs]
    waited = {
        one.input_id: one.answered_at - max(seen.struck_at, one.asked_at)
        for one in seen.asked
        if one.answered_at > seen.struck_at
    }
    firsts = Counter("none" if one.first_told or one.result is None else one.result.outcome for one in seen.asked)
    moment = plan.during or (
        "a tool behind its effect" if plan.at_effect else f"{plan.after_s:g} s after the questions"
    )
    storm = Storm(
        name=plan.name, kind=plan.kind, struck=seen.struck, apart_s=plan.apart_s, moment=moment,
        outcomes=dict(sorted(firsts.items())), p50_s=round(statistics.median(waited.values() or [0.0]), 2), slowest_s=round(max(waited.values(), default=0.0), 2),
        asked_again=sum(one.asked_again for one in seen.asked), asked_anew=sum(one.asked_anew for one in seen.asked),
        first_told=sorted({one.first_told for one in seen.asked if one.first_told}),
        whole_after_s=round(seen.whole_after_s, 2), left_after_s=round(seen.left_after_s, 2),
        model_calls=sum(e.event_type == "PROMPT_SENT" for e in of_runs),
        model_calls_lost=sum(e.event_type == "PROMPT_FAILED" and e.reason == "UNKNOWN_OUTCOME" for e in of_runs),
        in_doubt=sum(e.event_type == "WO_FAILED" and e.reason == "unknown_outcome" for e in of_runs),
        undriven=seen.undriven, weights=seen.weights,
    )  # fmt: skip
    for one in seen.asked:
        _judge(storm, one, entries, outside)
    if not plan.ends_the_cluster:
        storm.late = [f"{name} after {waited_s:.1f} s" for name, waited_s in waited.items() if waited_s > LATE_S]
    return storm


def _judge(storm: Storm, one: Asked, entries: Sequence[Entry], outside: Outside) -> None:
    answers = list_answers(entries, one.input_id)
    if len(answers) > 1:
        storm.twice.append(one.input_id)
    result = one.result
    if result is None or not one.is_answered:
        storm.lost.append(f"{one.input_id} ({'nothing' if result is None else result.code})")
        return
    if not answers:
        storm.not_in_the_record.append(one.input_id)
    elif answer_text(entries, one.input_id) != result.response:
        storm.told_otherwise.append(one.input_id)
    if result.outcome != "success":
        return
    effects = sum(line.startswith(f"WO-{result.run_id}.") for line in outside.effects(one.tool))
    said = [call.code for call in result.tool_calls if call.tool_id == one.tool]
    is_reported = said == ["unknown_outcome"] and one.tool == "charge_unkeyed"
    if effects != 1 and not (is_reported and effects == 0):
        storm.wrongly_charged.append(f"{one.input_id} by {one.tool}: {effects} effects, told {said}")


GROWN_BYTES = 48 << 20
"""More than an interpreter of its own has beside a forked process, which the same actor may be by turns."""
GROWN_DESCRIPTORS = 8
KEPT_OPEN = {"ledger": 64, "ho1": 3 * (PEOPLE + 1)}
"""Descriptors that a role may keep besides: the ledger those of its segments, up to a bound of its own; an executor three of
each tool process, one for each person who asks, until it was idle for a while."""


def grown(storms: Sequence[Storm]) -> list[str]:
    """Roles that need clearly more after the last storm than after the first one, in which everything warmed up."""
    if len(storms) < 3:
        return []
    first, last = storms[0].weights, storms[-1].weights
    found: list[str] = []
    for role in sorted(first.keys() & last.keys()):
        more_bytes, more_fds = (last[role][n] - first[role][n] for n in range(2))
        if more_bytes > GROWN_BYTES or more_fds > GROWN_DESCRIPTORS + KEPT_OPEN.get(role, 0):
            found.append(f"{role} by {more_bytes >> 20} MB and {more_fds} descriptors")
    return found
