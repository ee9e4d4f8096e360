"""An entry of the record as a person or a program reads it."""

from __future__ import annotations

from typing import Any

from hobus.bus.messages.base import named, unpack
from hobus.bus.messages.ids import shown_session
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.catalog import is_session_stream, read_body
from hobus.bus.record.journal import recorded
from hobus.bus.record.text_parts import parts_in
from hobus.config.on_demand import contents_in
from hobus.launch.console.output import clock_time, plain
from hobus.launch.sessions.provenance import SNAPSHOT


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return the stable JSON shape of an entry: hashes in hexadecimal, an event by the names of its fields."""
    fields = {"sequence": entry.sequence, **named(entry)}
    document: dict[str, Any] = plain({name: value for name, value in fields.items() if name != "bodies"})
    if entry.bodies:
        document["bodies"] = shown_bodies(entry)
    return document


def shown_bodies(entry: Entry) -> list[Any]:
    """Return every body as JSON, what stands in a payload under the names of its fields; None where one was erased."""
    return [_shown(entry, number) for number in range(len(entry.bodies))]


def _shown(entry: Entry, number: int) -> Any:
    if number == 0 and is_session_stream(entry.stream) and (taken := recorded(entry)) is not None:
        earlier = {"earlier": [named(one) for one in taken.earlier]} if taken.earlier else {}
        return plain({**earlier, **dict(named(taken.event))})
    if (entry.event_type, number) == (SNAPSHOT, 1) and entry.bodies[1] is not None:
        return _files(entry.bodies[1])
    try:
        found = read_body(entry, number)
    except ValueError:  # of another version, or forged: as it is
        found = None
    return readable(entry.bodies[number]) if found is None else plain(named(found))


def _files(body: bytes) -> Any:
    """Return the governed files beside a configuration, each as text; what is not that, as it is."""
    try:
        return {path: readable(content) for path, content in contents_in(body).items()}
    except ValueError:
        return readable(body)


def readable(body: bytes | None) -> Any:
    """Return a body as JSON: its MessagePack value, else its text, else hexadecimal; None where it was erased.

    A text that is listed by its parts is shown so: refs of recorded texts, and what stands between them.
    """
    if body is None:
        return None
    try:
        if (parts := parts_in(body)) is not None:
            return {"parts": [_part(ref, text) for ref, text in parts]}
        value = unpack(body)
    except ValueError:
        value = None
    if isinstance(value, (dict, list)):
        return plain(value)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.hex()


def _part(ref: str | None, text: str) -> dict[str, str]:
    if ref is None:
        return {"text": text}
    return {"ref": ref, "characters": text} if text else {"ref": ref}


def cells(entry: Entry) -> tuple[str, ...]:
    """Return the columns of a listing: number, time, type, stream, session, origin, what it is about."""
    session = entry.provenance.session_id
    stream = "session" if entry.stream.startswith("session/") else entry.stream
    verdict = " ".join(filter(None, (entry.decision, entry.reason)))
    about = entry.provenance.work_order_id or entry.submission_id
    return (
        f"#{entry.sequence}",
        clock_time(entry.ledger_at_us / 1_000_000),
        entry.event_type,
        stream,
        shown_session(session) if session else "-",
        entry.origin,
        f"{about} {verdict}".rstrip(),
    )
