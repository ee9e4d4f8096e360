"""Workers on other hosts: what the broker asks of the book of keys, and what it says to who is not in it.

The book itself (`bus/zeromq/key_book.py`) keeps files; a simulated broker has none and lets nobody in from elsewhere.
A connection's key is its transport's word; what a frame claims counts for nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hobus.bus.messages.control import CreateToken, Hello, Join, Joined, Refused, TokenCreated
from hobus.bus.record.payloads.governance import KeyEnrolled, KeyRefused, KeyRevoked, TokenMade


class KeyRecord(NamedTuple):
    """Something about a key that stands in the ledger; with a `submission_id` a repeat adds nothing."""

    event_type: str
    decision: str
    reason: str
    facts: TokenMade | KeyEnrolled | KeyRevoked | KeyRefused
    submission_id: str = ""


class KeyBook(Protocol):
    """Whose key it is."""

    @property
    def listens(self) -> str:
        """`HOST:PORT` where the broker listens; empty: nowhere."""
        ...

    def authenticate(self, hello: Hello, key: str) -> Refused | None:
        """None if this key is enrolled as who the hello says; else why not, and the mend."""
        ...

    def join(self, join: Join, key: str, now: float) -> Joined | Refused:
        """The worker's own key is enrolled, durably, under its token's role; or why not. `now`: wall seconds."""
        ...

    def create_token(self, wanted: CreateToken, now: float) -> TokenCreated:
        """The token's key counts from now on, durably. Raises BusError."""
        ...

    def revoke(self, name: str) -> str:
        """The public key of this worker, which is taken back, durably, and let in no more. Raises BusError."""
        ...

    def take_records(self) -> list[KeyRecord]:
        """What is to be recorded since the last call; at first all that is known."""
        ...
