"""The record as it becomes durable: what a simulated ledger has synced, read batch by batch behind each sync."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from hobus.bus.messages.ledger import Entry
from hobus.bus.sim.disk import SimMedium
from hobus.launch.lab.simulation.broken import Broken, must
from hobus.ledger_service.frame import GENESIS
from hobus.ledger_service.reader import entries_of
from hobus.ledger_service.scan import Damage, Whole, next_whole
from hobus.ledger_service.segment import DIRECTORY, segment_name
from hobus.ledger_service.source import Source


class RecordTail:
    """Entries in order, each as soon as its batch is on the device; nothing that was there may ever be missing."""

    def __init__(self, medium: SimMedium, on_entry: Callable[[Entry], None]) -> None:
        self._medium = medium
        self._on_entry = on_entry
        self._path = f"{DIRECTORY}/{segment_name(0)}"
        self._at = 0
        self._sequence = 0
        self._chain = GENESIS
        self._seen = hashlib.sha256().digest()
        self.sent_names: set[str] = set()

    @property
    def chain(self) -> str:
        """The chain value after the last entry that is durable, hex."""
        return self._chain.hex()

    @property
    def entries(self) -> int:
        """How many are durable."""
        return self._sequence

    def synced(self, path: str) -> None:
        """This file's content is on the device now. Raises Broken for damage, or what the monitors say."""
        if path != self._path:
            return
        content = self._medium.files[path].content
        source = Source(path, lambda at, size: bytes(content[at : at + size]), lambda: len(content))
        before = self._at
        while True:
            try:
                found = next_whole(source, self._at, self._sequence, self._chain)
            except Damage as damage:
                raise Broken(f"a synced batch is damaged: {damage.detail}") from None
            if not isinstance(found, Whole):
                break
            for entry in entries_of(path, found):
                self._on_entry(entry)
            self._at, self._chain = found.end, found.chains[-1]
            self._sequence += found.frame.header.entry_count
        if self._at != before:
            self._seen = hashlib.sha256(memoryview(content)[: self._at]).digest()

    def check_kept(self) -> None:
        """Raises Broken unless every byte that was durable is still the same, as after a crash."""
        if not self._at:
            return
        file = self._medium.files.get(self._path)
        content = b"" if file is None else bytes(file.content[: self._at])
        is_kept = hashlib.sha256(content).digest() == self._seen
        must(is_kept, f"the record lost what was durable: entries up to {self._sequence - 1} stood in {self._at} bytes")
