"""Keys that were not let in: all counted, a few named, seldom recorded: whoever reaches the port can make them."""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.messages.control import RefusedKey


class RefusedKeys:
    """At most `named_max` keys are kept and named per window."""

    def __init__(self, *, named_max: int, window_s: float) -> None:
        self._named_max = named_max
        self._window_s = window_s
        self._seen: OrderedDict[str, tuple[str, int, float]] = OrderedDict()  # latest last
        self._named: set[str] = set()
        self._window_ends = 0.0

    def add(self, fingerprint: str, address: str, now: float) -> str | None:
        """The name under which this is to be recorded; "others" beyond the bound; None when that was said already."""
        _, count, _ = self._seen.pop(fingerprint, ("", 0, 0.0))
        self._seen[fingerprint] = (address, count + 1, now)
        while len(self._seen) > self._named_max:
            self._seen.popitem(last=False)
        if now >= self._window_ends:
            self._window_ends = now + self._window_s
            self._named.clear()
        name = fingerprint if len(self._named) < self._named_max else "others"
        if fingerprint in self._named or name in self._named:
            return None
        self._named.add(name)
        return name

    def rows(self, now: float) -> list[RefusedKey]:
        """Those that are kept, the latest last."""
        return [
            RefusedKey(key=key, address=address, count=count, last_ms=max(0, int((now - at) * 1000)))
            for key, (address, count, at) in self._seen.items()
        ]
