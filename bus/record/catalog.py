"""Every kind of entry: where it stands, who writes it, what it is called and claims. Pure; one row per kind.

A new kind of record gets its row here, with its writer, before anybody can write it: the ledger's write rules, the
list in docs/ledger.md and what the command line knows of event types are made from these rows.

Ids are derived, so whoever knows the rule knows every id that is still to come: an entry under another's id or key
would keep the rightful one out for ever. A submission id is `<event type>:<what it is about>`, about the entry's own
session on a session's stream, and of the stamped sender where it names an instance; a once key is of the kind that its
row names, about the same order, call or input as the entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from hobus.bus.messages.ids import (
    derive_candidates_key,
    derive_delivered_key,
    derive_got_key,
    derive_sent_key,
    derive_session_key,
    derive_turn_key,
    end_key,
    start_key,
)
from hobus.bus.messages.ledger import STREAMS
from hobus.bus.record.entry import Entry, WriteEntry
from hobus.bus.record.payload import unpack_payload
from hobus.bus.record.payloads import governance, memory, orders, projection, prompts
from hobus.bus.record.session_facts import RUN_ENDS, SESSION_FACTS

SESSION = "session"
"""Stands in this table for every session's journal."""

_STREAMS_KEPT = 4096
"""Of each entry's stream it is asked several times what it is; only speed depends on it."""
_SESSION_STREAM = re.compile(r"session/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ORDER = re.compile(r"WO-[A-Za-z0-9._:@#-]+")
_INPUT = re.compile(r"[A-Za-z0-9._:@-]+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_DELIVERED = "/delivered"
_JOURNAL_CHARS = len("session/")
"""What follows in the name of a session's stream is its id."""


Payload = type[tuple[Any, ...]]
"""A class of named tuples (`bus.record.payload`)."""


Fits = Callable[[str, WriteEntry, str], bool]
"""Whether an id or a once key is as it must be: of what follows `<event type>:` in the entry's id, the entry, and the
stamped instance that writes it."""


class SearchedBody(NamedTuple):
    """A body whose text is found by its words."""

    number: int
    kind: str  # what it is to a reader: message, steer, reply, result, line, reason or failure


class EntryKind(NamedTuple):
    """One row."""

    event_type: str
    stream: str  # a named stream, or SESSION
    writers: tuple[str, ...]  # roles
    named: Fits  # of the submission id
    payload: Payload | None = None  # of its body 0; None: an event of a session, or bytes of another kind
    once: Fits | None = None  # of the once key that it may claim; None: it claims none
    behind: tuple[Payload | None, ...] = ()  # of the bodies behind it; None: plain text
    rests_on: Callable[[str, str], str] | None = (
        None  # of that and the writer: the once key that must be claimed before
    )
    texts: tuple[str, ...] = ()  # what its bodies behind the payload are; each of them can be erased
    searched: tuple[SearchedBody, ...] = ()  # which of these are searched: what was said, each once (`searched.py`)
    is_barrier: bool = False  # a turn waits until it is durable
    has_type_in_id: bool = True
    said: str = ""  # where its payload's own sentence does not say what it means

    @property
    def means(self) -> str:
        """Return one sentence: the payload class's (`<event type>: ...`) unless the row has another one."""
        sentence = self.said or (self.payload.__doc__ or "").partition("\n")[0].partition(": ")[2]
        return sentence[:1].upper() + sentence[1:]


# --- what ids are made of ---------------------------------------------------------------------------------------------


def _counted(about: str, _entry: WriteEntry, sender: str) -> bool:
    number = about.removeprefix(f"{sender}/")
    return number != about and _NUMBER.fullmatch(number) is not None


def _order_of_writer(about: str, entry: WriteEntry, sender: str) -> bool:
    order_id = about.removesuffix(f"/{sender}")
    is_order = order_id != about and _ORDER.fullmatch(order_id) is not None
    return is_order and entry.provenance.work_order_id in ("", order_id)


def _of_session(about: str, entry: WriteEntry, _sender: str) -> bool:
    session_id = entry.stream[_JOURNAL_CHARS:]
    return about.startswith((f"{session_id}/", f"{session_id}-"))


def _order_of_session(about: str, entry: WriteEntry, _sender: str) -> bool:
    return about.startswith(f"WO-{entry.stream[_JOURNAL_CHARS:]}-") and _ORDER.fullmatch(about) is not None


def _input_of_session(about: str, entry: WriteEntry, _sender: str) -> bool:
    stem = f"{entry.stream[_JOURNAL_CHARS:]}/"
    return about.startswith(stem) and _INPUT.fullmatch(about.removesuffix(_DELIVERED)[len(stem) :]) is not None


def _make_matcher(pattern: str) -> Callable[[str, WriteEntry, str], bool]:
    compiled = re.compile(pattern)
    return lambda about, _entry, _sender: compiled.fullmatch(about) is not None


def _image_of_session(about: str, entry: WriteEntry, _sender: str) -> bool:
    session_id, _, digest = about.partition("/")
    return session_id == entry.provenance.session_id and re.fullmatch("[0-9a-f]{64}", digest) is not None


def _anything(about: str, _entry: WriteEntry, _sender: str) -> bool:
    """Accept any subject: no other writer makes such an entry, and a repeat is meant to add nothing."""
    return about != ""


_consolidation = _make_matcher(r"WO-CONS-[A-Za-z0-9-]+")
_transcript = _make_matcher(r"([a-z0-9][a-z0-9_-]{0,39}/){1,2}[0-9a-f]{64}")  # key, perhaps user, and what was said
_http_key = _make_matcher(r"[a-z0-9][a-z0-9_-]{0,39}/[0-9a-f]{16}")  # principal and fingerprint


# --- what once keys are made of ---------------------------------------------------------------------------------------


def _starts(about: str, entry: WriteEntry, sender: str) -> bool:
    stem = start_key(about.removesuffix(f"/{sender}"))
    number = (entry.once or "").removeprefix(f"{stem}/")
    return entry.once == stem or (number != entry.once and _NUMBER.fullmatch(number) is not None)


def _end_of_order(about: str, sender: str) -> str:
    return end_key(about.removesuffix(f"/{sender}"))


def _is_degraded_turn(about: str, entry: WriteEntry, _sender: str) -> bool:
    """Return whether the entry is under the turn's key; of what was delivered, under the key of that."""
    session_id, _, input_id = about.removesuffix(_DELIVERED).partition("/")
    key_of = derive_delivered_key if about.endswith(_DELIVERED) else derive_turn_key
    return entry.once == key_of(session_id, input_id)


def _ends_in_input(key: str | None, stem: str) -> bool:
    """Return whether the key ends in an input, which stands in the body alone."""
    return key is not None and key.startswith(stem) and _INPUT.fullmatch(key[len(stem) :]) is not None


def _starts_session(_about: str, entry: WriteEntry, _sender: str) -> bool:
    return entry.once == derive_session_key(entry.stream[_JOURNAL_CHARS:])


def _is_sent(about: str, entry: WriteEntry, _sender: str) -> bool:
    return entry.once == derive_sent_key(about)


def _is_got(about: str, entry: WriteEntry, _sender: str) -> bool:
    return entry.once == derive_got_key(about)


def _ends_turn(_about: str, entry: WriteEntry, _sender: str) -> bool:
    return _ends_in_input(entry.once, derive_turn_key(entry.stream[_JOURNAL_CHARS:], ""))


def _ends_order(about: str, entry: WriteEntry, sender: str) -> bool:
    return entry.once == _end_of_order(about, sender)


def _names_candidates(_about: str, entry: WriteEntry, _sender: str) -> bool:
    return _ends_in_input(entry.once, derive_candidates_key(entry.provenance.session_id, ""))


# --- the rows ---------------------------------------------------------------------------------------------------------

_BARRIERS = frozenset({"WO_DISPATCHED", "RunCompleted", "TurnDegraded"})
_EVENT_TEXTS = {
    "RunRequested": ("the message", "results that it brings"),
    "WO_DISPATCHED": ("texts of the order",),
    "OrderEnded": ("its result",),
    "RunCompleted": ("the result", "words of its answer"),
    "RunFailed": ("the result, or what failed",),
    "RunCancelled": ("the result",),
    "STATE_SNAPSHOT": ("the state", "texts of the history"),
    "TurnDegraded": ("the message", "the answer"),
    "HostCommandReceived": ("the text of a steer",),
    "INTENT_DECLARED": ("the objective",),
}
_EVENT_SEARCHED = {
    "RunRequested": (SearchedBody(1, "message"),),
    "HostCommandReceived": (SearchedBody(1, "steer"),),
    "OrderEnded": (SearchedBody(1, "result"),),
    "RunCompleted": (SearchedBody(2, "reply"),),
    "RunFailed": (SearchedBody(1, "failure"),),
    "TurnDegraded": (SearchedBody(1, "message"), SearchedBody(2, "reply")),
}


_JOURNAL_WRITERS = {"TurnDegraded": ("host",), "SessionArrived": ("operator",)}
_ONCE = {"TurnDegraded": _is_degraded_turn, "SESSION_START": _starts_session}


def _list_journal_kinds() -> list[EntryKind]:
    rows: list[EntryKind] = []
    for cls in SESSION_FACTS:
        event_type = cls.entry_name
        is_hosts = event_type == "TurnDegraded"
        is_order = event_type in ("WO_DISPATCHED", "OrderEnded")
        rows.append(
            EntryKind(
                event_type,
                SESSION,
                _JOURNAL_WRITERS.get(event_type, ("ho2",)),
                _input_of_session if is_hosts else _order_of_session if is_order else _of_session,
                said=(cls.__doc__ or "").partition("\n")[0],
                once=_ONCE.get(event_type, _ends_turn if event_type in RUN_ENDS else None),
                texts=_EVENT_TEXTS.get(event_type, ()),
                searched=_EVENT_SEARCHED.get(event_type, ()),
                is_barrier=event_type in _BARRIERS,
            )
        )
    return rows


KINDS: tuple[EntryKind, ...] = (
    *_list_journal_kinds(),
    # HO2, beside journals
    EntryKind("WO_QUALITY_GATE", "ho2m", ("ho2",), _counted, orders.QualityGate),
    EntryKind("ESCALATION", "ho2m", ("ho2",), _counted, orders.Escalation),
    EntryKind("BUDGET_WARNING", "ho2m", ("ho2",), _counted, orders.RunBudget),
    EntryKind(
        "MEMORY_WARNING", "ho2m", ("ho2",), _counted, orders.SignalsNamed,
        said="A turn continued without memory, and why.",
    ),
    EntryKind(
        "CONSOLIDATION_DUE", "ho2m", ("ho2",), _counted, orders.SignalsNamed,
        said="Signals crossed the gate in this turn, or it contained a statement.", once=_names_candidates,
        texts=("what was stated",),
    ),
    EntryKind("OWNERS_SETTLED", "ho2m", ("ho2",), _counted, orders.OwnersSettled),
    EntryKind(
        "WO_DISPATCHED", "ho2m", ("ho2",), _consolidation, orders.ConsolidationDispatched,
        texts=("texts of the order",),
    ),
    EntryKind(
        "CONTEXT_ASSEMBLED", "ho2_context_authority", ("ho2",), _counted, orders.ContextAssembled,
        texts=("a learned line each",),
    ),
    EntryKind(
        "PROJECTION_COMPUTED", "ho2_context_authority", ("ho2",), _counted, projection.ProjectionComputed,
    ),
    EntryKind(
        "PROJECTION_SHADOW_COMPARE", "ho2_context_authority", ("ho2",), _counted, projection.ShadowCompare,
        texts=("the context that the model was shown", "the projection"),
    ),
    # HO1
    EntryKind(
        "TOOL_STARTED", "ho1m", ("ho1",), _order_of_writer, orders.ToolStarted, once=_starts, is_barrier=True,
        said="A tool call begins (not for tools that only read).",
    ),
    EntryKind(
        "WO_COMPLETED", "ho1m", ("ho1", "ho2"), _order_of_writer, orders.OrderEnd, once=_ends_order,
        texts=("its result", "output of its tool"),
        said="An order completed; model answers and reading tools have only OrderEnded.",
    ),
    EntryKind(
        "WO_FAILED", "ho1m", ("ho1", "ho2"), _order_of_writer, orders.OrderEnd, once=_ends_order,
        texts=("output of its tool",), said="An order failed, or was lost.",
    ),
    EntryKind(
        "WO_LATE", "ho1m", ("ho1",), _order_of_writer, orders.OrderEnd, rests_on=_end_of_order,
        texts=("its result", "output of its tool"),
        said="A second end of an order.",
    ),
    # gateway
    EntryKind(
        "PROMPT_SENT", "prompts", ("gateway",), _anything, prompts.PromptSent,
        once=_is_sent, behind=(prompts.SentRequest,), texts=("the request",), is_barrier=True,
    ),
    EntryKind(
        "PROMPT_RECEIVED", "prompts", ("gateway",), _anything, prompts.PromptReceived,
        once=_is_got, behind=(None, prompts.AnswerCalls), texts=("content", "tool calls"),
    ),
    EntryKind("PROMPT_FAILED", "prompts", ("gateway",), _anything, prompts.PromptFailed, once=_is_got),
    EntryKind("PROMPT_REJECTED", "prompts", ("gateway",), _anything, prompts.PromptRejected),
    EntryKind("BUDGET_ALLOCATED", "prompts", ("gateway",), _anything, prompts.BudgetAllocated),
    EntryKind("BUDGET_RELEASED", "prompts", ("gateway",), _anything, prompts.BudgetReleased),
    EntryKind("BUDGET_WARNING", "prompts", ("gateway",), _anything, prompts.BudgetCrossed),
    EntryKind("BUDGET_SNAPSHOT", "prompts", ("gateway",), _anything, prompts.BudgetSnapshot),
    EntryKind("BREAKER_CHANGED", "prompts", ("gateway",), _anything, prompts.BreakerChanged),
    # HO3
    EntryKind("HO3_SIGNAL", "signals", ("ho3",), _anything, memory.SignalLogged),
    EntryKind(
        "HO3_OVERLAY", "overlays", ("ho3",), _anything, memory.OverlayWritten,
        texts=("its line",), searched=(SearchedBody(1, "line"),),
    ),
    *(
        EntryKind(
            f"HO3_OVERLAY_{name}", "overlays", ("ho3",), _anything, memory.OverlayChange, texts=("the reason",),
            searched=(SearchedBody(1, "reason"),), said=f"A person {what}.",
        )
        for name, what in (
            ("DEACTIVATED", "switched an artifact off, or rejected it while it waited"),
            ("ACTIVATED", "switched an artifact on again"),
            ("CONFIRMED", "confirmed a constraint that waited"),
            ("WEIGHT_UPDATED", "gave an artifact another weight"),
        )
    ),
    EntryKind(
        "HO3_CONSOLIDATION_FAILED", "overlays", ("ho3",), _anything, memory.ConsolidationFailed,
        texts=("why its line was refused", "the line"),
    ),
    # everybody else
    EntryKind("DEGRADATION", "governance", ("host",), _anything, governance.Degradation),
    EntryKind("DENIED", "governance", ("broker",), _counted, governance.Denied, has_type_in_id=False),
    EntryKind("DENIED", "governance", ("ledger",), _anything, governance.Denied),
    EntryKind(
        "DEAD_LETTER", "governance", ("broker",), _counted, governance.Denied, has_type_in_id=False,
        said="A message that could not be delivered.",
    ),
    EntryKind("TOKEN_CREATED", "governance", ("broker",), _anything, governance.TokenMade),
    EntryKind("KEY_ENROLLED", "governance", ("broker",), _anything, governance.KeyEnrolled),
    EntryKind("KEY_REFUSED", "governance", ("broker",), _counted, governance.KeyRefused, has_type_in_id=False),
    EntryKind("KEY_REVOKED", "governance", ("broker",), _anything, governance.KeyRevoked),
    EntryKind(
        "CONFIG_SNAPSHOT", "governance", ("launcher",), _anything, texts=("the governed files that it was made from",),
        said="A whole configuration that the cluster uses.",
    ),
    EntryKind("OPERATOR_COMMAND", "governance", ("launcher",), _counted, governance.OperatorCommand),
    EntryKind("TAP_BODIES_READ", "governance", ("operator",), _anything, governance.BodiesRead),
    EntryKind("TAP_BODIES_CLOSED", "governance", ("operator",), _anything, governance.BodiesClosed),
    EntryKind("TRANSCRIPT_DELIVERED", "governance", ("http",), _transcript, governance.TranscriptDelivered),
    EntryKind(
        "TURN_IMAGE", "governance", ("http",), _image_of_session, governance.TurnImage, texts=("the image",)
    ),
    EntryKind("HTTP_KEY_CREATED", "governance", ("http",), _http_key, governance.HttpKeyCreated),
    EntryKind("HTTP_KEY_REVOKED", "governance", ("http",), _http_key, governance.HttpKeyRevoked),
    EntryKind("RECOVERED", "governance", ("ledger",), _anything, governance.BatchSetAside),
    EntryKind("WRITE_CONFLICT", "governance", ("ledger",), _anything, governance.WriteConflict),
)  # fmt: skip

EVENT_TYPES = frozenset(row.event_type for row in KINDS)
"""Every type that this system writes; nothing else that a sender claims as a type is a name."""

_CLASSES = {(row.stream, row.event_type): (row.payload, *row.behind) for row in KINDS}
_ROWS = {(row.stream, row.event_type, role): row for row in KINDS for role in row.writers}
_SEARCHED = {(row.stream, row.event_type): row.searched for row in KINDS if row.searched}
SEARCHED_STREAMS = tuple(dict.fromkeys(stream for stream, _ in _SEARCHED))
"""Those with texts that are searched; SESSION stands for every journal."""
SEARCHED_TYPES = tuple(sorted({event_type for _, event_type in _SEARCHED}))


@lru_cache(maxsize=_STREAMS_KEPT)
def is_session_stream(stream: str) -> bool:
    return _SESSION_STREAM.fullmatch(stream) is not None


@lru_cache(maxsize=_STREAMS_KEPT)
def get_stream_kind(stream: str) -> str:
    """Return SESSION for a session's journal, a named stream's own name, and "" for a name that no stream has."""
    if is_session_stream(stream):
        return SESSION
    return stream if stream in STREAMS else ""


def find_kind(role: str, stream: str, event_type: str) -> EntryKind | None:
    """Return the row of such an entry by this role; None where it may write none."""
    return _ROWS.get((get_stream_kind(stream), event_type, role))


def list_searched_bodies(stream: str, event_type: str) -> tuple[SearchedBody, ...]:
    """Return which bodies of such an entry are searched; most have none."""
    return _SEARCHED.get((get_stream_kind(stream), event_type), ())


def read_body(entry: Entry | WriteEntry, number: int = 0) -> tuple[Any, ...] | None:
    """Return the payload of an entry (or another body of it) as its row has it.

    None where it was erased, or is text or an event of a session. Raises ValueError, naming the first field that is not
    as its class has it.
    """
    classes = _CLASSES.get((get_stream_kind(entry.stream), entry.event_type), ())
    cls = classes[number] if number < len(classes) else None
    body = entry.bodies[number] if number < len(entry.bodies) else None
    return None if cls is None or body is None else unpack_payload(cls, body)


def may_write_entry(
    role: str, entry: WriteEntry, sender: str, is_claimed: Callable[[str], bool] = lambda _once: True
) -> bool:
    """Return whether this stamped sender may write this entry: its kind, under its id, under its once key.

    `is_claimed` is asked for the once key that must have been claimed before, if there is one.
    """
    row = _ROWS.get((get_stream_kind(entry.stream), entry.event_type, role))
    if row is None:
        return False
    about = entry.submission_id
    if row.has_type_in_id:
        about = about.removeprefix(f"{entry.event_type}:")
        if about == entry.submission_id:
            return False
    if not row.named(about, entry, sender):
        return False
    if entry.once is not None and (row.once is None or not row.once(about, entry, sender)):
        return False
    return row.rests_on is None or is_claimed(row.rests_on(about, sender))
