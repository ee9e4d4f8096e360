"""The three conditions that a write may carry, as one decision. Pure.

Order of the decision: is the write well formed; is its submission id known; is its once key taken; does it continue its
session's stream, and is its writer who took that over last. What an earlier entry of the same batch changed is in the
values given.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hobus.bus.messages.ids import end_key, start_key
from hobus.bus.messages.ledger import STREAMS, Ack, WriteEntry
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import Entry

_NAMED = frozenset(STREAMS)
TOOK_OVER = "TookOver"
ELSEWHERE = "elsewhere"
"""Owner of a session's stream that goes on in another cell; as it, an operator writes what comes from there."""
_LEFT, _ARRIVED = "SessionLeft", "SessionArrived"
TURN_DEGRADED = "TurnDegraded"
"""The one entry that anyone may append to a session's stream: unconditional, under its once key."""


class StreamHead(NamedTuple):
    """Where a session's stream stands."""

    head: str = ""  # submission id of its last entry
    tenure: int = 0  # n of its last TookOver
    owner: str = ""  # origin of its last TookOver


class Earlier(NamedTuple):
    """An entry that stands already."""

    sequence: int
    submission_id: str
    origin: str
    event_type: str
    is_same: bool = False  # its content is that of the write being judged


def judge(
    entry: WriteEntry, *, origin: str, known: Earlier | None, holder: Earlier | None, head: StreamHead
) -> Ack | None:
    """Return None if the entry may commit, else its answer. `holder` has its once key; `head` is its stream's.

    Two who take a session over at once claim the same tenure; only of the one whose TookOver stands anything follows.
    """
    stream, event_type, prev, tenure, once = entry.stream, entry.event_type, entry.prev, entry.tenure, entry.once
    on_session, is_degraded = is_session_stream(stream), event_type == TURN_DEGRADED
    is_conditional = on_session and not is_degraded  # prev and tenure stand exactly where they are checked
    if (
        (not on_session and stream not in _NAMED)
        or is_conditional in (prev is None, tenure is None)
        or once == ""
        or (on_session and is_degraded and once is None)
    ):
        return make_refusal(entry, "invalid", head)
    if known is not None:
        return make_ack("known", known) if known.is_same else make_refusal(entry, "conflict", head)
    if holder is not None:
        return make_ack("lost", holder)
    if head.owner == ELSEWHERE != origin and on_session:
        return make_refusal(entry, "tenure_mismatch", head)
    if not is_conditional:
        return None
    expected_tenure = head.tenure + 1 if event_type == TOOK_OVER else head.tenure
    is_owners = event_type == TOOK_OVER or origin == head.owner
    if tenure != expected_tenure or not expected_tenure or not is_owners:
        return make_refusal(entry, "tenure_mismatch", head)
    return None if prev == head.head else make_refusal(entry, "head_mismatch", head)


def find_bar(entry: WriteEntry, origin: str) -> str | None:
    """Return the once key whose holder this entry loses to, too: no tool begins once its order has an end.

    A supervisor, which can only say that nobody answered, ends a begun call that may not run twice in doubt, or not.
    """
    if entry.stream != "ho1m" or entry.once is None:
        return None
    kind, _, about = entry.once.partition(":")
    if kind == "start":
        return end_key(about.partition("/")[0])
    is_supervisors = entry.event_type == "WO_FAILED" and origin.startswith("ho2/")
    return start_key(about) if is_supervisors and entry.reason != "unknown_outcome" else None


def advance(head: StreamHead, entry: WriteEntry | Entry, origin: str) -> StreamHead:
    """Return a session's stream head after this entry of `origin` committed to it."""
    if entry.event_type == TOOK_OVER and entry.tenure:
        return StreamHead(entry.submission_id, entry.tenure, origin)
    owner = {_LEFT: ELSEWHERE, _ARRIVED: ""}.get(entry.event_type, head.owner)
    return StreamHead(entry.submission_id, head.tenure, owner)


def make_ack(outcome: Literal["committed", "known", "lost"], earlier: Earlier) -> Ack:
    return Ack(outcome, earlier.sequence, earlier.submission_id, earlier.origin, earlier.event_type)


def make_refusal(entry: WriteEntry, code: str, head: StreamHead) -> Ack:
    return Ack("refused", -1, entry.submission_id, code=code, head=head.head, tenure=head.tenure)
