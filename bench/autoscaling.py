"""Autoscaling as deploy/kubernetes asks for it, over gauges of a real cluster: is a busy worker ever cut off?

The recording (bench/results/gauges.json) is of a cluster on a slow model under a load that came and went: queued and in
flight at its door each second, and when each order was sent and ended. It is played to a model of Kubernetes'
autoscaler (its documented rules) with the threshold, the bounds and the graces of deploy/kubernetes; one second of it
stands for `--scale`, so that its quiet is longer than the window. Whoever is scaled away is the busiest worker, which
is worse than Kubernetes' choice. A second row goes by what waits alone, as people do who scale on the length of a
queue.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bench.report import arguments, markdown

RECORDING = Path("bench/results/gauges.json")
KUBERNETES = Path("deploy/kubernetes")
LOOK_S, TOLERANCE, STARTS_S = 15, 0.1, 30  # of Kubernetes' autoscaler; and until a pod that was asked for takes orders
UP_PODS, UP_SHARE = 4, 1.0  # it may add so many pods, or as many as there are, in each look: its defaults


Wanted = deque[tuple[float, int]]  # when how many pods were wanted


class Order(NamedTuple):
    """One order of the recording, in seconds."""

    sent: float
    took: float


class Rules(NamedTuple):
    slots: int
    least: int
    most: int
    window_s: int
    removes: int  # pods of one policy period
    period_s: int
    finish_s: float  # of a worker that is told to end: four fifths of its grace

    @classmethod
    def shipped(cls) -> Rules:
        scaled = yaml.safe_load((KUBERNETES / "keda/scaledobject.yaml").read_text(encoding="utf-8"))["spec"]
        down = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        (policy,) = down["policies"]
        worker = (KUBERNETES / "base/worker.yaml").read_text(encoding="utf-8")
        grace = re.search(r"--grace (\d+)s", worker)
        return cls(
            int(scaled["triggers"][0]["metadata"]["threshold"]), scaled["minReplicaCount"], scaled["maxReplicaCount"],
            down["stabilizationWindowSeconds"], policy["value"], policy["periodSeconds"], int(grace[1]) * 0.8,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class Pod:
    """A worker: from when on it takes orders, until when it may finish them, and when each of its orders ends."""

    ready: float
    ends: float = math.inf
    orders: list[float] = field(default_factory=list[float])


@dataclass(slots=True)
class Outcome:
    cut: int = 0  # orders at a worker that was scaled away before they ended
    busy_removed: int = 0  # workers told to end while they had orders
    removed: int = 0
    pods_most: int = 0
    waited_most_s: float = 0.0
    gauges: list[int] = field(default_factory=list[int])  # queued and in flight, each second


def played(orders: list[Order], rules: Rules, *, by_queue_alone: bool = False) -> Outcome:
    """The whole of it, second by second. Pure."""
    outcome, waiting = Outcome(), deque[Order]()
    pods = [Pod(0.0) for _ in range(rules.least)]
    wanted, removed_at = Wanted(), deque[float]()
    coming = deque(sorted(orders))
    for now in itertools.count():
        for pod in pods:
            if pod.ends <= now:
                outcome.cut += sum(end > now for end in pod.orders)
                pod.orders = []
            pod.orders = [end for end in pod.orders if end > now]
        pods = [pod for pod in pods if pod.orders or pod.ends == math.inf]
        while coming and coming[0].sent <= now:
            waiting.append(coming.popleft())
        while waiting:
            taking = (pod for pod in pods if pod.ready <= now and pod.ends == math.inf)
            free = [pod for pod in taking if len(pod.orders) < rules.slots]
            if not free:
                break
            order = waiting.popleft()
            min(free, key=lambda pod: len(pod.orders)).orders.append(now + order.took)
            outcome.waited_most_s = max(outcome.waited_most_s, now - order.sent)
        at_work = sum(len(pod.orders) for pod in pods)
        outcome.gauges.append(len(waiting) + at_work)
        outcome.pods_most = max(outcome.pods_most, len(pods))
        if not (coming or waiting or at_work) and len(pods) == rules.least:
            return outcome
        if now % LOOK_S == 0:
            gauge = len(waiting) + (0 if by_queue_alone else at_work)
            _scale(pods, gauge, now, rules, wanted, removed_at, outcome)
    raise AssertionError("counting does not end")


def _scale(
    pods: list[Pod], gauge: int, now: float, rules: Rules, wanted: Wanted, removed_at: deque[float], outcome: Outcome
) -> None:
    there = [pod for pod in pods if pod.ends == math.inf]
    count = len(there)
    is_near = abs(1 - gauge / count / rules.slots) <= TOLERANCE
    desired = max(rules.least, min(rules.most, count if is_near else math.ceil(gauge / rules.slots)))
    wanted.append((now, desired))
    while wanted[0][0] < now - rules.window_s:
        wanted.popleft()
    while removed_at and removed_at[0] <= now - rules.period_s:
        removed_at.popleft()
    if desired > count:
        more = min(desired - count, max(UP_PODS, math.floor(count * UP_SHARE)))
        pods += [Pod(now + STARTS_S) for _ in range(more)]
    fewer = min(count - max(one for _, one in wanted), rules.removes - len(removed_at))
    for pod in sorted(there, key=lambda pod: -len(pod.orders))[: max(0, fewer)]:
        outcome.removed += 1
        outcome.busy_removed += bool(pod.orders)
        pod.ends = now + rules.finish_s
        removed_at.append(now)


def outcomes(recording: dict[str, Any], *, scale: float, rounds: int) -> dict[str, Outcome]:
    """By what is scaled; the recording so many times, each second of it for `scale`."""
    rules, begins = Rules.shipped(), [number * recording["seconds"] for number in range(rounds)]
    orders = [Order((begin + sent) * scale, took * scale) for begin in begins for sent, took in recording["orders"]]
    alone = played(orders, rules._replace(window_s=0, removes=99), by_queue_alone=True)
    return {"queued + in flight, as shipped": played(orders, rules), "queued alone, nothing waited for": alone}


def main() -> int:
    given = arguments(__doc__, scale=6.0, rounds=3).parse_args()
    found = outcomes(json.loads(RECORDING.read_text(encoding="utf-8")), scale=given.scale, rounds=given.rounds)
    head = ["scaled by", "workers at most", "taken away", "of them at work", "orders cut off", "longest wait, s"]
    figures = (
        (one.pods_most, one.removed, one.busy_removed, one.cut, f"{one.waited_most_s:.0f}") for one in found.values()
    )
    print(markdown(head, ((name, *row) for name, row in zip(found, figures, strict=True))))
    return int(next(iter(found.values())).cut > 0)


if __name__ == "__main__":
    sys.exit(main())
