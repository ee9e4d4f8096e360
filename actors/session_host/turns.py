"""One user message at the host, and the results that it may have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hobus.actors.session_host import limits
from hobus.bus.dispatch import Call
from hobus.bus.errors import (
    GATEWAY_REFUSALS,
    OUT_OF_TIME_CODES,
    STEPS_KEPT,
    VERDICT_CODES,
    RuntimeFault,
    put_plainly,
)
from hobus.bus.messages.base import Message
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import derive_session_id, derive_turn_trace
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry
from hobus.bus.messages.session import (
    Consolidate,
    ProcessTurn,
    StartSession,
    TurnResult,
    describe_form,
    keep_lasting,
    render_words,
)
from hobus.bus.record.ends import End, end_in
from hobus.bus.record.journal import answer_in, find_body, read_agent, read_event, read_form
from hobus.bus.spent import read_calls, read_spent, with_call, with_calls
from hobus.bus.text import is_blank
from hobus.config.sections.processes import HostConfig

_REFUSED = frozenset({"not_found", "busy", "PROVIDER_NOT_FOUND", "MODEL_NOT_FOUND"})
"""Of a session, for want of room, or of a model that was named: another one's answer would hide that."""
DEGRADED = "degraded"
"""The code of every degraded result; beside it stands the reason."""


class Turn(Struct, frozen=True):
    """What the host knows about one message; `started` and `deadline` on the monotonic clock, which `now` reads."""

    message: ProcessTurn
    session_id: str
    input_id: str
    text: str
    form: str  # of the answer, as `describe_form` tells it
    agent_id: str
    about: Provenance  # what every entry about it says of its agent and its session
    start: StartSession  # what begins its session: as the door names it, or with what of its wishes lasts longer
    is_first: bool
    started: float
    deadline: float
    reserves: float  # share of the configured reserves that this turn's whole time allows, 0..1
    request_id: str
    client: str  # the instance that asked
    trace: str
    stream: Callable[[Message], None]  # to whoever asked for pieces of the answer
    now: Callable[[], float]

    @property
    def elapsed_ms(self) -> int:
        return max(0, round((self.now() - self.started) * 1000))


def make_turn(
    message: ProcessTurn, call: Call, *, now: Callable[[], float], config: HostConfig, agents: Mapping[str, Provenance]
) -> Turn:
    """Return the turn of a request; a first turn's session follows from the caller's role and its input id.

    Degrading may take `limits.RESERVE_SHARE_MAX` of a turn's whole time at most, so that a short deadline still leaves
    the supervisor its chance.
    """
    return Turn(
        message=message,
        session_id=(session_id := message.session_id or derive_session_id(call.role, message.input_id)),
        input_id=message.input_id,
        text=render_words(message.text, message.results),
        form=describe_form(message.run_overrides),
        agent_id=(agent_id := (message.agent_id or config.agent_id).upper()),  # as every id of an agent is
        about=agents.get(agent_id, Provenance(agent_id=agent_id))._replace(session_id=session_id),
        start=start_for(
            message.start or StartSession(session_config=keep_lasting(message.run_overrides)),
            session_id,
            agent_id,
            call,
        ),
        is_first=message.session_id is None or message.start is not None,
        started=(started := now()),
        deadline=(until := call.deadline if call.deadline is not None else started + config.turn_timeout_ms / 1000),
        reserves=min(1.0, limits.RESERVE_SHARE_MAX * max(0.0, until - started) * 1000 / config.degrade_reserve_ms),
        request_id=call.message_id,
        client=call.sender,
        trace=call.trace or derive_turn_trace(session_id, message.input_id),
        stream=call.stream if message.stream else lambda _: None,
        now=now,
    )


def start_for(start: StartSession, session_id: str, agent_id: str, call: Call) -> StartSession:
    """Return what the supervisor is asked for; only the door has seen a key, and so states a principal."""
    return StartSession(
        session_id=session_id,
        agent_id=agent_id.upper(),
        session_config=start.session_config,
        principal=start.principal if call.role == "http" else "",
    )


def find_refusal(text: str, max_bytes: int) -> tuple[str, str] | None:
    """Return code and sentence for a text that is no turn; None for one that is."""
    if (size := len(text.encode())) > max_bytes:
        return "too_large", f"The message has {size} bytes; at most {max_bytes} are taken (host.prompt_max_bytes)."
    if is_blank(text):
        return "invalid_input", "The message is blank; a turn needs text."
    return None


def is_verdict(fault: RuntimeFault) -> bool:
    """Return whether nothing degrades: somebody refused on purpose, or the turn goes on if it is asked for again."""
    return fault.code in VERDICT_CODES | GATEWAY_REFUSALS | _REFUSED or STEPS_KEPT in fault.facts


def make_consolidation(turn: Turn, result: TurnResult) -> Consolidate | None:
    """Return what HO2 is told after the reply; None if the turn named no signal that crossed its gate."""
    return (
        Consolidate(
            session_id=result.session_id,
            run_id=result.run_id,
            agent_id=turn.agent_id,
            signal_ids=result.consolidation_candidates,
        )
        if result.consolidation_candidates and result.run_id
        else None
    )


def make_error(
    turn: Turn,
    code: str,
    sentence: str,
    *,
    after: RuntimeFault | None = None,
    response: PromptResponse | None = None,
) -> TurnResult:
    """Return an honest no: a code, and one sentence for the user, after HO2's fault and a model's response, if any."""
    return TurnResult(
        response=with_calls(sentence, after, " "),
        outcome="error",
        session_id=turn.session_id,
        run_id=None,
        input_id=turn.input_id,
        tool_calls=read_calls(after),
        cost=with_call(read_spent(after), response),
        elapsed_ms=turn.elapsed_ms,
        code=code,
        retry_after_ms=getattr(response or after, "retry_after_ms", None),
    )


def make_unanswered(turn: Turn, fault: RuntimeFault, code: str, response: PromptResponse | None = None) -> TurnResult:
    """Return the error of a turn that nobody answered, in the gateway's words where it has any.

    A record without space, which ends both, is named as such. Why the supervisor did not is said where that is news.
    """
    return make_error(
        turn,
        "disk_full" if fault.code == "disk_full" else code or "unavailable",
        f"The record has no space, so nothing is answered: {fault.detail}. Please ask again under the same input id."
        if fault.code == "disk_full"
        else f"No model can answer right now ({response.error_code or 'its answer is blank'}"
        f"{response.error_message and f': {response.error_message}'})."
        f"{'' if fault.detail in response.error_message else f' Before that: {fault.code} ({put_plainly(fault)}).'} "
        "Please ask again under the same input id."
        if response is not None
        else "The service is not available right now: neither the supervisor nor the model gateway could answer "
        f"({code}). Before that: {fault.code} ({put_plainly(fault)}). "
        "Please ask again under the same input id.",
        after=fault,
        response=response,
    )


def explain_no_answer(turn: Turn, fault: RuntimeFault | None, response: PromptResponse) -> str:
    """Return who did not answer, and why: by HO2's fault, or the gateway's where that only says that time ran out."""
    return (
        response.instead_of
        if fault is None
        else put_plainly(fault)
        if fault.code not in OUT_OF_TIME_CODES
        else f"{response.instead_of or put_plainly(fault)}; the client's deadline of "
        f"{round(turn.deadline - turn.started, 1):g} s, less host.degrade_reserve_ms, was over"
    )


def make_degraded(turn: Turn, response: PromptResponse, fault: RuntimeFault | None = None) -> TurnResult:
    """Return the reduced answer, marked as such, after HO2's fault."""
    return TurnResult(
        response=response.content,
        outcome="degraded",
        tool_calls=read_calls(fault),
        session_id=turn.session_id,
        run_id=None,
        input_id=turn.input_id,
        exchange_entry_ids=[response.received_record_id] if response.received_record_id else [],
        cost=with_call(read_spent(fault), response),
        elapsed_ms=turn.elapsed_ms,
        code=DEGRADED,
        reason=explain_no_answer(turn, fault, response),
    )


def read_result(turn: Turn, asked: Entry | None, entry: Entry | WriteEntry, due: Entry | None) -> TurnResult:
    """Return the answer that the stream decided for: the run's, also refused or cancelled, or an earlier degradation.

    `asked` is the input's RunRequested, if there is one, and `due` its CONSOLIDATION_DUE. An answer to another text, or
    in another form, is none to this turn, and a text that was erased matches any. Raises ValueError where what the
    answer needs was erased.
    """
    end = end_in(read_event(entry).event, entry)
    source = entry if end and end.became == "degraded" else asked
    if (source is not None and source.bodies[1:2] not in ([], [None], [turn.text.encode()])) or read_form(
        asked
    ) not in (
        None,
        turn.form,
    ):
        return make_error(
            turn,
            "input_conflict",
            "This input id came before with another text, output_schema or tool; what is new needs a new input id.",
        )
    match end:
        case End(became="degraded"):
            reply = PromptResponse(
                outcome="SUCCESS", content=find_body(entry, end.reply_ref).decode(), instead_of=end.reason
            )
            return make_degraded(turn, reply)
        case End(result_ref=""):
            return make_error(turn, end.code, f"The turn ended with {end.code}.")
        case End():
            return answer_in(find_body(entry, end.result_ref), due)
        case _:
            raise ValueError(f"{entry.event_type} answers no input")


def read_recorded(
    turn: Turn, found: Sequence[Entry | None], agents: Mapping[str, Provenance]
) -> tuple[TurnResult | None, Turn]:
    """Return what the entries behind `records.answer_keys` answer, and the turn as one of its session's agent.

    Raises ValueError as `read_result`.
    """
    asked, entry, delivered, due, start = found
    agent_id = read_agent(start) or turn.agent_id  # which may be configured no more
    about = agents.get(agent_id, Provenance(agent_id=agent_id))._replace(session_id=turn.session_id)
    turn = replace(turn, agent_id=agent_id, about=about)
    return (answer := delivered or entry) and read_result(turn, asked, answer, due), turn
