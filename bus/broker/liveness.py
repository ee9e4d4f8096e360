"""Silence and probes: when a peer has been quiet for too long, and when to ask the transport whether it is still there.

A killed peer shows as a send that cannot be done, so workers with work are probed often; a frozen one shows as
silence. If the broker itself stood still, nobody is blamed for it.
"""

from __future__ import annotations

from hobus.bus.broker.membership import Membership
from hobus.bus.broker.state import State
from hobus.bus.envelope import Kind


class Liveness:
    """Looks at every peer when the longest silence could be over, and at busy ones each probe interval."""

    def __init__(self, state: State, membership: Membership) -> None:
        self._state = state
        self._membership = membership
        self._timeout_s = state.settings.peer_timeout_ms / 1000
        self._probe_s = state.settings.probe_interval_ms / 1000
        self._patience_s = state.settings.beat_interval_ms / 1000
        self._next_scan = state.now + self._timeout_s
        self._next_probe = state.now

    def next_at(self) -> float:
        """When to look next."""
        if self._state.in_flight:
            return min(self._next_scan, self._next_probe)
        return self._next_scan

    def tick(self) -> None:
        """Loses peers that were silent too long; probes silent ones that have work."""
        state = self._state
        if state.now >= self._next_scan:
            self._scan()
        if state.in_flight and state.now >= self._next_probe:
            self._next_probe = state.now + self._probe_s
            for peer in state.connections.values():
                if peer.in_flight and state.now - peer.last_seen >= self._probe_s:
                    state.control(peer.connection, Kind.BEAT, state.word_on_readiness)

    def _scan(self) -> None:
        state = self._state
        stood_still_s = state.now - self._next_scan
        if stood_still_s > self._patience_s:
            # The look comes late because the broker stood still: what peers sent meanwhile is still unread.
            state.counts["stood_still"] += 1
            for peer in state.connections.values():
                peer.last_seen = min(state.now, peer.last_seen + stood_still_s)
        for peer in list(state.connections.values()):
            if peer.last_seen + self._timeout_s <= state.now:  # as next_at() is made: no rounding between them
                self._membership.lose(peer, f"silent for {state.settings.peer_timeout_ms} ms", is_final=False)
        oldest = min((peer.last_seen for peer in state.connections.values()), default=state.now)
        self._next_scan = oldest + self._timeout_s
