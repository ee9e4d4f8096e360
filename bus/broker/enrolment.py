"""Who a hello is from, and who may join: by a token on a local socket, by a proven key on one from elsewhere.

The book of keys (`bus/zeromq/key_book.py`) keeps files; a simulated broker has none and lets nobody in from elsewhere.
A connection's key is its transport's word; what a frame claims counts for nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from hobus.bus import limits
from hobus.bus.broker.events import Origin
from hobus.bus.broker.records import Noted, RecordBook
from hobus.bus.broker.state import State
from hobus.bus.codec import decode
from hobus.bus.envelope import Kind, make_header
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.messages.control import CreateToken, Hello, Join, Joined, Refused, RefusedKey, TokenCreated
from hobus.bus.record.payloads.governance import KeyRefused
from hobus.bus.window import remember

if TYPE_CHECKING:
    from hobus.bus.zeromq.key_book import KeyFiles

Authenticate = Callable[[Hello], Refused | None]


class Enrolment:
    """Ask the book of keys, if there is one, and record what happens to keys."""

    def __init__(self, state: State, records: RecordBook, authenticate: Authenticate, keys: KeyFiles | None) -> None:
        self._state = state
        self._records = records
        self._authenticate = authenticate
        self._keys = keys
        self._refused_keys = RefusedKeys(
            named_max=limits.REFUSED_KEYS_MAX, window_s=limits.REFUSED_KEYS_WINDOW_MS / 1000
        )
        self._record_keys()

    @property
    def listens(self) -> str:
        """Return `HOST:PORT` for workers elsewhere; empty: none."""
        return self._keys.listens if self._keys is not None else ""

    def identify(self, hello: Hello, origin: Origin) -> Refused | None:
        """Check a hello by its key on a connection that proved one, by its token on a local socket; never crosswise."""
        if not origin.key:
            return self._authenticate(hello)
        if self._keys is None:
            return Refused(code="not_enrolled", detail="this broker knows no key")
        return self._keys.authenticate(hello, origin.key)

    def join(self, body: bytes, origin: Origin) -> Joined | Refused:
        """Enrol the worker durably, or refuse it."""
        if self._keys is None or not origin.key:
            return Refused(
                code="bad_token", detail="a local socket cannot be used to join: connect by the token's address"
            )
        try:
            wanted = decode(Join, body, limits.BODY_MAX_BYTES)
        except RuntimeFault as fault:
            return Refused(code="malformed", detail=fault.detail)
        answer = self._keys.join(wanted, origin.key, self._wall)
        self._record_keys()
        return answer

    def create_token(self, wanted: CreateToken) -> TokenCreated:
        """Create a token whose key counts from now on. Raises BusError."""
        if self._keys is None or not self._keys.listens:
            raise BusError(
                "rejected",
                "this cluster has no address for workers on other hosts: hobus down, then hobus up --listen HOST:PORT",
            )
        created = self._keys.create_token(wanted, self._wall)
        self._record_keys()
        return created

    def use_snapshot(self, digest: str) -> None:
        """Require this snapshot of every hello from elsewhere from now on."""
        if self._keys is not None:
            self._keys.use_snapshot(digest)

    def revoke(self, name: str) -> str:
        """Let the key of this worker in no more, and return it. Raises BusError."""
        key = self._book.revoke(name)
        self._record_keys()
        return key

    def rotate(self, name: str, grace_s: int) -> None:
        """Let this worker enrol another key within `grace_s`, else it loses the one that it has. Raises BusError."""
        self._book.rotate(name, self._wall + grace_s)

    def is_rotating(self, key: str) -> bool:
        """Whether a worker that came with this key is to come back with another one."""
        return self._keys is not None and self._keys.is_rotating(key)

    @property
    def _book(self) -> KeyFiles:
        if self._keys is None:
            raise BusError("rejected", "this cluster has no address for workers on other hosts")
        return self._keys

    @property
    def _wall(self) -> float:
        return self._state.now + self._state.wall_offset

    def list_overdue(self, connected: Container[str]) -> list[str]:
        """Whose keys are to be revoked: not connected for as long as their token says, or not rotated in time."""
        return [] if self._keys is None else self._keys.list_overdue(connected, self._state.now, self._wall)

    def note_refused_key(self, fingerprint: str, address: str) -> None:
        """Count a key that nobody enrolled, and record it unless that was done just before."""
        state = self._state
        state.counts["keys_refused"] += 1
        name = self._refused_keys.add(fingerprint, address, state.now)
        if name is None:
            return
        self._records.keep(Noted("KEY_REFUSED", "REJECTED", "unknown_key", KeyRefused(name, address=address)))
        state.tap("denied", make_header(Kind.HELLO, ""), "", worker=f"{name} {address}", code="unknown_key")

    def refused_keys(self) -> list[RefusedKey]:
        """Return the keys that were not let in."""
        return self._refused_keys.rows(self._state.now)

    def _record_keys(self) -> None:
        if self._keys is not None:
            for record in self._keys.take_records():
                self._records.keep(record)


class RefusedKeys:
    """Count keys that were not let in; keep and name at most `named_max` per window, since anybody can make keys."""

    def __init__(self, *, named_max: int, window_s: float) -> None:
        self._named_max = named_max
        self._window_s = window_s
        self._seen: OrderedDict[str, tuple[str, int, float]] = OrderedDict()  # latest last
        self._named: set[str] = set()
        self._window_ends = 0.0

    def add(self, fingerprint: str, address: str, now: float) -> str | None:
        """Return the name under which to record a refusal: "others" beyond the bound, None if recorded already."""
        _, count, _ = self._seen.pop(fingerprint, ("", 0, 0.0))
        remember(self._seen, fingerprint, (address, count + 1, now), at_most=self._named_max)
        if now >= self._window_ends:
            self._window_ends = now + self._window_s
            self._named.clear()
        name = fingerprint if len(self._named) < self._named_max else "others"
        if fingerprint in self._named or name in self._named:
            return None
        self._named.add(name)
        return name

    def rows(self, now: float) -> list[RefusedKey]:
        """Return the refused keys that are kept, the latest last."""
        return [
            RefusedKey(key=key, address=address, count=count, last_ms=max(0, int((now - at) * 1000)))
            for key, (address, count, at) in self._seen.items()
        ]
