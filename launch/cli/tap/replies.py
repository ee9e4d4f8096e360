"""The answers to requests that were shown, and how long they took. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hobus.bus.broker.tap_record import TapRecord

_ASKS = ("request",)
_ENDS = ("reply", "failure")


@dataclass(slots=True)
class Replies:
    """Requests that were shown and are not answered yet; the oldest are forgotten beyond `requests_max`."""

    requests_max: int | None
    _asked_at: OrderedDict[str, float] = field(default_factory=OrderedDict[str, float])

    def shown(self, record: TapRecord) -> None:
        """Its answer is awaited if it is a request; a repeated one counts from its first frame."""
        if record.kind not in _ASKS:
            return
        self._asked_at.setdefault(record.message_id, record.at)
        if self.requests_max is not None and len(self._asked_at) > self.requests_max:
            self._asked_at.popitem(last=False)

    def latency_ms(self, record: TapRecord) -> float | None:
        """Milliseconds since the request that this frame answers; None if it answers none that was shown."""
        asked_at = self._asked_at.get(record.correlation_id) if record.correlation_id else None
        if asked_at is None or record.kind not in (*_ENDS, "stream"):
            return None
        if record.kind in _ENDS:
            del self._asked_at[record.correlation_id]
        return round(max(0.0, record.at - asked_at) * 1000, 3)
