"""What a door measures of itself, and the counters of everybody's heartbeats, for Prometheus.

No label is made from what a client sent: a route is named by its handler, a method and a status are of closed sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from hobus.bus.histogram import Durations, read_histograms
from hobus.bus.messages.control import PeerRow, QueueRow

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE"})
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """One door's own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "hobus_http_requests", "Requests by handler, method and status", ("handler", "method", "status"),
            registry=self.registry,
        )  # fmt: skip
        self.turns = Histogram(
            "hobus_http_turn_seconds", "From a request to the end of its turn", ("api", "outcome"), buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.first_pieces = Histogram(
            "hobus_http_first_piece_seconds", "From a streamed request to the first piece of its answer", ("api",),
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        make = partial(Gauge, registry=self.registry)
        self.readers = make("hobus_event_readers", "Readers of session events")
        self._peers = make("hobus_peer_counter", "Counters of the heartbeats", ("role", "actor", "name"))
        self._states = make("hobus_peers", "Processes on the bus by role and state", ("role", "state"))
        self._slots = make("hobus_slots", "Requests at once, of processes in this state", ("role", "state"))
        self._queued = make("hobus_queued", "Requests that wait for a worker", ("service",))
        self._in_flight = make("hobus_in_flight", "Requests delivered and not answered", ("service",))
        self._told = _ToldHistograms()
        self.registry.register(self._told)

    def count(self, handler: str, method: str, status: int) -> None:
        self.requests.labels(handler, method if method in _METHODS else "other", str(status)).inc()

    def render_exposition(self, peers: Iterable[PeerRow], queues: Iterable[QueueRow]) -> bytes:
        """Return everything as text; of peers and queues what they are now."""
        for gauge in (self._peers, self._states, self._slots, self._queued, self._in_flight):
            gauge.clear()
        self._told.clear()
        self._slots.labels("ho1", "ready").set(0)  # also where there is none
        for queue in queues:
            self._queued.labels(queue.service).set(queue.queued)
            self._in_flight.labels(queue.service).set(queue.in_flight)
        for row in peers:
            self._states.labels(row.role, row.state).inc()
            self._slots.labels(row.role, row.state).inc(row.slots)
            actor = row.instance.partition("@")[0]
            histograms, counters = read_histograms(row.counters)
            self._told.take((row.role, actor), histograms)
            for name, value in sorted(counters.items()):
                self._peers.labels(row.role, actor, name).set(value)
        return generate_latest(self.registry)


class _ToldHistograms(Collector):
    """Durations that the heartbeats tell of: turns and calls as the broker sees them, waits in its queues."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[tuple[str, str], Durations]]] = {}

    def clear(self) -> None:
        self._rows.clear()

    def take(self, labels: tuple[str, str], histograms: Mapping[str, Durations]) -> None:
        for name, told in histograms.items():
            self._rows.setdefault(name, []).append((labels, told))

    def collect(self) -> Iterator[HistogramMetricFamily]:
        for name, rows in sorted(self._rows.items()):
            family = HistogramMetricFamily(
                f"hobus_{name}_seconds", "As the heartbeats tell it", labels=("role", "actor")
            )
            for labels, told in rows:
                buckets = [(f"{bound / 1000}", value) for bound, value in told.at_most_ms] + [("+Inf", told.number)]
                family.add_metric(labels, buckets, told.sum_ms / 1000)
            yield family
