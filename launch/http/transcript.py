"""Which session a list of messages belongs to: the one whose answers they quote, word by word.

What was delivered is recorded (TRANSCRIPT_DELIVERED, under the hash of the principal and of all messages up to and with
the answer). Who sends exactly these messages and one more goes on in that session, if nothing has happened in it since;
anybody else begins a new one, into whose first message the given history is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from typing import NamedTuple

from hobus.bus.json_text import read_object
from hobus.bus.limits import IMAGES_TURNS
from hobus.bus.messages import given_history
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.bus.messages.ids import derive_requested_id, derive_turn_key
from hobus.bus.messages.ledger import (
    Entries,
    Entry,
    Found,
    Lookup,
    Provenance,
    Read,
    Write,
    WriteEntry,
    Written,
    name_session_stream,
)
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.port import Bus
from hobus.bus.record.payload import pack_payload, read_payload
from hobus.bus.record.payloads.governance import TranscriptDelivered
from hobus.launch.http.limits import IMAGES_MAX_BYTES
from hobus.launch.sessions.history import list_turns
from hobus.launch.sessions.images import GivenImage

EVENT = "TRANSCRIPT_DELIVERED"
_STREAM = "governance"
_LAST = 64


class Called(NamedTuple):
    """A call that a message asks for; arguments are JSON text."""

    call_id: str
    name: str
    arguments: str

    def normalise(self) -> Called:
        """Return the call with its arguments in one form: clients write them anew."""
        try:
            return self._replace(arguments=json.dumps(json.loads(self.arguments), sort_keys=True))
        except (ValueError, RecursionError):
            return self


class TranscriptMessage(NamedTuple):
    """One message of a transcript."""

    role: str
    text: str
    calls: tuple[Called, ...] = ()
    call_id: str = ""  # of a tool's message: the call that it answers
    images: tuple[GivenImage, ...] = ()  # which its text names

    def read_calls(self) -> list[ToolCall]:
        """Return the calls as a model is shown them, without those whose arguments are no JSON object."""
        read = [read_object(call.arguments.strip() or "{}", depth_max=PARAMETERS_DEPTH_MAX) for call in self.calls]
        return [
            ToolCall(call_id=f"{n:03d}", provider_call_id=call.call_id, tool_id=call.name, arguments=arguments)
            for n, (call, arguments) in enumerate(zip(self.calls, read, strict=True), 1)
            if arguments is not None
        ]

    def __str__(self) -> str:
        asked = [f"[asked for {call.name} {call.arguments} as {call.call_id}]" for call in self.calls]
        who = f"{self.role} ({self.call_id})" if self.call_id else self.role
        return f"{who}: {' '.join([self.text, *asked] if self.text else asked)}"


@dataclass(frozen=True, slots=True)
class TranscriptPlace:
    """Where a transcript was delivered: its session, and the input whose answer was its last word."""

    session_id: str
    input_id: str


def derive_transcript_id(principal: str, messages: Iterable[TranscriptMessage]) -> str:
    alike = [(said.role, said.text, tuple(call.normalise() for call in said.calls), said.call_id) for said in messages]
    words = json.dumps([principal, *alike], ensure_ascii=False, separators=(",", ":"))
    return f"{EVENT}:{principal}/{sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()}"


def with_history(messages: Sequence[TranscriptMessage]) -> str:
    """Return the first message of a new session: the last one, behind all that was said before it elsewhere.

    Calls that were handed out elsewhere, and their results, are part of what was said.
    """
    *earlier, last = messages
    words = last.text
    if last.role == "tool":
        words, earlier = "Go on with these results.", list(messages)
    instructions = [said.text for said in earlier if said.role == "system"]
    exchange = _list_exchange([said for said in earlier if said.role != "system"])
    return given_history.with_history(instructions, list(exchange), words)


def _list_exchange(said: Sequence[TranscriptMessage]) -> Iterator[str]:
    """Yield the parts of what was said; calls without a result for each, or that cannot be read, are told in words."""
    place = 0
    while place < len(said):
        one, place = said[place], place + 1
        after = list(takewhile(lambda following: following.role == "tool", said[place:]))
        results, calls = {each.call_id: each.text for each in after}, one.read_calls()
        if calls and len(after) == len(calls) and results.keys() == {call.call_id for call in one.calls}:
            yield from [f"assistant: {one.text}"] if one.text else ()
            yield from given_history.tell_calls(calls, [results[call.call_id] for call in one.calls])
            place += len(after)
        else:
            yield f"user: {one}" if one.role == "tool" else str(one)


def list_new_images(messages: Sequence[TranscriptMessage]) -> tuple[GivenImage, ...]:
    """Return images that were given since the last answer; of earlier ones the text tells."""
    found: list[GivenImage] = []
    for said in messages:
        found = [] if said.role == "assistant" else [*found, *said.images]
    return tuple(dict.fromkeys(found))


def list_shown_images(messages: Sequence[TranscriptMessage]) -> tuple[GivenImage, ...]:
    """Return the new images, and before them those of the person's newest earlier messages, as far as they fit."""
    found = list(list_new_images(messages))
    left = IMAGES_MAX_BYTES - sum(len(image.data) for image in found)
    asked = [said for said in messages if said.role == "user"][-1 - IMAGES_TURNS :]
    for image in reversed([image for said in asked for image in said.images]):
        if image not in found and len(image.data) <= left:
            found.insert(0, image)
            left -= len(image.data)
    return tuple(found)


def is_image_left_out(messages: Sequence[TranscriptMessage], *, sees: bool) -> bool:
    """Return whether some image is shown to no model; one that the last message brings is, or is refused."""
    shown = list_shown_images(messages) if sees else messages[-1].images
    return any(image not in shown for said in messages for image in said.images)


async def find(bus: Bus, record_id: str, *, timeout_s: float) -> TranscriptPlace | None:
    """Return where this transcript was delivered; None where that is unknown, or erased. Raises RuntimeFault."""
    found = await bus.request(
        "ledger", Lookup(submission_ids=[record_id], with_bodies=True), expect=Found, timeout_s=timeout_s
    )
    entry = found.entries[0]
    kept = None if entry is None else read_payload(TranscriptDelivered, entry)
    if entry is None or kept is None:
        return None
    return TranscriptPlace(session_id=entry.provenance.session_id, input_id=kept.input_id)


async def keep(bus: Bus, record_id: str, kept: TranscriptPlace, *, timeout_s: float) -> None:
    """Record where it was delivered; of two sessions that were told the same the first stands. Raises RuntimeFault."""
    entry = WriteEntry(
        submission_id=record_id,
        stream=_STREAM,
        event_type=EVENT,
        provenance=Provenance(session_id=kept.session_id),
        trace=kept.session_id,
        at_us=round(bus.now() * 1_000_000),
        bodies=[pack_payload(TranscriptDelivered(kept.input_id))],
    )
    await bus.request("ledger", Write(entries=[entry]), expect=Written, timeout_s=timeout_s)


async def was_asked(bus: Bus, session_id: str, input_id: str, *, timeout_s: float) -> bool:
    """Return whether this input is in the record of the session, answered or not. Raises RuntimeFault."""
    question = Lookup(
        submission_ids=[derive_requested_id(session_id, input_id)],
        once=[derive_turn_key(session_id, input_id)],
        with_bodies=False,
    )
    found = await bus.request("ledger", question, expect=Found, timeout_s=timeout_s)
    return any(entry is not None for entry in found.entries)


async def find_last_input(bus: Bus, session_id: str, *, timeout_s: float) -> str:
    """Return the input that this session was asked last, answered or not; empty: none. Raises RuntimeFault."""
    entries: list[Entry] = []
    is_more = True
    while is_more and not (seen := list_turns(entries[::-1])):
        before = entries[-1].sequence if entries else None
        question = Read(
            stream=name_session_stream(session_id), limit=_LAST, newest_first=True, with_bodies=True, before=before
        )
        page = await bus.request("ledger", question, expect=Entries, timeout_s=timeout_s)
        entries += page.entries
        is_more = page.more and bool(page.entries)
    seen = list_turns(entries[::-1])
    return seen[-1].input_id if seen else ""
