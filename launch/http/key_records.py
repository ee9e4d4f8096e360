"""Which keys of the HTTP door were made and taken back, in the record: HTTP_KEY_CREATED and HTTP_KEY_REVOKED.

The door writes it, which goes by these keys, as the broker does of those that it goes by: when it starts, and soon
after each change. So a key that was made or taken back while there was no cluster stands in the record, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Write, WriteEntry, Written
from hobus.bus.port import Bus
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import HttpKeyCreated, HttpKeyRevoked
from hobus.launch.cluster.home import Home
from hobus.launch.http.keys import HttpKey, RevokedKey, Watched, keys_in, revoked_in

CREATED, REVOKED = "HTTP_KEY_CREATED", "HTTP_KEY_REVOKED"
_STREAM = "governance"
_log = structlog.get_logger("http")


def entries_of(keys: Iterable[HttpKey], revoked: Iterable[RevokedKey]) -> list[WriteEntry]:
    """One each, the same ones at every door: names, times and fingerprints. Pure."""
    made = [
        _entry(CREATED, key, HttpKeyCreated(_named(key), key.principal, key.created_at_us, key.expires_at_us))
        for key in keys
    ]
    return made + [
        _entry(REVOKED, key, HttpKeyRevoked(_named(key), key.principal, key.revoked_at_us)) for key in revoked
    ]


def _named(key: HttpKey | RevokedKey) -> str:
    return f"key:{key.fingerprint}"


async def keep_recorded(bus: Bus, home: Home, *, interval_s: float, timeout_s: float) -> None:
    """For ever: whatever is not in the record yet is written, and tried again while the ledger is away."""
    watched, told, is_due = Watched(home), set[str](), True
    while True:
        if watched.has_changed(now_us=round(bus.now() * 1_000_000)) or is_due:
            news = [one for one in entries_of(keys_in(home), revoked_in(home)) if one.submission_id not in told]
            is_due = not await _written(bus, news, told, timeout_s=timeout_s)
        await bus.sleep(interval_s)


async def _written(bus: Bus, news: list[WriteEntry], told: set[str], *, timeout_s: float) -> bool:
    """Whether all of it is in the record."""
    for entry in news:
        try:
            answer = await bus.request("ledger", Write(entries=[entry]), expect=Written, timeout_s=timeout_s)
        except RuntimeFault as fault:
            _log.info("key_not_recorded", submission_id=entry.submission_id, code=fault.code)
            return False
        if (ack := answer.acks[0]).outcome == "refused":
            _log.warning("key_not_recorded", submission_id=entry.submission_id, code=ack.code)
        told.add(entry.submission_id)
    return True


def _entry(event_type: str, key: HttpKey | RevokedKey, said: HttpKeyCreated | HttpKeyRevoked) -> WriteEntry:
    return WriteEntry(
        submission_id=f"{event_type}:{key.principal}/{key.fingerprint}", stream=_STREAM, event_type=event_type,
        at_us=said.at_us, bodies=[pack_payload(said)],
    )  # fmt: skip
