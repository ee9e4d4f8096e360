"""Which instance owns a routing key.

A hash chooses the *first* owner only; after that the broker keeps key -> instance until the instance is gone, drains,
or has been idle on the key.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar


class OwnsKeys(Protocol):
    """What can own routing keys, and knows which."""

    name: str
    keys: dict[str, None]


P = TypeVar("P", bound=OwnsKeys)


class Owner(Generic[P]):
    """The owner of one key."""

    __slots__ = ("in_flight", "peer", "used_at")

    def __init__(self, peer: P, now: float) -> None:
        self.peer = peer
        self.used_at = now
        self.in_flight = 0


class StickyTable(Generic[P]):
    """Map key to owner for one service, least recently used first."""

    def __init__(self, idle_s: float, keys_max: int) -> None:
        self._idle_s = idle_s
        self._keys_max = keys_max
        self._owners: OrderedDict[str, Owner[P]] = OrderedDict()

    def owner(self, key: str, now: float) -> P | None:
        """Return the owner while it lives and is not idle on the key; asking counts as use."""
        owner = self._owners.get(key)
        if owner is None:
            return None
        if not owner.in_flight and now >= owner.used_at + self._idle_s:
            self._forget(key, owner)
            return None
        owner.used_at = now
        self._owners.move_to_end(key)
        return owner.peer

    def assign(self, key: str, peer: P, now: float) -> None:
        """Make `peer` the key's owner; beyond the bound the least recently used key loses its owner."""
        self._owners[key] = Owner(peer, now)
        self._owners.move_to_end(key)
        peer.keys[key] = None
        if len(self._owners) > self._keys_max:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Forget the least recently used key; keys that are worked on count as used now."""
        for _ in range(len(self._owners)):
            key, owner = next(iter(self._owners.items()))
            if not owner.in_flight:
                self._forget(key, owner)
                return
            owner.used_at = now
            self._owners.move_to_end(key)

    def claim(self, key: str, peer: P, now: float) -> None:
        """Give a re-announced key to `peer` unless somebody else owns it."""
        if self.owner(key, now) is None:
            self.assign(key, peer, now)

    def started(self, key: str, peer: P) -> None:
        """Note that the owner works on a request of this key, so that the key is not idle."""
        owner = self._owners.get(key)
        if owner is not None and owner.peer is peer:
            owner.in_flight += 1

    def ended(self, key: str, peer: P, now: float) -> None:
        """Note that `peer`, which may have lost the key meanwhile, no longer works on it."""
        owner = self._owners.get(key)
        if owner is not None and owner.peer is peer and owner.in_flight:
            owner.in_flight -= 1
            owner.used_at = now

    def release(self, peer: P) -> None:
        """Take all keys from a peer."""
        for key in list(peer.keys):
            owner = self._owners.get(key)
            if owner is not None and owner.peer is peer:
                del self._owners[key]
        peer.keys.clear()

    def expire(self, now: float) -> None:
        """Forget idle keys, except those that are worked on."""
        while self._owners:
            key, owner = next(iter(self._owners.items()))
            if now < owner.used_at + self._idle_s:
                return
            if owner.in_flight:
                owner.used_at = now
                self._owners.move_to_end(key)
            else:
                self._forget(key, owner)

    def _forget(self, key: str, owner: Owner[P]) -> None:
        del self._owners[key]
        owner.peer.keys.pop(key, None)

    def __len__(self) -> int:
        return len(self._owners)


def choose_owner(key: str, candidates: Sequence[P]) -> P:
    """Return the candidate with the highest hash of (key, name): stable when others come and go."""
    return max(candidates, key=lambda peer: hashlib.blake2b(f"{key}\0{peer.name}".encode(), digest_size=8).digest())
