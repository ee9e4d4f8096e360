"""A session event as its entry holds it: body 0, one positional MessagePack array; and back, checked. Pure.

    [*earlier events, run, round, step, session epoch, step epoch, at, *the event's own fields in declared order]

An earlier event is an array too, its number in `TOLD_WITH` before the same fields: a step, which nobody waits for, has
no entry of its own where another entry of its session leaves with it.

The entry itself says which session, which kind of event and when, and the payload says none of that again: times are
microseconds after the entry's own, ids are numbers, a text that follows from the entry's id is a number too (0: what
the entry is about; n: its n-th body), in any other ref the session's id stands as `~`, in bytes, and a digest as its
bytes. Nothing is guessed: an array of another length, or a field of another type, is no event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import astuple, replace

from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.ids import (
    OWN_SESSION,
    RunId,
    StepId,
    ToolBatchId,
    TurnId,
    derive_body_ref,
    format_iso_us,
    parse_iso_us,
    split_body_ref,
)
from hobus.bus.messages.ledger import Entry, WriteEntry
from hobus.bus.messages.session import Remembered, TurnResult, describe_form
from hobus.bus.messages.work_order import Fence, Receipt, Segment, WorkOrder, change_segments
from hobus.bus.record import session_facts as events
from hobus.bus.record.entry import HASH_BYTES
from hobus.bus.record.payload import name_packed, read_payload
from hobus.bus.record.payloads.orders import SignalsNamed
from hobus.bus.record.session_facts import RunRequested, SessionEvent, SessionStarted
from hobus.bus.record.text_parts import join, read_parts

_HEAD = ("run", "round", "step", "session_epoch", "step_epoch", "at")
_SHA256 = "sha256:"
TOLD_WITH: tuple[type[events.SessionFact], ...] = (
    events.RunStarted,
    events.LeaseIssued,
    events.StepStarted,
    events.ToolBatchIssued,
    events.ToolReceipt,
)
"""Facts that the next entry of their session tells before its own: they bring no text, and nothing names them."""
_RESPONSE, _REF = TurnResult.__struct_fields__.index("response"), Segment.__struct_fields__.index("ref")


class Recorded(Struct, frozen=True):
    """One journal entry as the fold takes it; a body is None where it was erased."""

    submission_id: str
    event: SessionEvent
    bodies: tuple[bytes | None, ...]
    agent_id: str = ""
    earlier: tuple[SessionEvent, ...] = ()
    """What its entry tells before it, in order."""
    result: TurnResult | None = None
    """What a body was packed of just now; None: it is to be read."""

    @property
    def facts(self) -> list[events.SessionFact]:
        """Return all that the entry tells, in order."""
        return [*[one.event for one in self.earlier], self.event.event]


class _About(Struct, frozen=True):
    """What the entry says, and the correlation fields of its event."""

    session_id: str
    submission_id: str
    at_us: int
    run_id: RunId | None
    session_epoch: int
    step_epoch: int


# --- writing ----------------------------------------------------------------------------------------------------------


def pack_event(event: SessionEvent, submission_id: str, at_us: int, earlier: Sequence[SessionEvent] = ()) -> bytes:
    """Return body 0 of the entry with this id and time. Raises ValueError for an event of several runs or sessions."""
    told = [[TOLD_WITH.index(type(one.event)), *_list_fields(one, submission_id, at_us)] for one in earlier]
    return pack([*told, *_list_fields(event, submission_id, at_us)])


def _list_fields(event: SessionEvent, submission_id: str, at_us: int) -> list[Any]:
    said = event.event
    run_id, turn_id, step_id = event.run_id, event.turn_id, event.step_id
    about = _About(event.session_id, submission_id, at_us, run_id, event.session_epoch, event.step_epoch)
    fields: list[Any] = [
        None if run_id is None else run_id.run_seq,
        None if turn_id is None else turn_id.turn_seq,
        None if step_id is None else step_id.step_seq,
        event.session_epoch,
        event.step_epoch,
        parse_iso_us(said.at) - at_us,
    ]
    fields += [
        value if (value := getattr(said, name)) is None or written is None else written(value, about)
        for name, written, _ in _FIELDS[said.kind]
    ]
    for _ in range(said.ADDED_LATER):
        if fields[-1]:
            break
        fields.pop()
    return fields


def _shorten(text: str, about: _About) -> str | int | bytes:
    """Return a ref or an id, as short as it can be."""
    own, session_id = about.submission_id, about.session_id
    if (
        text.startswith(own)
        and (number := text[len(own) + 1 :]).isdigit()
        and text == derive_body_ref(own, int(number))
    ):
        return int(number)
    return _shorten_by_session(text, session_id)


def _shorten_by_session(text: str, session_id: str) -> str | bytes:
    if session_id not in text or OWN_SESSION in text:
        return text
    return text.replace(session_id, OWN_SESSION).encode()


def _shorten_subject(text: str, about: _About) -> str | int | bytes:
    return 0 if about.submission_id.partition(":")[2] == text else _shorten_by_session(text, about.session_id)


def _shorten_all(texts: list[str], about: _About) -> list[str | int | bytes]:
    return [_shorten(text, about) for text in texts]


def _pack_hash(text: str, _about: _About) -> str | bytes:
    """Return a hexadecimal SHA-256 as its 32 bytes; anything else unchanged."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return text
    return found if len(found) == HASH_BYTES and found.hex() == text else text


def _pack_digest(text: str, about: _About) -> str | bytes:
    """Return a digest, `sha256:<hex>`, as the 32 bytes of its hash; anything else unchanged."""
    found = _pack_hash(text.removeprefix(_SHA256), about) if text.startswith(_SHA256) else text
    return found if type(found) is bytes else text


def _pack_time(text: str, about: _About) -> int:
    return parse_iso_us(text) - about.at_us


def _pack_step(step: StepId, about: _About) -> list[int]:
    """Return round and step; of a run that is not the event's, its number before them."""
    run_id = step.turn_id.run_id
    if run_id is about.run_id or run_id == about.run_id:
        return [step.turn_id.turn_seq, step.step_seq]
    if run_id.session_id != about.session_id:
        raise ValueError(f"step {step} is of another session than the event")
    return [run_id.run_seq, step.turn_id.turn_seq, step.step_seq]


def _pack_batch(batch: ToolBatchId, about: _About) -> list[int]:
    return [*_pack_step(batch.step_id, about), batch.batch_seq]


def _pack_given(results: list[events.GivenResult], about: _About) -> list[Any]:
    return [[one.tool_call_id, _shorten(one.content_ref, about)] for one in results]


def _open_calls(calls: events.OpenCalls, about: _About) -> list[Any]:
    return [_shorten_by_session(calls.wo_id, about.session_id), calls.call_ids]


# In an order and a receipt, which stand in the entry as arrays of their fields, what the entry says already is blank:
# which order, of which session, and the fence where it is the moment's own.


def _pack_fence(fence: Fence, about: _About) -> Fence | None:
    is_own = (fence.run_id, fence.session_epoch, fence.step_epoch) == (
        about.run_id, about.session_epoch, about.step_epoch,
    )  # fmt: skip
    return None if is_own else fence


def _pack_order(order: WorkOrder, about: _About) -> WorkOrder:
    session_id, parent, intent = about.session_id, order.parent_wo_id, order.intent_id
    return change_segments(
        order,
        partial(_pack_segment, session_id),
        wo_id="",
        session_id="",
        wo_type="",
        fence=_pack_fence(order.fence, about),
        planned_at=_pack_time(order.planned_at, about),
        parent_wo_id=parent and _shorten_by_session(parent, session_id),
        intent_id=intent and _shorten_by_session(intent, session_id),
        config_digest=_pack_digest(order.config_digest, about),
    )


def _pack_receipt(receipt: Receipt, about: _About) -> Receipt:
    session_id, result = about.session_id, receipt.output_result
    return replace(
        receipt,
        wo_id="",
        fence=_pack_fence(receipt.fence, about),
        output_result=result and replace(result, text=_pack_segment(session_id, result.text)),
        prompt_received_ids=[_shorten_by_session(one, session_id) for one in receipt.prompt_received_ids],
        completed_at=_pack_time(receipt.completed_at, about),
    )


def _pack_segment(session_id: str, segment: Segment) -> Any:
    """Return the segment's fields, the ref among them short."""
    if segment.ref is None:
        return segment
    fields = [*astuple(segment)]
    fields[_REF] = _shorten_by_session(segment.ref, session_id)
    return fields


def pack_result(result: TurnResult) -> bytes:
    """Return the body that holds an answer, as an array of its fields.

    Its run is a number, and in ids its session stands as `~`.
    """
    session_id, run_id = result.session_id, result.run_id
    ids = [_shorten_by_session(one, session_id) for one in result.exchange_entry_ids]
    run = run_id.run_seq if run_id is not None and run_id.session_id == session_id else run_id
    return pack(replace(result, run_id=run, exchange_entry_ids=ids))


# --- reading ----------------------------------------------------------------------------------------------------------


def find_start_id(session_id: str) -> str:
    """Return the submission id of a session's SESSION_START, where its first owner began it."""
    return f"SESSION_START:{session_id}/1.1"


def read_principal(entry: Entry | None) -> str:
    """Return whose session this SESSION_START began; empty where it is none, or says nothing any more."""
    found = read_recorded(entry)
    return found.event.event.principal if found is not None and isinstance(found.event.event, SessionStarted) else ""


def read_recorded(entry: Entry | WriteEntry | None) -> Recorded | None:
    """Return the event behind an entry; None without one, or where it was erased or is of an unknown version."""
    if entry is None or not entry.bodies or entry.bodies[0] is None:
        return None
    try:
        *earlier, event = read_events(entry)
    except ValueError:
        return None
    return Recorded(entry.submission_id, event, tuple(entry.bodies), entry.provenance.agent_id, tuple(earlier))


def read_event(entry: Entry | WriteEntry | None) -> SessionEvent:
    """Return the event that an entry is named after. Raises ValueError as `read_events` does."""
    return read_events(entry)[-1]


def read_events(entry: Entry | WriteEntry | None) -> list[SessionEvent]:
    """Return all events of an entry, in order; the last one it is named after.

    Raises ValueError, naming what is not as it should be; also where there is none.
    """
    payload = entry.bodies[0] if entry is not None and entry.bodies else None
    if entry is None or payload is None:
        raise ValueError("there is no entry, or its event was erased")
    kind = _CLASSES.get(entry.event_type)
    if kind is None:
        raise ValueError(f"event_type: {entry.event_type} is not an event of a session")
    fields = unpack(payload)
    if type(fields) is not list:
        raise ValueError("not an array")
    told = 0
    while told < len(fields) and type(fields[told]) is list:
        told += 1
    return [*[_read_earlier(one, entry) for one in fields[:told]], _read_event_fields(kind, fields[told:], entry)]


def _read_earlier(fields: list[Any], entry: Entry | WriteEntry) -> SessionEvent:
    number = fields[0] if fields else None
    if type(number) is not int or not 0 <= number < len(TOLD_WITH):
        raise ValueError("earlier: not the number of an event that another one's entry tells")
    return _read_event_fields(TOLD_WITH[number], fields[1:], entry)


def _read_event_fields(kind: type[events.SessionFact], fields: list[Any], entry: Entry | WriteEntry) -> SessionEvent:
    written = _FIELDS[kind.kind]
    most = len(_HEAD) + len(written)
    if not most - kind.ADDED_LATER <= len(fields) <= most:
        raise ValueError(f"not an array of {most} fields")
    session_id = entry.stream.partition("/")[2]
    where = _locate(session_id, fields)
    about = _About(session_id, entry.submission_id, entry.at_us, where["run_id"], fields[3], fields[4])
    values: dict[str, Any] = {"at": _unpack_time(fields[5], about)}
    for (name, _, read), value in zip(written, fields[len(_HEAD) :], strict=False):
        try:
            values[name] = value if read is None or value is None else read(value, about)
        except (TypeError, KeyError, AttributeError, ValueError) as fault:
            raise ValueError(f"{name}: {fault}") from None
    _fill(kind, values, about)
    said = convert(values, kind)
    return SessionEvent(session_id=session_id, session_epoch=fields[3], step_epoch=fields[4], event=said, **where)


def read_quoted_reply(entry: Entry | WriteEntry) -> tuple[str, str]:
    """Return (where the reply stands, the reply as the answer quotes it) of a RunCompleted.

    Both blank if it quotes none.

    For whoever reads many of these and nothing else of them: only what is looked at is checked. Raises ValueError.
    """
    payload, answer = entry.bodies[0], entry.bodies[1]
    if payload is None or answer is None:
        return "", ""
    written = _FIELDS[events.RunCompleted.kind]
    fields, result = unpack(payload), unpack(answer)
    if type(fields) is not list or type(result) is not list or len(result) <= _RESPONSE:
        raise ValueError("not a RunCompleted and its answer")
    while fields and type(fields[0]) is list:
        fields.pop(0)
    if not 0 <= len(_HEAD) + len(written) - len(fields) <= events.RunCompleted.ADDED_LATER:
        raise ValueError("not a RunCompleted and its answer")
    about = _About(entry.stream.partition("/")[2], entry.submission_id, entry.at_us, None, 0, 0)
    value = fields[len(_HEAD) + [name for name, _, _ in written].index("reply_ref")]
    response = result[_RESPONSE]
    if type(response) is not str:
        raise ValueError("response: not a text")
    return _lengthen(value, about), response


def unpack_result(body: bytes) -> TurnResult:
    """Return the answer behind `pack_result`. Raises ValueError, naming what is not as it should be."""
    form = name_packed(TurnResult, unpack(body))
    if type(form) is not dict:
        raise ValueError(f"not an answer: a {form}")
    session_id, run_seq = form["session_id"], form["run_id"]
    if type(session_id) is str:
        if type(run_seq) is int:
            form["run_id"] = {"session_id": session_id, "run_seq": run_seq}
        ids = _require_list(form["exchange_entry_ids"])
        form["exchange_entry_ids"] = [_with_session(one, session_id) for one in ids]
    return TurnResult.model_validate(form)


def answer_in(body: bytes, due: Entry | None) -> TurnResult:
    """Return a recorded answer with what memory made of it; a verdict names nothing of it. Raises ValueError."""
    result = unpack_result(body)
    if result.outcome != "success":
        return result
    candidates, remembered = read_learned(due)
    return result.model_copy(
        update={"consolidation_candidates": candidates, "remembered": remembered or result.remembered}
    )


def read_learned(due: Entry | None) -> tuple[list[str], Remembered | None]:
    """Return the candidates that this CONSOLIDATION_DUE names, and what was stated; empty without it or its payload."""
    named = None if due is None else read_payload(SignalsNamed, due)
    if due is None or named is None:
        return [], None
    candidates = list(named.signal_ids)
    if named.remembered_state == "":
        return candidates, None
    said = b"" if len(due.bodies) < 2 else due.bodies[1] or b""  # noqa: PLR2004 - payload and statement
    return candidates, Remembered(
        statement=said.decode(), artifact_id=named.remembered_id, state=named.remembered_state
    )


def find_own_text(entry: Recorded, ref: str, known: Mapping[str, str] | None = None) -> str | None:
    """Return the text behind a ref into this very entry; None if the ref leads elsewhere, or the text was erased.

    One that is made of parts is put together of the texts that are `known` by their refs, if all of them are.
    """
    try:
        submission_id, number = split_body_ref(ref)
    except ValueError:
        return None
    if submission_id != entry.submission_id or number >= len(entry.bodies):
        return None
    body = entry.bodies[number]
    if body is None or (parts := read_parts(body)) is None:
        return None if body is None else body.decode(errors="replace")
    return join(parts, known) if known and all(of is None or of in known for of, _ in parts) else None


def find_body(entry: Entry | WriteEntry, ref: str) -> bytes:
    """Return the bytes behind a ref into this entry. Raises ValueError where they were erased."""
    number = split_body_ref(ref)[1]
    body = entry.bodies[number] if number < len(entry.bodies) else None
    if body is None:
        raise ValueError(f"body {number} of {entry.submission_id} was erased")
    return body


def read_agent(start: Entry | None) -> str:
    """Return the agent of the session that this SESSION_START begins; empty without one that reads."""
    begun = read_recorded(start)
    return begun.event.event.agent_id if begun and isinstance(begun.event.event, events.SessionStarted) else ""


def read_form(asked: Entry | None) -> str | None:
    """Return what `describe_form` says of the settings in a RunRequested's entry; None where there is none to read."""
    if asked is None or not asked.bodies or asked.bodies[0] is None:
        return None
    event = read_event(asked).event
    return describe_form(event.run_overrides) if isinstance(event, RunRequested) else None


def _locate(session_id: str, fields: list[Any]) -> dict[str, Any]:
    run_id = turn_id = step_id = None
    for name, number, least in zip(_HEAD, fields, (1, 1, 1, 0, 0), strict=False):
        if (type(number) is not int or number < least) and (number is not None or not least):
            raise ValueError(f"{name}: not a number from {least} on")
    if fields[0] is not None:
        run_id = RunId(session_id=session_id, run_seq=fields[0])
    if run_id is not None and fields[1] is not None:
        turn_id = TurnId(run_id=run_id, turn_seq=fields[1])
    if turn_id is not None and fields[2] is not None:
        step_id = StepId(turn_id=turn_id, step_seq=fields[2])
    if (turn_id, step_id) != (None, None) and None in (run_id, turn_id):
        raise ValueError("round: of no run")
    return {"run_id": run_id, "turn_id": turn_id, "step_id": step_id}


def _lengthen(value: Any, about: _About) -> str:
    if type(value) is int and value > 0:
        return derive_body_ref(about.submission_id, value)
    return _with_session(value, about.session_id)


def _with_session(value: Any, session_id: str) -> str:
    if type(value) is bytes:
        return value.decode().replace(OWN_SESSION, session_id)
    if type(value) is not str:
        raise ValueError("not an id")
    return value


def _lengthen_subject(value: Any, about: _About) -> str:
    return (
        about.submission_id.partition(":")[2]
        if type(value) is int and value == 0
        else _with_session(value, about.session_id)
    )


def _lengthen_all(values: Any, about: _About) -> list[str]:
    return [_lengthen(value, about) for value in _require_list(values)]


def _unpack_hash(value: Any, _about: _About) -> str:
    if type(value) is bytes and len(value) == HASH_BYTES:
        return value.hex()
    if type(value) is not str:
        raise ValueError("not a hash")
    return value


def _unpack_digest(value: Any, about: _About) -> str:
    return _SHA256 + _unpack_hash(value, about) if type(value) is bytes else _unpack_hash(value, about)


def _unpack_time(value: Any, about: _About) -> str:
    if type(value) is not int:
        raise ValueError("at: not a number of microseconds")
    return format_iso_us(about.at_us + value)


def _unpack_step(value: Any, about: _About) -> StepId:
    *run, turn_seq, step_seq = _require_list(value)
    run_id = RunId(session_id=about.session_id, run_seq=run[0]) if run else about.run_id
    if len(run) > 1 or run_id is None:
        raise ValueError("not the numbers of a step")
    return StepId(turn_id=TurnId(run_id=run_id, turn_seq=turn_seq), step_seq=step_seq)


def _unpack_batch(value: Any, about: _About) -> ToolBatchId:
    *step, batch_seq = _require_list(value)
    return ToolBatchId(step_id=_unpack_step(step, about), batch_seq=batch_seq)


def _require_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("not a list")
    return value


def _unpack_given(value: Any, about: _About) -> list[dict[str, Any]]:
    return [{"tool_call_id": call, "content_ref": _lengthen(ref, about)} for call, ref in _require_list(value)]


def _open_calls_of(value: Any, about: _About) -> dict[str, Any]:
    wo_id, call_ids = _require_list(value)
    return {"wo_id": _with_session(wo_id, about.session_id), "call_ids": call_ids}


def _unpack_record(cls: type[WorkOrder | Receipt], value: Any, about: _About) -> dict[str, Any]:
    form = name_packed(cls, value)
    if type(form) is not dict:
        raise ValueError(f"a {form}")
    if form["fence"] is None:
        form["fence"] = {"run_id": about.run_id, "session_epoch": about.session_epoch, "step_epoch": about.step_epoch}
    return _lengthen_form(form, about)


def _lengthen_form(form: dict[str, Any], about: _About) -> dict[str, Any]:
    return {
        name: value if value is None or name not in _PARTS else _PARTS[name](value, about)
        for name, value in form.items()
    }


def _lengthen_segment(segment: dict[str, Any], about: _About) -> dict[str, Any]:
    return segment if segment["ref"] is None else segment | {"ref": _with_session(segment["ref"], about.session_id)}


def _lengthen_segments(segments: Any, about: _About) -> list[dict[str, Any]]:
    return [_lengthen_segment(segment, about) for segment in _require_list(segments)]


_PARTS: dict[str, Callable[[Any, _About], Any]] = {
    **dict.fromkeys(("planned_at", "completed_at"), _unpack_time),
    **dict.fromkeys(("parent_wo_id", "intent_id"), lambda text, about: _with_session(text, about.session_id)),
    **dict.fromkeys(("input_context", "results", "said"), _lengthen_segments),
    "config_digest": _unpack_digest,
    "prompt_received_ids": lambda texts, about: [_with_session(one, about.session_id) for one in _require_list(texts)],
    "exchanges": lambda forms, about: [_lengthen_form(one, about) for one in _require_list(forms)],
    "output_result": _lengthen_form,
    "text": _lengthen_segment,
}
"""By the name of a field of an order, of an exchange in it, of a receipt, or of its result."""


def _fill(kind: type[Any], values: dict[str, Any], about: _About) -> None:
    """Restore in an order or a receipt what the entry says of it; an event without one is refused by its own form."""
    if kind is events.OrderDispatched and values["order"] is not None:
        known = {"wo_id": values["wo_id"], "session_id": about.session_id, "wo_type": values["wo_type"]}
        values["order"] = values["order"] | known
    elif kind is events.OrderEnded and values["receipt"] is not None:
        values["receipt"] = values["receipt"] | {"wo_id": values["wo_id"]}


# --- which field is written how ---------------------------------------------------------------------------------------

_Turned = Callable[[Any, _About], Any]
_AS_IS: tuple[_Turned | None, _Turned | None] = (None, None)

_WAYS: dict[str, tuple[_Turned | None, _Turned | None]] = {
    "wo_id": (_shorten_subject, _lengthen_subject),
    "step_id": (_pack_step, _unpack_step),
    "tool_batch_id": (_pack_batch, _unpack_batch),
    **dict.fromkeys(("steers", "steers_unobserved", "active_intent_ids"), (_shorten_all, _lengthen_all)),
    "results": (_pack_given, _unpack_given),
    "open_calls": (_open_calls, _open_calls_of),
    "input_digest": (_pack_hash, _unpack_hash),
    "config_digest": (_pack_digest, _unpack_digest),
    **dict.fromkeys(("files", "callers"), (lambda records, _about: [one.model_dump() for one in records], None)),
    "command": (lambda command, _about: command.model_dump(), None),
    "order": (_pack_order, partial(_unpack_record, WorkOrder)),
    "receipt": (_pack_receipt, partial(_unpack_record, Receipt)),
    **dict.fromkeys(
        ("session_config", "run_overrides", "model", "lease"),
        (lambda record, _about: record.model_dump(exclude_defaults=True), None),
    ),
    **dict.fromkeys(("deadline_at", "issued_at", "expires_at"), (_pack_time, _unpack_time)),
    **dict.fromkeys(
        (
            "after", "lease_id", "continues",
            "input_ref", "reply_ref", "result_ref", "detail_ref", "record_ref", "objective_ref",
            "intent_id", "parent_intent_id", "superseded_by_intent_id", "chosen",
        ),
        (_shorten, _lengthen),
    ),
}  # fmt: skip
"""How fields of these names are written and read, in whatever event; every other one is a text, a number or a flag."""

_CLASSES: dict[str, type[events.SessionFact]] = {cls.entry_name: cls for cls in events.SESSION_FACTS}
_FIELDS: dict[str, tuple[tuple[str, _Turned | None, _Turned | None], ...]] = {
    cls.kind: tuple((name, *_WAYS.get(name, _AS_IS)) for name in cls.__struct_fields__ if name != "at")
    for cls in _CLASSES.values()
}
