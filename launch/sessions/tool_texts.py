"""What the tools of a session told people beside their output, as the ends of their orders keep it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.orders import OrderEnd, said_in

_ENDS = ("WO_COMPLETED", "WO_FAILED", "WO_LATE")


@dataclass(frozen=True, slots=True)
class ToolText:
    """The text of one order; `code` and `message` are those of its failure, empty if it was completed."""

    run: int
    work_order: str
    tool: str
    code: str
    message: str
    elapsed_ms: int
    truncated: bool
    printed: str
    traceback: str


def texts_in(entries: Iterable[Entry]) -> list[ToolText]:
    """Return texts of those ends of orders whose tool said something, in the order given."""
    ends = (text_of(entry) for entry in entries if entry.event_type in _ENDS)
    return [end for end in ends if end is not None and (end.printed or end.traceback)]


def text_of(entry: Entry) -> ToolText | None:
    """Return the text of one end; None where it was erased. Raises ValueError for another entry."""
    end, said = payload_in(OrderEnd, entry), said_in(entry)
    if end is None:
        return None
    return ToolText(
        run=entry.provenance.run_seq,
        work_order=entry.provenance.work_order_id,
        tool=next(iter(end.used.tool_ids_used), ""),
        code=entry.reason,
        message=end.failure or "",
        elapsed_ms=end.used.elapsed_ms,
        truncated=end.truncated,
        printed=said.get("printed", ""),
        traceback=said.get("traceback", ""),
    )


def lines_of(text: ToolText) -> Iterator[str]:
    """Yield lines for people: whose words they are, then the words, each line behind a bar to mark it as foreign."""
    yield f"run {text.run}, tool {text.tool}{f': {text.code}: {text.message}' if text.code else ''}"
    for name, words in (("printed", text.printed), ("traceback", text.traceback)):
        if words:
            yield f"  {name} by the tool:"
            yield from (f"  | {line}" for line in words.splitlines())
