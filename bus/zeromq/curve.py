"""CURVE keys: drawn, kept in a private file, named by a fingerprint. Secrets are printed nowhere."""

from __future__ import annotations

import hashlib
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.utils.z85 as z85  # noqa: PLR0402 - the module ships no names for `from`

from hobus.bus import disk
from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Both halves in Z85, ZeroMQ's own text form: 40 characters each."""

    public: bytes
    secret: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.public)


def check_available() -> None:
    """Raise ConfigError where the installed ZeroMQ cannot encrypt."""
    if not zmq.has("curve"):
        raise ConfigError("this ZeroMQ library was built without CURVE, so nothing may be bound to TCP: install pyzmq")


def draw_pair() -> KeyPair:
    """Draw a fresh pair by the system's clock port, as every secret is."""
    return derive_pair(z85.encode(bytes.fromhex(SystemClock().secret())))


def derive_pair(secret: bytes) -> KeyPair:
    """Return the pair with this secret half (Z85). Raises ValueError for anything else."""
    try:
        return KeyPair(public=zmq.curve_public(secret), secret=secret)
    except (zmq.ZMQError, TypeError) as error:
        raise ValueError("not a CURVE secret key") from error


def compute_fingerprint(public: bytes) -> str:
    """Return the name of a public key (Z85) for people and records: `key:<16 hex>` of its SHA-256."""
    return f"key:{hashlib.sha256(public).hexdigest()[:16]}"


def decode_key(key: bytes) -> bytes:
    """Return the 32 bytes behind Z85 text. Raises ValueError for anything else."""
    if len(key) != 40:  # noqa: PLR2004 - a CURVE key in Z85
        raise ValueError("not a CURVE key")
    try:
        return z85.decode(key)
    except (KeyError, struct.error) as error:
        raise ValueError("not a CURVE key") from error


def encode_key(key: bytes) -> bytes:
    return z85.encode(key)


BROKER_FIX = "then every worker has to join again"


def keep_pair(path: Path, *, after_loss: str = BROKER_FIX) -> KeyPair:
    """Return the pair of this file, made at first use; `after_loss`: what follows without it.

    Raises ConfigError for a file that is damaged or open to others.
    """
    try:
        secret = path.read_bytes().strip()
    except FileNotFoundError:
        pair = draw_pair()
        disk.write_private(path, pair.secret + b"\n")
        return pair
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"the key file {path} can be read by others: chmod 600 it, then start again")
    try:
        return derive_pair(secret)
    except ValueError:
        raise ConfigError(f"the key file {path} is damaged: put its copy back, or remove it; {after_loss}") from None
