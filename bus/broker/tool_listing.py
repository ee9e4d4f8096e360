"""What all workers say of their tools, as rows in one order: sources by worker, then tools by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hobus.bus.broker.peers import BoundPeer
from hobus.bus.messages.control import WORKERS_SHOWN_MAX, SourceRow, ToolRow, ToolSource, ToolWord


class ToolListing:
    """Made for one answer."""

    def __init__(self, peers: Iterable[BoundPeer]) -> None:
        self._words: dict[str, ToolWord] = {}
        self._workers: dict[str, list[str]] = {}
        self._sources: dict[str, tuple[str, ToolSource, int]] = {}
        for peer in sorted(peers, key=lambda peer: peer.instance):
            said = peer.announced_tools
            if said is None or peer.service is None:
                continue
            brought = Counter(word.source for word in said.tools.values())
            for source in said.sources.values():
                self._sources[f"source {peer.instance} {source.name}"] = (peer.instance, source, brought[source.name])
            for tool_id, word in said.tools.items():
                self._words.setdefault(f"tool {tool_id}", word)
                self._workers.setdefault(f"tool {tool_id}", []).append(peer.instance)

    def keys(self) -> Iterator[str]:
        """Where a page may end; `source ...` comes before `tool ...`."""
        yield from self._sources
        yield from self._words

    def row(self, key: str) -> SourceRow | ToolRow:
        """What stands under a key."""
        if key in self._sources:
            instance, source, brought = self._sources[key]
            return SourceRow(instance=instance, tools=brought, **dict(source))
        workers = self._workers[key]
        return ToolRow(workers=workers[:WORKERS_SHOWN_MAX], worker_count=len(workers), **dict(self._words[key]))
