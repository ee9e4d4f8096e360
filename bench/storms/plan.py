"""Which storms there are: who is killed or frozen, how far apart, in the middle of what. Drawn from a seed; pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

ROLES = ("broker", "ledger", "gateway", "ho3", "ho1", "ho2", "host", "zygote", "launcher")
TWICE_THERE = ("ho1", "ho2")  # roles of which the cluster has two, so that both may be hit
DURING = ("scale", "restart", "drain", "segment", "snapshot")
TRIPLES = 40
APART_S_MAX = 1.0
FROZEN_S = (0.4, 3.0)  # how long somebody stands still: shorter than the peer time-out (0.8 s), and much longer
ASKED_S_MAX = 1.0  # the first fault comes this long after the first questions at the latest


@dataclass(frozen=True, slots=True)
class Plan:
    """One storm. The faults come in this order, the killed first."""

    kind: str
    killed: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    apart_s: float = 0.0  # between two faults
    at_effect: bool = False  # a tool stands behind its effect then; else `after_s` decides
    after_s: float = 0.0  # from the questions, or from the begin of what it happens during, to the first fault
    frozen_s: float = 0.0
    frozen_die: bool = False  # instead of going on
    during: str = ""

    @property
    def name(self) -> str:
        frozen = f" frozen {'+'.join(self.frozen)}" if self.frozen else ""
        return f"{self.kind}: {'+'.join(self.killed)}{frozen}"

    @property
    def ends_the_cluster(self) -> bool:
        return "launcher" in self.killed or (self.frozen_die and "launcher" in self.frozen)


def plans(seed: int) -> list[Plan]:
    """One round in the order in which it is run."""
    draw = random.Random(seed)
    both = [(role, role) for role in TWICE_THERE]
    pairs = [*combinations(ROLES, 2), *both]
    ordered = [*permutations(ROLES, 2), *both]
    triples = [tuple(draw.sample(ROLES, 3)) for _ in range(TRIPLES)]
    kinds = [
        [Plan("killed at once", pair) for pair in pairs],
        [Plan("killed within a second", pair, apart_s=_apart(draw)) for pair in pairs],
        [Plan("killed and frozen", (one,), (other,)) for one, other in ordered],
        [_triple(hit, draw) for hit in triples],
        *([Plan(f"killed during {what}", (role,), during=what) for role in ROLES] for what in DURING),
    ]
    return [_drawn(plan, draw) for kind in kinds for plan in kind]


def _triple(hit: Sequence[str], draw: random.Random) -> Plan:
    apart_s = draw.choice((0.0, _apart(draw) / 2))
    frozen = draw.choice((0, 1))
    kind = "three at once" if not apart_s else "three within a second"
    return Plan(kind, tuple(hit[frozen:]), tuple(hit[:frozen]), apart_s=apart_s)


def _drawn(plan: Plan, draw: random.Random) -> Plan:
    after_s = round(draw.random() * (0.3 if plan.during else ASKED_S_MAX), 3)
    drawn = replace(plan, after_s=after_s, at_effect=not plan.during and draw.random() < 1 / 3)
    if not plan.frozen:
        return drawn
    die = "launcher" not in plan.frozen and draw.random() < 1 / 3
    apart_s = plan.apart_s or draw.choice((0.0, _apart(draw)))
    return replace(drawn, apart_s=apart_s, frozen_s=draw.choice(FROZEN_S), frozen_die=die)


def _apart(draw: random.Random) -> float:
    return round(draw.random() * APART_S_MAX, 3)
