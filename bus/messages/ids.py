"""Every id of the system and how it is derived.

Ids are counted or derived, never drawn; the exceptions (`new_id` of the bus port) are the id of an explicitly
started session and what a client makes at its own edge (input ids, command ids).
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, NamedTuple
from uuid import UUID, uuid5

from msgspec import Meta

from hobus.bus.messages.base import Record, pack

_SESSION_NAMESPACE = UUID("6a3f0f5c-3c3b-5e0e-9a59-7b0e4d1c6f21")

SessionId = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z",
        description="full UUID of the session",
    ),
]
"""A UUID in lower-case canonical text; the full value in every key, id and record."""

LOCAL = "local"
"""The principal of whoever uses this machine's own clients: its operating system user, however many terminals."""
KEY_PREFIX = "key/"
PRINCIPAL_PATTERN = r"(local|key/[a-z0-9][a-z0-9_-]{0,39}(/[a-z0-9][a-z0-9_-]{0,39})?)"
Principal = Annotated[
    str,
    Meta(pattern=rf"^{PRINCIPAL_PATTERN}\Z", description="whose it is"),
]
SignalId = Annotated[
    str, Meta(min_length=1, max_length=160, pattern=r"^[a-z_]+:[!-~]+\Z", description="`<kind>:<label>`")
]
DEGRADED = "PRC-DEGRADED-001"
"""The contract of the one call that a session's host makes where nobody else answers, whatever the agent."""
_DIGEST_CHARS = 12
"""Of the digest in the name of a held call: a person copies it, and no model finds other arguments with the same."""

OWN_SESSION = "~"
"""In what is recorded of a session, in place of its id; it stands in no id and no instance."""
ID_MAX_CHARS = 400
"""Longest message id, routing key or trace, and id of the record. The format's, not a setting."""

InputId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._:@-]+\Z",
        description="idempotency key of a turn, made by the client",
    ),
]

PersonName = Annotated[str, Meta(max_length=40, description="the person who gave it, unchecked; empty: the sender")]
CommandId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9._:@-]+\Z",
        description="idempotency key of a command, made by its sender",
    ),
]
"""The idempotency key of a turn, made at the client's edge."""

Sequence = Annotated[int, Meta(ge=1)]


class RunId(Record):
    """One execution attempt inside a session; `run_seq` counts from 1 and never resets."""

    session_id: SessionId
    run_seq: Annotated[Sequence, Meta(description="number of the run in its session, from 1; 0: none")]

    def __str__(self) -> str:
        return f"{self.session_id}-{self.run_seq}"


class TurnId(Record):
    """One LLM request and response (a round); `turn_seq` counts from 1 in each run."""

    run_id: RunId
    turn_seq: Annotated[Sequence, Meta(description="counts from 1 in its run")]

    def __str__(self) -> str:
        run_id = self.run_id
        return f"{run_id.session_id}-{run_id.run_seq}.{self.turn_seq}"


class StepId(Record):
    """One action boundary; `step_seq` counts from 1 in each round."""

    turn_id: TurnId
    step_seq: Annotated[Sequence, Meta(description="counts from 1 in its round")]

    def __str__(self) -> str:
        turn_id = self.turn_id  # three ids in one go: no other text is made as often
        run_id = turn_id.run_id
        return f"{run_id.session_id}-{run_id.run_seq}.{turn_id.turn_seq}.{self.step_seq}"


class ToolBatchId(Record):
    """One parallel fan-out of tool calls; `batch_seq` counts from 1 in each step."""

    step_id: StepId
    batch_seq: Annotated[Sequence, Meta(description="counts from 1 in its step")]

    def __str__(self) -> str:
        return f"{self.step_id}/{self.batch_seq}"


def derive_session_id(principal: str, input_id: str) -> str:
    """Return the session of a first turn without one: UUIDv5, so that a retry finds the same session."""
    return str(uuid5(_SESSION_NAMESPACE, f"{principal}\n{input_id}"))


def derive_called_session(wo_id: str) -> str:
    """Return the session of the agent that this order calls: the same however often the call is made."""
    return derive_session_id("agent", wo_id)


def shorten_session(session_id: str) -> str:
    """Return `SES-<8 hex>`, the form that people read; accepted back as a prefix."""
    return f"SES-{session_id[:8]}"


def work_order_id(step: StepId, call: str = "") -> str:
    """Return `WO-<session>-<run>.<round>.<step>[.<call>]`: the idempotency key of a work order everywhere."""
    return f"WO-{step}.{call}" if call else f"WO-{step}"


def call_in(wo_id: str, step: StepId) -> str:
    """Return the call that an order of this step is for; empty: it is for none, or the order is of another step."""
    own = f"WO-{step}."
    return wo_id[len(own) :] if wo_id.startswith(own) else ""


_CALL_DOTS = 3
BESIDE_CALL_ID = "000"
"""Of a classification that is asked for beside its answer, in the answer's own step; calls of tools count from 001."""


def is_call(wo_id: str) -> bool:
    """Whether the order is a call of a tool."""
    return wo_id.count(".") == _CALL_DOTS and not is_beside(wo_id)


def is_beside(wo_id: str) -> bool:
    """Return whether nothing of its run waits for this order: neither a step nor the answer."""
    return wo_id.endswith(f".{BESIDE_CALL_ID}")


def derive_beside_order_id(run_id: RunId) -> str:
    """Return the order id of the classification that runs beside the answer: in the first step of its run."""
    return work_order_id(StepId(turn_id=TurnId(run_id=run_id, turn_seq=1), step_seq=1), BESIDE_CALL_ID)


def derive_degraded_order_id(input_id: str) -> str:
    return f"WO-DEGRADED-{input_id}"


def derive_degraded_call_key(session_id: str, input_id: str) -> str:
    """Return the idempotency key of the host's last call; its number stands for the session, since input ids repeat."""
    return call_key(derive_degraded_order_id(input_id), 1 + int(_hash_parts(session_id)[:8], 16))


def derive_consolidation_id(agent_id: str, principal: str | None, signal_id: str, window_key: int, number: int) -> str:
    """Return `WO-CONS-<hash(agent, principal, signal, window key)>-<n>`: the n-th try of a signal in a window."""
    return f"WO-CONS-{_hash_parts(agent_id, principal, signal_id, window_key)}-{number}"


def get_order_of_call(key: str) -> str:
    """Return the work order of a call's key; "" for what is none."""
    return key.rpartition("#")[0]


def call_key(wo_id: str, number: int) -> str:
    """Return `<wo_id>#<call number>`: the idempotency key of one provider call (counting from 1)."""
    return f"{wo_id}#{number}"


def call_id(position: int) -> str:
    """Return a tool call's id: its zero-padded position (from 1) in the answer, so that text order is call order."""
    return f"{position:03d}"


def derive_held_id(call: str, tool_id: str, arguments: dict[str, Any], place: str) -> str:
    """Return `<call>-<digest>`: names a call that waits for an approval with what it is to do.

    `place`: `<run>.<round>`.

    An approval that was meant for other arguments, another tool, or the same call of another round fits no call.
    """
    return f"{call}-{sha256(pack([tool_id, arguments, place])).hexdigest()[:_DIGEST_CHARS]}"


def get_position(held: str) -> str:
    """Return the call id in the name of a held call."""
    return held.partition("-")[0]


def derive_caller_call_id(run: RunId, turn_seq: int, call: str) -> str:
    """Return `call_<8 hex of the session>_<run>_<round>_<call>`: a call that the caller of a turn runs itself."""
    return f"call_{run.session_id[:8]}_{run.run_seq}_{turn_seq}_{call}"


def derive_intent_id(session_id: str, number: int) -> str:
    """Return `INT-<session>-<nnn>`: the n-th intent of a session, counting from 1."""
    return f"INT-{session_id}-{number:03d}"


def derive_intent_entry_id(event_type: str, intent: str) -> str:
    """Return `<event type>:<session>/<nnn>`: an intent is declared, superseded and closed once at most."""
    session_id, _, number = intent.removeprefix("INT-").rpartition("-")
    return derive_entry_id(event_type, f"{session_id}/{number}")


def derive_signal_event_id(session_id: str, run_seq: int, signal_id: str) -> str:
    """Return `EVT-<session>-<run>-<signal>`: one event per signal and run, however often it is sent."""
    return f"EVT-{session_id}-{run_seq}-{signal_id}"


_END_MARKS = " .!…。！"  # noqa: RUF001 - as they are typed
"""Not a question mark: with it a text says something else."""


def normalise_words(text: str) -> str:
    """Return a text's words without case, white space and closing mark: texts with the same words say the same."""
    return " ".join(text.casefold().split()).rstrip(_END_MARKS)


def derive_statement_id(subject: str) -> str:
    """Return `explicit:<hash>` of what a statement is about, its words if nothing else is known; no id shows them."""
    return f"explicit:{_hash_parts(subject)}"


def compute_window_key(as_of: str, window_hours: float) -> int:
    """Return `floor(unix hours of as_of / window_hours)`, in whole microseconds so that no rounding moves a border."""
    since = datetime.fromisoformat(as_of) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=round(window_hours * 3_600_000_000))


def derive_artifact_id(
    principal: str | None,
    source_signal_ids: Iterable[str],
    window_key: int | str,
    *,
    model: str,
    prompt_pack_version: str,
) -> str:
    """Return `ART-<hash>` of principal (None: all), sorted sources, window key (`explicit`: stated), model, pack."""
    return f"ART-{_hash_parts(principal, sorted(source_signal_ids), window_key, model, prompt_pack_version)}"


def derive_overlay_id(agent_id: str, artifact: str) -> str:
    """Return `OVL-<hash>`: an agent's artifact has one overlay, however often it is logged."""
    return f"OVL-{_hash_parts(agent_id, artifact)}"


def _hash_parts(*parts: Any) -> str:
    """Return a hash of the parts. 80 bits are enough: an agent's ids are thousands, not billions."""
    return sha256(pack(list(parts))).hexdigest()[:20]


def derive_body_ref(submission_id: str, number: int) -> str:
    """Return `<submission id>/<n>`: the n-th body (from 0) of the entry that brought it."""
    return f"{submission_id}/{number}"


def derive_image_id(session_id: str, digest: str) -> str:
    """Return the submission id of an image that a message of this session brought, by its SHA-256."""
    return derive_entry_id("TURN_IMAGE", f"{session_id}/{digest}")


def split_body_ref(ref: str) -> tuple[str, int]:
    """Return the submission id and body number of a ref. Raises ValueError for anything else."""
    submission_id, slash, number = ref.rpartition("/")
    if not slash or not submission_id or not number.isdigit():
        raise ValueError(f"not a body ref: {ref[:80]!r}")
    return submission_id, int(number)


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_BY_RUN = re.compile(rf"(?:^|[-:/])({_UUID})(?:-(\d+)(?=[.#/:]|$))?")
_BY_INPUT = re.compile(rf"(?:^|turn:)({_UUID})/([A-Za-z0-9._:@-]+)(?:/|$)")


class TurnRef(NamedTuple):
    """What an envelope's ids say about the turn that it belongs to; empty and 0 where they do not."""

    session_id: str = ""
    run_seq: int = 0
    input_id: str = ""

    @property
    def run(self) -> str:
        """Return `<session>-<run>`; empty if no run is named."""
        return f"{self.session_id}-{self.run_seq}" if self.run_seq else ""


NO_TURN = TurnRef()


def derive_turn_trace(session_id: str, input_id: str) -> str:
    """Return `<session>/<input>`: the trace of a turn's first frame, whose own ids name neither."""
    return f"{session_id}/{input_id}"


def derive_entry_id(event_type: str, about: str) -> str:
    """Return `<event type>:<what it is about>`: the submission id of an entry."""
    return f"{event_type}:{about}"


def derive_dispatched_id(wo_id: str) -> str:
    """Return the submission id of WO_DISPATCHED: the order as it was given out."""
    return derive_entry_id("WO_DISPATCHED", wo_id)


def derive_ended_id(wo_id: str) -> str:
    """Return the submission id of OrderEnded, on its session's stream."""
    return derive_entry_id("OrderEnded", wo_id)


def derive_completed_id(run: object) -> str:
    return derive_entry_id("RunCompleted", str(run))


def derive_snapshot_id(digest: str) -> str:
    return derive_entry_id("CONFIG_SNAPSHOT", digest)


def derive_writer_id(about: str, instance: str) -> str:
    """Return `<what it is about>/<writer>`: of entries that several writers may make about one thing, or one counts."""
    return f"{about}/{instance}"


def start_key(wo_id: str, number: int | None = None) -> str:
    """Return the once key for which TOOL_STARTED of an order compete; `number`: the try of a repeatable tool."""
    return f"start:{wo_id}" if number is None else f"start:{wo_id}/{number}"


def end_key(wo_id: str) -> str:
    """Return the once key for which all ends of an order compete."""
    return f"end:{wo_id}"


def derive_sent_key(attempt: str) -> str:
    """Return the once key of PROMPT_SENT; `attempt`: `<call key>/<number>`."""
    return f"sent:{attempt}"


def derive_got_key(attempt: str) -> str:
    """Return the once key for which the two possible ends of an attempt compete."""
    return f"got:{attempt}"


def derive_requested_id(session_id: str, input_id: str) -> str:
    """Return the submission id of RunRequested, by which HO2 admits an input."""
    return derive_entry_id("RunRequested", f"{session_id}/{input_id}")


def derive_turn_key(session_id: str, input_id: str) -> str:
    """Return the once key for which everything competes that can be the one answer to an input."""
    return f"turn:{session_id}/{input_id}"


def derive_session_key(session_id: str) -> str:
    """Return the once key of SESSION_START, by which whoever knows a session's id finds its agent."""
    return f"session:{session_id}"


def derive_candidates_key(session_id: str, input_id: str) -> str:
    """Return the once key of CONSOLIDATION_DUE: what the answer names, the same for everybody who answers the input."""
    return f"candidates:{session_id}/{input_id}"


def derive_delivered_key(session_id: str, input_id: str) -> str:
    """Return the once key of TurnDegraded{delivered: true}, what a client was told without the record; it wins."""
    return f"delivered:{session_id}/{input_id}"


def find_turn(ids: Iterable[str]) -> TurnRef:
    """Return the turn that these ids (trace, message, correlation and causation id, routing key) name together.

    The session is the first one named; run and input are taken from ids of that session alone.
    """
    session, run_seq, input_id = "", 0, ""
    for text in ids:
        if len(text) < _LEAST_CHARS:
            continue
        by_input = _BY_INPUT.search(text)
        found = by_input or _BY_RUN.search(text)
        if found is None or (session and found[1] != session):
            continue
        session = found[1]
        if by_input is not None:
            input_id = input_id or by_input[2]
        elif found[2]:
            run_seq = run_seq or int(found[2])
    return TurnRef(session, run_seq, input_id) if session else NO_TURN


def trace_from(message_id: str) -> str:
    """Return the trace in a derived id: `<session>/<input>`, `<session>-<run>` or the session; else empty."""
    turn = find_turn([message_id])
    return derive_turn_trace(turn.session_id, turn.input_id) if turn.input_id else turn.run or turn.session_id


_LEAST_CHARS = len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")


def format_iso(now_s: float) -> str:
    """Return a wall-clock time (seconds since 1970, UTC) as `Timestamp`."""
    return format_iso_us(round(now_s * 1_000_000))


def format_iso_us(at_us: int) -> str:
    """Return a time in microseconds since 1970, UTC, as `Timestamp`. Raises ValueError for one of no year."""
    try:
        return f"{format_second(at_us // 1_000_000)}.{at_us % 1_000_000:06d}Z"
    except (OverflowError, OSError):
        raise ValueError(f"not a time: {at_us} microseconds since 1970") from None


@lru_cache(maxsize=64)
def parse_iso_us(text: str) -> int:
    """Return microseconds since 1970 of a `Timestamp`. Raises ValueError for a day or an hour that there is not."""
    return parse_second(text[:19]) * 1_000_000 + int(text[20:26])


@lru_cache(maxsize=8)
def format_second(second: int) -> str:
    """Return a whole second in words; cached, as a turn names the same one some twenty times."""
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat(timespec="seconds")


@lru_cache(maxsize=64)
def parse_second(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def parse_iso(text: str) -> float:
    """Return seconds since 1970 of a `Timestamp`."""
    return datetime.fromisoformat(text).timestamp()


_FOLLOW_UP = "followup:"


def follow_up_input(command_id: str) -> str:
    return f"{_FOLLOW_UP}{command_id}"


def is_follow_up(input_id: str) -> bool:
    return input_id.startswith(_FOLLOW_UP)


def derive_lease_id(run_id: RunId, number: int) -> str:
    return f"LEASE-{run_id}-{number}"
