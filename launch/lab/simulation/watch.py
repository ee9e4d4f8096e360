"""Everything that happens in a simulated run, numbered, handed to the monitors, and told to whoever asks.

An event is one frame that arrives, one entry that becomes durable, one strike, one question, one answer. The first
invariant that breaks ends the run at that very event.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable

from hobus.bus import spool
from hobus.bus.broker.tap_record import Tap
from hobus.bus.catalog import find_row
from hobus.bus.codec import decode, unpack_header
from hobus.bus.envelope import Header, Kind
from hobus.bus.lanes import get_role
from hobus.bus.messages import memory as m
from hobus.bus.messages.control import Probe
from hobus.bus.messages.ledger import Entry, Written
from hobus.bus.sim.disk import SimMedium
from hobus.bus.sim.world import World
from hobus.launch.lab.simulation.budgets import BudgetMonitor
from hobus.launch.lab.simulation.record import Broken, Numbers, RecordMonitor, call_of, must
from hobus.ledger_service.frame import GENESIS
from hobus.ledger_service.reader import read_batch_entries
from hobus.ledger_service.scan import Damage, Whole, read_next_whole
from hobus.ledger_service.segment import DIRECTORY, name_segment
from hobus.ledger_service.source import Source

_ASKS = (int(Kind.REQUEST), int(Kind.POST))
_ANSWERS = (int(Kind.REPLY), int(Kind.FAILURE))
READ_AND_LOG = frozenset(
    cls.TYPE
    for cls in (
        m.ReadSignals, m.ReadOverlays, m.ReadActiveBiases, m.ReadReview, m.CheckGate, m.ReadMemoryStats, m.LogSignal,
        m.LogSignals, m.LogOverlay, m.DeactivateOverlay, m.ActivateOverlay, m.ConfirmOverlay, m.UpdateOverlayWeight,
        m.LogConsolidationFailure,
    )
)  # fmt: skip
"""All that HO3 is asked, apart from the broker's question whether it lives."""


class FrameMonitor:
    """Check one answer per asking, no foreign names, HO3 sees only READ and LOG, the tap counts without a gap."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._answered: Counter[tuple[str, str, str]] = Counter()
        self._sent: set[tuple[str, str]] = set()
        self._tapped: tuple[str, int] = ("", 0)

    def step(self, source: str, target: str, header_bytes: bytes, *, is_copy: bool) -> Header:
        """Check one frame as it arrives; return its header. Raises Broken."""
        header = unpack_header(header_bytes)
        if header.kind in _ASKS:
            self._check_asking(source, target, header)
        elif header.kind in _ANSWERS and not is_copy and not target.startswith("broker"):
            self._answer(source, target, header)
        return header

    def _check_asking(self, source: str, target: str, header: Header) -> None:
        if source == "broker":
            self._from_broker(target, header)
            return
        server = target if target == "broker" else get_role(target)
        self._asked[source, server, header.message_id] += 1
        self._sent.add((source, header.message_id))
        if get_role(source) == "ho3":
            must(server == "ledger", f"HO3 asks {server} for {header.type}")

    def _from_broker(self, target: str, header: Header) -> None:
        if header.type == Probe.TYPE:
            return
        role, sender = get_role(target), get_role(header.sender)
        row = find_row(role, header.type)
        must(row is not None and sender in row.senders, f"{target} is asked for {header.type} by {header.sender}")
        is_senders = sender == "broker" or (header.sender, header.message_id) in self._sent
        must(is_senders, f"{target} is asked for {header.type} in the name of {header.sender}, who did not send it")
        if role == "ho3":
            must(header.type in READ_AND_LOG, f"HO3 is asked for {header.type}")

    def _answer(self, source: str, target: str, header: Header) -> None:
        key = (target, source if source == "broker" else get_role(source), header.correlation_id)
        self._answered[key] += 1
        asked = self._asked[key]
        must(self._answered[key] <= asked, f"{target} asked {asked} times for {key[2]} and is answered once more")

    def tapped(self, epoch: str, tap: Tap) -> None:
        """Check one frame of the tap. Raises Broken where its number does not follow."""
        known, last = self._tapped
        if known == epoch:
            must(tap.sequence == last + 1, f"the tap of {epoch} goes from {last} to {tap.sequence}")
        self._tapped = (epoch, tap.sequence)


_SHOWN = 24
_LEDGER = "ledger"


class RecordTail:
    """Read entries in order, each as soon as its batch is on the device; nothing that was there may ever be missing."""

    def __init__(self, medium: SimMedium, on_entry: Callable[[Entry], None]) -> None:
        self._medium = medium
        self._on_entry = on_entry
        self._path = f"{DIRECTORY}/{name_segment(0)}"
        self._at = 0
        self._sequence = 0
        self._chain = GENESIS
        self._seen = hashlib.sha256().digest()

    @property
    def chain(self) -> str:
        """Return the chain value after the last entry that is durable, hex."""
        return self._chain.hex()

    @property
    def entries(self) -> int:
        return self._sequence

    def synced(self, path: str) -> None:
        """Read this file's content, which is on the device now. Raises Broken for damage, or what the monitors say."""
        if path != self._path:
            return
        content = self._medium.files[path].content
        source = Source(path, lambda at, size: bytes(content[at : at + size]), lambda: len(content))
        before = self._at
        while True:
            try:
                found = read_next_whole(source, self._at, self._sequence, self._chain)
            except Damage as damage:
                raise Broken(f"a synced batch is damaged: {damage.detail}") from None
            if not isinstance(found, Whole):
                break
            for entry in read_batch_entries(path, found):
                self._on_entry(entry)
            self._at, self._chain = found.end, found.chains[-1]
            self._sequence += found.frame.header.entry_count
        if self._at != before:
            self._seen = hashlib.sha256(memoryview(content)[: self._at]).digest()

    def check_kept(self) -> None:
        """Raise Broken unless every byte that was durable is still the same, as after a crash."""
        if not self._at:
            return
        file = self._medium.files.get(self._path)
        content = b"" if file is None else bytes(file.content[: self._at])
        is_kept = hashlib.sha256(content).digest() == self._seen
        must(is_kept, f"the record lost what was durable: entries up to {self._sequence - 1} stood in {self._at} bytes")


class EventWatch:
    """The monitors of one run, fed by the ports of its world."""

    def __init__(self, world: World, *, until: int | None, trace: Callable[[str], None] | None) -> None:
        self._world = world
        self._until = until
        self._trace = trace
        self._sent: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        self._last: deque[tuple[int, float, Callable[[], str]]] = deque(maxlen=_SHOWN)
        self.events = 0
        self.broken: Broken | None = None
        self.is_stopped = False
        self._is_over = False
        self.story: list[tuple[float, str]] = []
        self.frames = FrameMonitor()
        self.budgets = BudgetMonitor()
        self.record = RecordMonitor(Numbers().step, self.budgets.step)
        self.entries: list[Entry] = []
        world.disk(_LEDGER)  # it is there before its first process
        self.tail = RecordTail(world.media[_LEDGER], self._on_durable)
        world.media[_LEDGER].on_sync = self._on_synced
        world.network.on_delivery = self._on_delivered
        world.network.on_tap = self._tapped

    # --- what happens -----------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Tell something that people want to read of: a strike, a question, an answer."""
        self.story.append((self._world.loop.time(), text))
        self._note_event(lambda: text)

    def report(self, broken: Broken) -> None:
        """End the run: an invariant is broken."""
        if self.broken is None and not self.is_stopped:
            self.broken = broken
            self._note_event(lambda: f"BROKEN: {broken}")
            self._is_over = True
            self._world.fail(str(broken))

    def run_guarded(self, check: Callable[[], None]) -> None:
        """Run a check; report what it finds broken."""
        try:
            check()
        except Broken as broken:
            self.report(broken)

    def last(self) -> list[str]:
        return [_format_line(number, at, tell()) for number, at, tell in self._last]

    def is_sent(self, call_key: str, calls: int) -> bool:
        """Return whether so many PROMPT_SENT of this call are durable: in the record, or if degraded in the spool."""
        return self._sent.get(call_key, 0) + self._count_spooled(call_key) >= calls

    def _count_spooled(self, call_key: str) -> int:
        if "DEGRADED" not in call_key:
            return 0
        of_call, files = f"PROMPT_SENT:{call_key}/", self._world.media["gateway"].files.values()
        spooled = (entry for file in files for entry in spool.parse(file.on_device()).entries)
        return sum(entry.submission_id.startswith(of_call) for entry in spooled)

    # --- the ports --------------------------------------------------------------------------------------------------

    def _note_event(self, tell: Callable[[], str]) -> None:
        if self._is_over:
            return  # what its last step still does is no part of the run
        self.events += 1
        at = self._world.loop.time()
        self._last.append((self.events, at, tell))
        if self._trace is not None:
            self._trace(_format_line(self.events, at, tell()))
        if self.events == self._until and self.broken is None:
            self.is_stopped = self._is_over = True
            self._world.fail(f"stopped at event {self._until}")

    def _on_delivered(self, source: str, target: str, header_bytes: bytes, body: bytes, is_copy: bool) -> None:
        try:
            header = self.frames.step(source, target, header_bytes, is_copy=is_copy)
            self._note_event(lambda: _describe_frame(source, target, header, len(body), is_copy=is_copy))
            if header.type == Written.TYPE and source.startswith("ledger/"):
                self._on_acknowledged(decode(Written, body, 1 << 30))
        except Broken as broken:
            self.report(broken)

    def _on_acknowledged(self, written: Written) -> None:
        for ack in written.acks:
            if ack.outcome in ("committed", "known"):
                is_durable = self._durable.get(ack.submission_id) == ack.sequence
                must(is_durable, f"{ack.submission_id} is acknowledged as entry {ack.sequence} and is not durable")

    def _tapped(self, tap: Tap) -> None:
        self.run_guarded(lambda: self.frames.tapped(self._world.network.epoch, tap))

    def _on_synced(self, path: str) -> None:
        self.run_guarded(lambda: self.tail.synced(path))

    def _on_durable(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._durable[entry.submission_id] = entry.sequence
        if entry.event_type == "PROMPT_SENT":
            key = call_of(entry).rpartition("/")[0]
            self._sent[key] = self._sent.get(key, 0) + 1
        self._note_event(lambda: f"durable  #{entry.sequence} {entry.submission_id} by {entry.origin}")
        self.record.step(entry)


def _describe_frame(source: str, target: str, header: Header, size: int, *, is_copy: bool) -> str:
    copy = " (a copy)" if is_copy else ""
    about = header.correlation_id or header.message_id
    return f"frame    {source} -> {target} {Kind(header.kind).name.lower()} {header.type} {about} {size} B{copy}"


def _format_line(number: int, at: float, text: str) -> str:
    return f"{number:>6} {at:12.6f}  {text}"
