"""Bearer keys of the HTTP door, and which sessions are whose. `<home>/keys/http/` holds hashes; a key is shown once.

A key that was taken back leaves a file in `revoked/`, which outweighs its own: from the moment that it is there the key
opens nothing, whatever breaks off afterwards. Which keys were made and taken back stands in the record, too. The door
writes it, which goes by these keys, as the broker does of those that it goes by: when it starts, and soon after each
change; so that also stands there what was done while there was no cluster.

A session's id says by itself to whom it belongs: its second half is a keyed hash of the first and of the principal's
name. So no door keeps a list, two doors agree, and nobody reaches a session by an id that he made up or saw.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from uuid import UUID

import structlog
from msgspec import Meta

from hobus.bus.disk import write_private
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Record
from hobus.bus.messages.ledger import Write, WriteEntry, Written
from hobus.bus.port import Bus
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import HttpKeyCreated, HttpKeyRevoked
from hobus.launch.cluster.home import Home, make_private

R = TypeVar("R", bound=Record)

PRINCIPAL = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Names of principals: they stand in ids of records and in paths."""
_PREFIX = "hobus-"
_KEY_MAX_CHARS = 200
_HALF = 8
_SETTLED_NS = 1_000_000_000
"""A directory that changed less than this ago may change again without another time: it is read again."""


def name_person(name: str, user: str) -> str:
    """Return the principal of a user whom this key speaks for; by its digest if it cannot stand in an id."""
    return f"{name}/{user if PRINCIPAL.fullmatch(user) else 'u-' + _hash_word(user)[:32]}"


PERSON_HEADER = "x-hobus-person"
"""By which a door that routes says whose request it is (`launch/http/cells.py`)."""
May = Literal["use", "approve", "metrics", "cell"]
_OPENS: dict[str, str] = {
    "use": ".*",
    "cell": ".*",
    "approve": "GET /v1/sessions|POST /v1/sessions/[^/]+/commands",
    "metrics": "(GET|HEAD) /metrics",
}
"""What a key of this kind opens, by method and path."""


class HttpKey(Record):
    """One key as it lies in its file, `<principal>.json`."""

    principal: Annotated[str, Meta(pattern=rf"^{PRINCIPAL.pattern}\Z")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    created_at_us: int
    expires_at_us: Annotated[int | None, Meta(description="None: never")]
    may: Annotated[May, Meta(description="what it opens")]
    replaces: Annotated[str, Meta(description="fingerprint of the key before it; empty: there was none")] = ""
    replaced_until_us: Annotated[int | None, Meta(description="until when that one is good")] = None
    ends_at_us: Annotated[int | None, Meta(description="another one took its place; None: none did")] = None

    @property
    def fingerprint(self) -> str:
        return self.sha256[:16]

    def is_over(self, now_us: int) -> bool:
        """Return whether the key's time is over."""
        return any(end is not None and end <= now_us for end in (self.expires_at_us, self.ends_at_us))

    def on_behalf_of(self, person: str) -> HttpKey | None:
        """Return the key that another door was shown for `<name>` or `<name>/<user>`; None: nobody's name."""
        name, slash, user = person.partition("/")
        is_name = PRINCIPAL.fullmatch(name) and (not slash or PRINCIPAL.fullmatch(user))
        return self.model_copy(update={"principal": name, "may": "use"}) if is_name else None

    def opens(self, method: str, path: str) -> bool:
        return re.fullmatch(_OPENS[self.may], f"{method} {path}", re.DOTALL) is not None


class RevokedKey(Record):
    """A key that was taken back, `revoked/<fingerprint>.json`."""

    principal: Annotated[str, Meta(pattern=rf"^{PRINCIPAL.pattern}\Z")]
    fingerprint: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
    revoked_at_us: int


def make_directory_path(home: Home) -> Path:
    return home.keys / "http"


def create(  # noqa: PLR0913 - one per fact of a key
    home: Home, principal: str, *, new_id: Callable[[], str], now_us: int, ttl_s: int | None, may: May = "use"
) -> str:
    """Create the key of this principal, who had none; it is written down nowhere. Raises FileExistsError, OSError."""
    path = _make_path(home, principal)
    make_private(home.keys)
    if any(key.principal == principal for key in list_keys(home)):
        raise FileExistsError(path)
    word = _draw(new_id)
    until = None if ttl_s is None else now_us + ttl_s * 1_000_000
    kept = HttpKey(principal=principal, sha256=_hash_word(word), created_at_us=now_us, expires_at_us=until, may=may)
    write_private(path, kept.model_dump_json().encode())
    return word


def rotate(home: Home, principal: str, *, new_id: Callable[[], str], now_us: int, grace_s: int) -> str | None:
    """Return another key of this principal; the one before it is good for `grace_s` at most. None: it has none.

    Broken off before its answer, the key before it is good for that time, and may be rotated again. Raises OSError.
    """
    was = next((key for key in list_keys(home) if key.principal == principal and key.ends_at_us is None), None)
    if was is None:
        return None
    word, until = _draw(new_id), now_us + grace_s * 1_000_000
    ending = was.model_copy(update={"ends_at_us": until})
    kept = was.model_copy(
        update={
            "sha256": _hash_word(word), "created_at_us": now_us, "replaces": was.fingerprint,
            "replaced_until_us": until,
            "expires_at_us": was.expires_at_us and was.expires_at_us - was.created_at_us + now_us,
        }
    )  # fmt: skip
    # A principal's own file is read after those of the keys before: until it is replaced, it has no end.
    write_private(make_directory_path(home) / f"{principal}.{was.fingerprint}.json", ending.model_dump_json().encode())
    write_private(_make_path(home, principal), kept.model_dump_json().encode())
    return word


def revoke(home: Home, principal: str, *, now_us: int) -> bool:
    """Revoke the key durably, from the next request on; return whether there was one. Raises OSError."""
    found = [key for key in list_keys(home) if key.principal == principal]
    for key in found:
        gone = RevokedKey(principal=principal, fingerprint=key.fingerprint, revoked_at_us=now_us)
        write_private(_make_revoked_path(home) / f"{key.fingerprint}.json", gone.model_dump_json().encode())
    for path in make_directory_path(home).glob(f"{principal}.*json"):  # of the keys before, too
        path.unlink(missing_ok=True)
    return bool(found)


def list_keys(home: Home) -> list[HttpKey]:
    """Return every key that is good unless its time is over, by principal; a file that is none is no key."""
    gone = {path.stem for path in _make_revoked_path(home).glob("[!.]*.json")}
    return [key for key in _read_all(make_directory_path(home), HttpKey) if key.fingerprint not in gone]


def list_revoked(home: Home) -> list[RevokedKey]:
    return _read_all(_make_revoked_path(home), RevokedKey)


class WatchedFolders:
    """Know whether the keys of a home may have changed since the last question."""

    def __init__(self, home: Home) -> None:
        self._folders = (make_directory_path(home), _make_revoked_path(home))
        self._stamp: tuple[int, ...] = ()

    def has_changed(self, *, now_us: int) -> bool:
        """Return whether the directories' times changed. To be asked before they are read."""
        stamp = tuple(_read_changed_ns(folder) for folder in self._folders)
        if stamp == self._stamp:
            return False
        # Two changes within one tick of the file system's clock have one time.
        self._stamp = stamp if max(stamp) + _SETTLED_NS < now_us * 1000 else ()
        return True


class BearerKeys:
    """The keys as a door asks for them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._watched = WatchedFolders(home)
        self._by_hash: dict[str, HttpKey] = {}

    def key_of(self, authorization: str, *, now_us: int) -> HttpKey | None:
        """Return the bearer key that this header shows; None for none, an unknown or an expired one."""
        scheme, _, word = authorization.partition(" ")
        word = word.strip()
        if scheme.lower() != "bearer" or not word or len(word) > _KEY_MAX_CHARS:
            return None
        if self._watched.has_changed(now_us=now_us):
            self._by_hash = {key.sha256: key for key in list_keys(self._home)}
        # By its hash: how long the look-up takes says nothing about a key.
        known = self._by_hash.get(_hash_word(word))
        return None if known is None or known.is_over(now_us) else known


def read_owner_secret(home: Home, *, new_id: Callable[[], str], given: bytes = b"") -> bytes:
    """Return what all doors of this home sign session ids with; made, or `given`, by the first. Raises OSError."""
    path = home.keys / "http.secret"
    make_private(home.keys)
    mine = path.with_name(f"http.secret.{os.getpid()}")
    if not path.exists():
        mine.write_bytes(given or (new_id() + new_id()).encode())
        mine.chmod(0o600)
        with suppress(FileExistsError):
            os.link(mine, path)  # whole, or not at all, and the first one stands
        mine.unlink()
    return path.read_bytes()


@dataclass(frozen=True, slots=True)
class Ownership:
    """Know which session ids are whose."""

    secret: bytes

    def session_id(self, principal: str, seed: str) -> str:
        """Return a session of this principal; the same seed gives the same one."""
        first = sha256(f"{principal}\n{seed}".encode()).digest()[:_HALF]
        return self._sign(principal, UUID(bytes=first + bytes(_HALF), version=4).bytes[:_HALF])

    def owns(self, principal: str, session_id: str) -> bool:
        """Return whether the session with this full id is this principal's."""
        try:
            first = UUID(session_id).bytes[:_HALF]
        except ValueError:
            return False
        return hmac.compare_digest(self._sign(principal, first), session_id)

    def _sign(self, principal: str, first: bytes) -> str:
        rest = hmac.digest(self.secret, first + principal.encode(), "sha256")[:_HALF]
        return str(UUID(bytes=first + rest, version=4))


def _draw(new_id: Callable[[], str]) -> str:
    return _PREFIX + (new_id() + new_id()).replace("-", "")


def _make_path(home: Home, principal: str) -> Path:
    return make_directory_path(home) / f"{principal}.json"


def _make_revoked_path(home: Home) -> Path:
    return make_directory_path(home) / "revoked"


def _read_all(folder: Path, cls: type[R]) -> list[R]:
    found: list[R] = []
    for path in sorted(folder.glob("[!.]*.json")):
        with suppress(OSError, ValueError):
            found.append(cls.model_validate_json(path.read_bytes()))
    return found


def _read_changed_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _hash_word(word: str) -> str:
    return sha256(word.encode("utf-8", "replace")).hexdigest()


CREATED, REVOKED = "HTTP_KEY_CREATED", "HTTP_KEY_REVOKED"
_STREAM = "governance"
_log = structlog.get_logger("http")


def make_entries(keys: Iterable[HttpKey], revoked: Iterable[RevokedKey]) -> list[WriteEntry]:
    """Return one entry each, the same ones at every door: names, times and fingerprints. Pure."""
    said: list[HttpKeyCreated | HttpKeyRevoked] = [
        HttpKeyCreated(
            f"key:{key.fingerprint}", key.principal, key.created_at_us, key.expires_at_us, key.may,
            f"key:{key.replaces}" if key.replaces else "", key.replaced_until_us,
        )
        for key in keys
    ]  # fmt: skip
    said += [HttpKeyRevoked(f"key:{key.fingerprint}", key.principal, key.revoked_at_us) for key in revoked]
    return [_make_entry(one) for one in said]


async def keep_recorded(bus: Bus, home: Home, *, interval_s: float, timeout_s: float) -> None:
    """Record whatever is not in the record yet, for ever, and again while the ledger is away."""
    watched, told, is_due = WatchedFolders(home), set[str](), True
    while True:
        if watched.has_changed(now_us=round(bus.now() * 1_000_000)) or is_due:
            news = [one for one in make_entries(list_keys(home), list_revoked(home)) if one.submission_id not in told]
            is_due = not await _written(bus, news, told, timeout_s=timeout_s)
        await bus.sleep(interval_s)


async def _written(bus: Bus, news: list[WriteEntry], told: set[str], *, timeout_s: float) -> bool:
    """Return whether all of it is in the record."""
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


def _make_entry(said: HttpKeyCreated | HttpKeyRevoked) -> WriteEntry:
    event_type = CREATED if isinstance(said, HttpKeyCreated) else REVOKED
    return WriteEntry(
        submission_id=f"{event_type}:{said.name}/{said.key.removeprefix('key:')}", stream=_STREAM,
        event_type=event_type, at_us=said.at_us, bodies=[pack_payload(said)],
    )  # fmt: skip
