"""The texts of an entry that a search of the record finds: what people, models and tools said, each once. Pure.

And why an order or a run failed: those words stand in the event itself, or in what it brings.

Which bodies they are is the catalogue's to say (`catalog.SearchedBody`). A reply mostly stands in the record of its
model's answer alone: then it is read from the result that RunCompleted brings, and named by the ref under which later
prompts show it.
"""

from __future__ import annotations

from typing import NamedTuple

from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import derive_body_ref
from hobus.bus.record.catalog import list_searched_bodies
from hobus.bus.record.ends import end_in, explain_failure
from hobus.bus.record.entry import Entry
from hobus.bus.record.journal import read_quoted_reply, read_recorded
from hobus.bus.record.session_facts import OrderEnded, RunCompleted, RunFailed


class SearchedText(NamedTuple):
    """One text that a search finds."""

    number: int
    """Of its body in the entry that is searched."""
    kind: str
    """message, steer, reply, result (of a tool), line (that was learned), reason or failure."""
    ref: str
    """Where it is read, `<submission id>/<n>`; another entry's where this one only quotes it."""
    text: str


def list_searched_texts(entry: Entry) -> list[SearchedText]:
    """Return the texts of an entry that was read with its bodies, without erased, blank and unreadable ones."""
    found: list[SearchedText] = []
    for number, kind in list_searched_bodies(entry.stream, entry.event_type):
        body = entry.bodies[number] if number < len(entry.bodies) else None
        if body is not None:
            text, ref = body.decode("utf-8", "replace"), derive_body_ref(entry.submission_id, number)
        elif entry.event_type == RunCompleted.kind:
            text, ref = _reply_elsewhere(entry)
        else:
            continue
        if entry.event_type == RunFailed.kind:
            text = _find_failure(entry)
        if text.strip():
            found.append(SearchedText(number, kind, ref, text))
    if not found and entry.event_type == OrderEnded.kind and _FAILED in ((entry.bodies and entry.bodies[0]) or b""):
        text = _find_failure(entry)
        found += [SearchedText(0, "failure", derive_body_ref(entry.submission_id, 0), text)] if text.strip() else []
    return found


_FAILED = pack("failed")
"""Of the receipt of an order that failed: of others, which are most, the event is not read."""


def _find_failure(entry: Entry) -> str:
    """Return why the order or the run failed; blank where it did not, or that was erased."""
    try:
        taken = read_recorded(entry)
    except ValueError:  # of another version, or forged
        return ""
    if taken is None:
        return ""
    event = taken.event.event
    if isinstance(event, OrderEnded):
        return "" if event.receipt.error is None else event.receipt.error.message
    end = end_in(event, taken)
    return (end and explain_failure(taken, end)) or ""


def _reply_elsewhere(entry: Entry) -> tuple[str, str]:
    """Return the reply that the answer quotes, and where it stands; blank where there is none to read."""
    if len(entry.bodies[1:]) != 1:  # beside its event the answer alone
        return "", ""
    try:
        ref, reply = read_quoted_reply(entry)
    except ValueError:  # of another version, or forged: nothing is found in it
        return "", ""
    return (reply, ref) if ref else ("", "")
