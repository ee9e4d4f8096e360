"""Invariants of the bus, one step per frame that is delivered. Pure: frames in, Broken out."""

from __future__ import annotations

from collections import Counter

from hobus.bus.broker.tap_record import Tap
from hobus.bus.catalog import row_of
from hobus.bus.codec import unpack_header
from hobus.bus.envelope import Header, Kind
from hobus.bus.lanes import role_of
from hobus.bus.messages import memory as m
from hobus.bus.messages.control import Probe
from hobus.launch.lab.simulation.record import must

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
    """One answer per asking, nobody under a foreign name, HO3 sees only READ and LOG, the tap counts without a gap."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._answered: Counter[tuple[str, str, str]] = Counter()
        self._sent: set[tuple[str, str]] = set()
        self._tapped: tuple[str, int] = ("", 0)

    def step(self, source: str, target: str, header_bytes: bytes, *, is_copy: bool) -> Header:
        """One frame as it arrives; its header. Raises Broken."""
        header = unpack_header(header_bytes)
        if header.kind in _ASKS:
            self._asking(source, target, header)
        elif header.kind in _ANSWERS and not is_copy and not target.startswith("broker"):
            self._answer(source, target, header)
        return header

    def _asking(self, source: str, target: str, header: Header) -> None:
        if source == "broker":
            self._from_broker(target, header)
            return
        server = target if target == "broker" else role_of(target)
        self._asked[source, server, header.message_id] += 1
        self._sent.add((source, header.message_id))
        if role_of(source) == "ho3":
            must(server == "ledger", f"HO3 asks {server} for {header.type}")

    def _from_broker(self, target: str, header: Header) -> None:
        if header.type == Probe.TYPE:
            return
        role, sender = role_of(target), role_of(header.sender)
        row = row_of(role, header.type)
        must(row is not None and sender in row.senders, f"{target} is asked for {header.type} by {header.sender}")
        is_senders = sender == "broker" or (header.sender, header.message_id) in self._sent
        must(is_senders, f"{target} is asked for {header.type} in the name of {header.sender}, who did not send it")
        if role == "ho3":
            must(header.type in READ_AND_LOG, f"HO3 is asked for {header.type}")

    def _answer(self, source: str, target: str, header: Header) -> None:
        key = (target, source if source == "broker" else role_of(source), header.correlation_id)
        self._answered[key] += 1
        asked = self._asked[key]
        must(self._answered[key] <= asked, f"{target} asked {asked} times for {key[2]} and is answered once more")

    def tapped(self, epoch: str, tap: Tap) -> None:
        """One frame of the tap. Raises Broken where its number does not follow."""
        known, last = self._tapped
        if known == epoch:
            must(tap.sequence == last + 1, f"the tap of {epoch} goes from {last} to {tap.sequence}")
        self._tapped = (epoch, tap.sequence)
