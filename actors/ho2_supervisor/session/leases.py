"""A run's lease: issued when its requester asked for one, renewed by heartbeats, over at a journaled time. Pure.

No clock: every time here was journaled.
"""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session.outcome import Rejected, Verdict
from hobus.actors.ho2_supervisor.session.state import RunLease, SessionState, of_run
from hobus.bus.messages.ids import iso, lease_id_of, parse_iso
from hobus.bus.messages.session import LeaseHeartbeat, LeaseIssued

FIRST = 1
"""A run has one lease; its number is part of its id."""


def issued(state: SessionState, event: LeaseIssued) -> Verdict:
    """The lease that RunRequested asked for, under its terms, once."""
    run = state.run
    if run is None or (terms := run.lease_terms) is None:
        return Rejected("no active run asked for a lease")
    if run.lease is not None:
        return Rejected(f"lease {run.lease.lease_id} is active")
    if event.lease_id != lease_id_of(run.run_id, FIRST):
        return Rejected(f"lease {event.lease_id}, the run's is {lease_id_of(run.run_id, FIRST)}")
    expires_at = iso(parse_iso(event.issued_at) + terms.ttl_secs)
    if (event.expires_at, event.heartbeat_timeout_secs) != (expires_at, terms.heartbeat_timeout_secs):
        return Rejected("the lease is not the one that was asked for")
    lease = RunLease(
        lease_id=event.lease_id,
        issued_at=event.issued_at,
        expires_at=event.expires_at,
        heartbeat_timeout_secs=event.heartbeat_timeout_secs,
    )
    return of_run(state, run, lease=lease, last_heartbeat_at=None), ()


def renewed(state: SessionState, heartbeat: LeaseHeartbeat) -> Verdict:
    """Both ends of the lease move to this heartbeat."""
    run = state.run
    lease = None if run is None else run.lease
    if run is None or lease is None or run.lease_terms is None or lease.lease_id != heartbeat.lease_id:
        active = "none" if lease is None else lease.lease_id
        return Rejected(f"wrong_lease: {heartbeat.lease_id[:200]} is not the active lease ({active})")
    if heartbeat.heartbeat_at <= (run.last_heartbeat_at or lease.issued_at):
        return Rejected(f"not_newer: the lease was renewed at {run.last_heartbeat_at or lease.issued_at}")
    if is_over(state, heartbeat.heartbeat_at):
        return Rejected(f"lease_expired: {lease.lease_id} was over before {heartbeat.heartbeat_at}")
    expires_at = iso(parse_iso(heartbeat.heartbeat_at) + run.lease_terms.ttl_secs)
    longer = lease.model_copy(update={"expires_at": expires_at})
    return of_run(state, run, lease=longer, last_heartbeat_at=heartbeat.heartbeat_at), ()


def is_over(state: SessionState, at: str) -> bool:
    """Whether the active lease is over at this journaled time; False without one."""
    over_at = expiry(state)
    return over_at is not None and at >= over_at


def expiry(state: SessionState) -> str | None:
    """When the active lease is over unless it is renewed; None without one. Timestamps compare as text."""
    run = state.run
    if run is None or (lease := run.lease) is None:
        return None
    silent = iso(parse_iso(run.last_heartbeat_at or lease.issued_at) + lease.heartbeat_timeout_secs)
    return min(lease.expires_at, silent)
