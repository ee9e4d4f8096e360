"""Who a hello is from, and who may join: by a token on a local socket, by a proven key on one from elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from hobus.bus.broker.events import Origin
from hobus.bus.broker.records import RecordBook
from hobus.bus.broker.refused_keys import RefusedKeys
from hobus.bus.broker.remote import KeyBook, KeyRecord
from hobus.bus.broker.state import State
from hobus.bus.codec import decode
from hobus.bus.envelope import Kind, header
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.messages.control import CreateToken, Hello, Join, Joined, Refused, RefusedKey, TokenCreated
from hobus.bus.record.payloads.governance import KeyRefused

Authenticate = Callable[[Hello], Refused | None]


class Enrolment:
    """Asks the book of keys, if there is one, and records what happens to keys."""

    def __init__(self, state: State, records: RecordBook, authenticate: Authenticate, keys: KeyBook | None) -> None:
        self._state = state
        self._records = records
        self._authenticate = authenticate
        self._keys = keys
        self._refused_keys = RefusedKeys(
            named_max=state.settings.refused_keys_max, window_s=state.settings.refused_keys_window_ms / 1000
        )
        self._record_keys()

    @property
    def listens(self) -> str:
        """`HOST:PORT` for workers elsewhere; empty: none."""
        return self._keys.listens if self._keys is not None else ""

    def identify(self, hello: Hello, origin: Origin) -> Refused | None:
        """By its key on a connection that proved one, by its token on a local socket; never the one for the other."""
        if not origin.key:
            return self._authenticate(hello)
        if self._keys is None:
            return Refused(code="not_enrolled", detail="this broker knows no key")
        return self._keys.authenticate(hello, origin.key)

    def join(self, body: bytes, origin: Origin) -> Joined | Refused:
        """The worker is enrolled, durably, or not."""
        if self._keys is None or not origin.key:
            return Refused(code="bad_token", detail="a local socket is no way to join: connect by the token's address")
        try:
            wanted = decode(Join, body, self._state.settings.body_max_bytes)
        except RuntimeFault as fault:
            return Refused(code="malformed", detail=fault.detail)
        answer = self._keys.join(wanted, origin.key, self._state.now + self._state.wall_offset)
        self._record_keys()
        return answer

    def create_token(self, wanted: CreateToken) -> TokenCreated:
        """Its key counts from now on. Raises BusError."""
        if self._keys is None or not self._keys.listens:
            raise BusError(
                "rejected",
                "this cluster listens nowhere, so that no worker elsewhere could join: "
                "hobus down, then hobus up --listen HOST:PORT",
            )
        created = self._keys.create_token(wanted, self._state.now + self._state.wall_offset)
        self._record_keys()
        return created

    def revoke(self, name: str) -> str:
        """The key of this worker, which is let in no more. Raises BusError."""
        if self._keys is None:
            raise BusError("rejected", "this cluster listens nowhere: no worker elsewhere could be connected")
        key = self._keys.revoke(name)
        self._record_keys()
        return key

    def key_refused(self, fingerprint: str, address: str) -> None:
        """A key that nobody enrolled was not let in: counted, and named if it has not just been."""
        state = self._state
        state.counts["keys_refused"] += 1
        name = self._refused_keys.add(fingerprint, address, state.now)
        if name is None:
            return
        self._records.keep(KeyRecord("KEY_REFUSED", "REJECTED", "unknown_key", KeyRefused(name, address=address)))
        state.tap("denied", header(Kind.HELLO, ""), "", worker=f"{name} {address}", code="unknown_key")

    def refused_keys(self) -> list[RefusedKey]:
        """Keys that were not let in."""
        return self._refused_keys.rows(self._state.now)

    def _record_keys(self) -> None:
        if self._keys is not None:
            for record in self._keys.take_records():
                self._records.keep(record)
