"""An entry of the record as a person or a program reads it."""

from __future__ import annotations

from typing import Any

from hobus.bus.messages.base import name_fields, unpack
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.catalog import is_session_stream, read_body
from hobus.bus.record.journal import read_recorded
from hobus.bus.record.text_parts import read_parts
from hobus.config.on_demand import read_contents
from hobus.launch.console.output import format_clock_time, make_plain
from hobus.launch.sessions.provenance import SNAPSHOT


def make_entry_document(entry: Entry) -> dict[str, Any]:
    """Return the stable JSON shape of an entry: hashes in hexadecimal, an event by the names of its fields."""
    fields = {"sequence": entry.sequence, **name_fields(entry)}
    document: dict[str, Any] = make_plain({name: value for name, value in fields.items() if name != "bodies"})
    if entry.bodies:
        document["bodies"] = show_bodies(entry)
    return document


def show_bodies(entry: Entry) -> list[Any]:
    """Return every body as JSON, what stands in a payload under the names of its fields; None where one was erased."""
    return [_show_body(entry, number) for number in range(len(entry.bodies))]


def _show_body(entry: Entry, number: int) -> Any:
    if number == 0 and is_session_stream(entry.stream) and (taken := read_recorded(entry)) is not None:
        earlier = {"earlier": [name_fields(one) for one in taken.earlier]} if taken.earlier else {}
        return make_plain({**earlier, **dict(name_fields(taken.event))})
    if (entry.event_type, number) == (SNAPSHOT, 1) and entry.bodies[1] is not None:
        return _show_files(entry.bodies[1])
    try:
        found = read_body(entry, number)
    except ValueError:  # of another version, or forged: as it is
        found = None
    return make_readable(entry.bodies[number]) if found is None else make_plain(name_fields(found))


def _show_files(body: bytes) -> Any:
    """Return the governed files beside a configuration, each as text; what is not that, as it is."""
    try:
        return {path: make_readable(content) for path, content in read_contents(body).items()}
    except ValueError:
        return make_readable(body)


def make_readable(body: bytes | None) -> Any:
    """Return a body as JSON: its MessagePack value, else its text, else hexadecimal; None where it was erased.

    A text that is listed by its parts is shown so: refs of recorded texts, and what stands between them.
    """
    if body is None:
        return None
    try:
        if (parts := read_parts(body)) is not None:
            return {"parts": [_make_part(ref, text) for ref, text in parts]}
        value = unpack(body)
    except ValueError:
        value = None
    if isinstance(value, (dict, list)):
        return make_plain(value)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.hex()


def _make_part(ref: str | None, text: str) -> dict[str, str]:
    if ref is None:
        return {"text": text}
    return {"ref": ref, "characters": text} if text else {"ref": ref}


def format_cells(entry: Entry) -> tuple[str, ...]:
    """Return the columns of a listing: number, time, type, stream, session, origin, what it is about."""
    session = entry.provenance.session_id
    stream = "session" if entry.stream.startswith("session/") else entry.stream
    verdict = " ".join(filter(None, (entry.decision, entry.reason)))
    about = entry.provenance.work_order_id or entry.submission_id
    return (
        f"#{entry.sequence}",
        format_clock_time(entry.ledger_at_us / 1_000_000),
        entry.event_type,
        stream,
        shorten_session(session) if session else "-",
        entry.origin,
        f"{about} {verdict}".rstrip(),
    )
