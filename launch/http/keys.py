"""Bearer keys of the door, and which sessions are whose. `<home>/keys/http/` holds hashes; a key is shown once.

A session's id says by itself to whom it belongs: its second half is a keyed hash of the first and of the principal's
name. So no door keeps a list, two doors agree, and nobody reaches a session by an id that he made up or saw.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from pydantic import Field, ValidationError

from bus.messages.base import Record
from launch.home import Home, make_private
from launch.run_file import write_whole

PRINCIPAL = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Names of principals: they stand in ids of records and in paths."""
_PREFIX = "hobus-"
_KEY_MAX_CHARS = 200
_HALF = 8


class DoorKey(Record):
    """One key as it lies in its file, `<principal>.json`."""

    principal: str = Field(pattern=rf"^{PRINCIPAL.pattern}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    created_at_us: int
    expires_at_us: int | None = Field(description="None: never")


def directory_of(home: Home) -> Path:
    """Where the keys lie."""
    return home.keys / "http"


def create(home: Home, principal: str, *, new_id: Callable[[], str], now_us: int, ttl_s: int | None) -> str:
    """The key of this principal, who had none; it is written down nowhere. Raises FileExistsError, OSError."""
    path = directory_of(home) / f"{principal}.json"
    make_private(home.keys)
    make_private(path.parent)
    if path.exists():
        raise FileExistsError(path)
    word = _PREFIX + (new_id() + new_id()).replace("-", "")
    until = None if ttl_s is None else now_us + ttl_s * 1_000_000
    kept = DoorKey(principal=principal, sha256=_hash(word), created_at_us=now_us, expires_at_us=until)
    write_whole(path, kept.model_dump_json())
    path.chmod(0o600)
    return word


def revoke(home: Home, principal: str) -> bool:
    """Whether there was such a key; every door refuses it from the next request on. Raises OSError."""
    if not PRINCIPAL.fullmatch(principal):
        return False
    path = directory_of(home) / f"{principal}.json"
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def keys_in(home: Home) -> list[DoorKey]:
    """Every key, by principal; a file that is none is no key."""
    found: list[DoorKey] = []
    directory = directory_of(home)
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else ():
        with suppress(OSError, ValidationError):
            found.append(DoorKey.model_validate_json(path.read_bytes()))
    return found


@dataclass(slots=True)
class KeyBook:
    """The keys as a door asks for them: read again whenever their directory has changed."""

    home: Home
    _by_hash: dict[str, DoorKey] | None = None
    _stamp: int = -1

    def principal_of(self, authorization: str, *, now_us: int) -> str | None:
        """Whose bearer key this header shows; None for none, an unknown or an expired one."""
        scheme, _, word = authorization.partition(" ")
        word = word.strip()
        if scheme.lower() != "bearer" or not word or len(word) > _KEY_MAX_CHARS:
            return None
        # By its hash: how long the look-up takes says nothing about a key.
        known = self._known().get(_hash(word))
        if known is None or (known.expires_at_us is not None and known.expires_at_us <= now_us):
            return None
        return known.principal

    def _known(self) -> dict[str, DoorKey]:
        try:
            stamp = directory_of(self.home).stat().st_mtime_ns
        except OSError:
            stamp = 0
        if self._by_hash is None or stamp != self._stamp:
            self._by_hash = {key.sha256: key for key in keys_in(self.home)}
            self._stamp = stamp
        return self._by_hash


def owner_secret(home: Home, *, new_id: Callable[[], str]) -> bytes:
    """What all doors of this home sign session ids with; made by whoever comes first. Raises OSError."""
    path = home.keys / "http.secret"
    make_private(home.keys)
    mine = path.with_name(f"http.secret.{os.getpid()}")
    if not path.exists():
        mine.write_bytes((new_id() + new_id()).encode())
        mine.chmod(0o600)
        with suppress(FileExistsError):
            os.link(mine, path)  # whole, or not at all, and the first one stands
        mine.unlink()
    return path.read_bytes()


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which session ids are whose."""

    secret: bytes

    def session_id(self, principal: str, seed: str) -> str:
        """A session of this principal; the same seed gives the same one."""
        first = sha256(f"{principal}\n{seed}".encode()).digest()[:_HALF]
        return self._signed(principal, UUID(bytes=first + bytes(_HALF), version=4).bytes[:_HALF])

    def owns(self, principal: str, session_id: str) -> bool:
        """Whether the session with this full id is this principal's."""
        try:
            first = UUID(session_id).bytes[:_HALF]
        except ValueError:
            return False
        return hmac.compare_digest(self._signed(principal, first), session_id)

    def _signed(self, principal: str, first: bytes) -> str:
        rest = hmac.digest(self.secret, first + principal.encode(), "sha256")[:_HALF]
        return str(UUID(bytes=first + rest, version=4))


def _hash(word: str) -> str:
    return sha256(word.encode("utf-8", "replace")).hexdigest()
