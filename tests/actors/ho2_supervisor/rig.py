"""The supervisor among real neighbours: simulated cluster, the real ledger service, and a pool that answers by script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from bench.builders import shipped_with
from hobus.actors.ho1_executor.receipts import OrderUsage, Stamp, end_entry, make_completed, start_entry
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho2_supervisor.actor import SLOTS, Supervisor
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages import transcript
from hobus.bus.messages.base import Message, compute_digest
from hobus.bus.messages.ids import derive_delivered_key, derive_turn_key, format_iso
from hobus.bus.messages.ledger import Ack, WriteEntry, name_session_stream
from hobus.bus.messages.session import (
    Command,
    CommandVerdict,
    EndSession,
    HostCommand,
    ReadSession,
    SessionClosed,
    SessionCommand,
    SessionReady,
    SessionView,
    StartSession,
    TurnReply,
    TurnRequest,
    TurnResult,
)
from hobus.bus.messages.work_order import (
    Cost,
    ExecuteWorkOrder,
    OutputResult,
    Receipt,
    Segment,
    ToolCall,
    WorkOrder,
    WorkOrderError,
)
from hobus.bus.port import Bus
from hobus.bus.record.journal import pack_event
from hobus.bus.record.session_facts import SessionEvent, TurnDegraded
from hobus.config.assets import Approval, FileInForce
from hobus.config.attention_template import ANSWERS, Template
from hobus.config.snapshot import Snapshot
from tests.rig import SimulatedRig
from tests.transcripts import readable

SESSION = "11111111-2222-5333-8444-555555555555"
CLASSIFIED = {
    "speech_act": "question",
    "ambiguity": "low",
    "intent_signal": {"action": "new", "candidate_objective": "see", "confidence": 0.9},
    "labels": {"domain": "system", "task": "inspect"},
}


def snapshot(*changes: tuple[str, Any]) -> Snapshot:
    """The shipped snapshot with some settings changed, named by dotted path; memory is off."""
    return shipped_with(("bus.service_grace_ms", 500), ("ho3.enabled", False), *changes)


Answer = OutputResult | str | list[ToolCall] | RuntimeFault | WorkOrderError | None
"""What a pool's script gives: an output, a text, tool calls, a fault of the bus, a failed order, or never an answer."""


def calls(*tool_ids: str) -> list[ToolCall]:
    """Tool calls in the order of an answer."""
    return [ToolCall(call_id=f"{n:03d}", tool_id=tool_id, arguments={"n": n}) for n, tool_id in enumerate(tool_ids, 1)]


def classified(parsed: dict[str, Any] | None = None) -> OutputResult:
    """A classification's output."""
    return OutputResult(parsed=parsed or CLASSIFIED)


def question_and_answer(order: WorkOrder) -> Answer:
    """The plainest script: classified, answered."""
    return classified() if order.wo_type == "classify" else f"answer to {text_of(order, 'user_input')}"


def one_tool(order: WorkOrder) -> Answer:
    """Classified, three tools asked for at once, answered from their results."""
    match order.wo_type:
        case "classify":
            return classified()
        case "tool_call":
            assert order.tool_call is not None
            return f"result of {order.tool_call.tool_id}"
        case _ if not order.exchanges:
            return calls("list_packages", "list_tools", "list_packages")
        case _:
            return "from tools: " + ", ".join(segment.text for segment in order.exchanges[-1].results)


def going_on(order: WorkOrder) -> Answer:
    """Every message behind the first one of its session goes on with what that one wanted."""
    if order.wo_type == "classify" and not order.wo_id.endswith("-1.1.1"):
        return classified(CLASSIFIED | {"intent_signal": {"action": "continue"}})
    return question_and_answer(order)


def text_of(order: WorkOrder, name: str) -> str:
    """What the order's segments of one name say together; of steers, drafts and notes, what its rounds hold."""
    rounds = [one for exchange in order.exchanges for one in (exchange.text, *exchange.said)]
    return readable("".join(segment.text for segment in (*order.input_context, *rounds) if segment.name == name))


@dataclass
class Pool(Actor):
    """An executor that answers by script and, like the real one, the same receipt again when asked again."""

    script: Callable[[WorkOrder], Answer] = question_and_answer
    delay_s: Callable[[WorkOrder], float] = lambda _: 0.0
    received: list[ExecuteWorkOrder] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    histories: dict[str, str] = field(default_factory=dict)
    """By session, as the gateway has them; one that is taken out is asked for again."""
    begins: Callable[[WorkOrder], bool] = lambda _: False
    """Whether it records the start of the order's tool, which must not run twice."""
    ends: str = ""
    """What it records that the order's tool said; empty: it records no end."""
    service = "ho1"

    def __post_init__(self) -> None:
        self.bus: Bus | None = None

    async def start(self, bus: Bus) -> None:
        self.bus = bus

    async def execute(self, message: ExecuteWorkOrder, call: Call) -> Receipt:
        assert self.bus is not None
        order = self._whole(message.order)
        self.received.append(message.model_copy(update={"order": order}))
        if order.wo_id in self.receipts:
            return self.receipts[order.wo_id]
        here, ledger = Stamp(self.bus.instance, now=self.bus.now(), monotonic=0.0), shipped_with().config.ledger
        if self.begins(order):
            tool = replace(BUILTIN["show_config"], idempotent=False)
            await LedgerClient(self.bus, ledger).write([start_entry(order, tool, here, number=1)])
        if self.ends and order.wo_type == "tool_call":
            brought = OutputResult(text=Segment(text=self.ends))
            done = make_completed(order, brought, OrderUsage(started=0.0), here)
            await LedgerClient(self.bus, ledger).write([end_entry(order, done, here, parents=[])])
        await self.bus.sleep(took_s := self.delay_s(order))
        answer = self.script(order)
        if isinstance(answer, RuntimeFault):
            raise answer
        if answer is None:
            await self.bus.sleep(3000)
        self.executed.append(order.wo_id)
        self.receipts[order.wo_id] = receipt_of(order, answer, format_iso(self.bus.now()), took_s=took_s)
        return self.receipts[order.wo_id]

    def _whole(self, order: WorkOrder) -> WorkOrder:
        """With all of its history, which an order does not bring where the gateway has it."""
        new = next((one.text for one in order.input_context if one.name == transcript.NAME), None)
        if new is None:
            return order
        text: str | None = new
        if order.history_after is not None:
            text = transcript.join_whole(self.histories.pop(order.session_id, ""), new, order.history_after)
        if text is None:
            raise BusError(transcript.UNKNOWN, "ask with all of it", retryable=True, retry_after_ms=0)
        self.histories[order.session_id] = text
        inputs = [
            one.model_copy(update={"text": text}) if one.name == transcript.NAME else one for one in order.input_context
        ]
        return order.model_copy(update={"input_context": inputs, "history_after": None})

    @property
    def orders(self) -> list[WorkOrder]:
        return [message.order for message in self.received]


def receipt_of(order: WorkOrder, answer: Answer, at: str, *, took_s: float = 0.0) -> Receipt:
    """The receipt that HO1 would give."""
    output: OutputResult | None = None
    match answer:
        case OutputResult():
            output = answer
        case str():
            output = OutputResult(text=Segment(text=answer), finish_reason="stop")
        case list():
            output = OutputResult(tool_calls=answer, finish_reason="tool_calls")
        case _:
            pass
    is_tool = order.wo_type == "tool_call"
    tool_ids = [order.tool_call.tool_id] if order.tool_call is not None else []
    cost = Cost(
        input_tokens=0 if is_tool else 100, output_tokens=0 if is_tool else 10, total_tokens=0 if is_tool else 110,
        llm_calls=0 if is_tool else 1, tool_calls=len(tool_ids), tool_ids_used=tool_ids, cost_usd=0.0,
        elapsed_ms=1 + round(took_s * 1000),
    )  # fmt: skip
    return Receipt(
        wo_id=order.wo_id,
        fence=order.fence,
        state="failed" if isinstance(answer, WorkOrderError) else "completed",
        output_result=output,
        error=answer if isinstance(answer, WorkOrderError) else None,
        cost=cost,
        prompt_received_ids=[] if is_tool else [f"PROMPT_RECEIVED:{order.wo_id}#1/1"],
        executed_by="ho1/1@s1",
        completed_at=at,
    )


class Rig(SimulatedRig):
    """A pool, supervisors and a client that stands in for the host."""

    streams = (name_session_stream(SESSION),)

    def __init__(
        self,
        *changes: tuple[str, Any],
        script: Callable[[WorkOrder], Answer] = question_and_answer,
        tools: list[str] | None = None,
        agent: dict[str, Any] | None = None,
        others: dict[str, dict[str, Any]] | None = None,
        approval_by: Literal["anyone", "other"] = "anyone",
        templates: Sequence[Template] | None = None,
        required: dict[str, Any] | None = None,
        **bounds: int,
    ) -> None:
        """`bounds`: of the supervisors themselves; `others`: further agents, by how they differ from the first."""
        given = snapshot(*changes)
        self._bounds = bounds
        if templates is not None:
            files = {
                f"attention/{one.template_id}.json": FileInForce(
                    sha256=compute_digest(one.template_id.encode()), package_id=""
                )
                for one in templates
            }
            given = replace(
                given, templates={one.template_id: one for one in templates}, files={**given.files, **files}
            )
        if required is not None:
            contract = given.contracts[ANSWERS]
            context = type(contract.required_context).model_validate(required)
            contract = contract.model_copy(update={"required_context": context})
            given = replace(given, contracts={**given.contracts, ANSWERS: contract})
        if agent is not None:
            agents = {name: one.model_copy(update=agent) for name, one in given.agents.items()}
            given = replace(given, agents=agents)
        if others is not None:
            first = given.agents["ADMIN"]
            more = {name: first.model_copy(update={"agent_id": name, **other}) for name, other in others.items()}
            given = replace(given, agents={**given.agents, **more})
        if approval_by != "anyone":
            approval = {"approval": Approval(by=approval_by)}
            agents = {name: agent.model_copy(update=approval) for name, agent in given.agents.items()}
            given = replace(given, agents=agents)
        super().__init__(given)
        self.pool = Pool(script)
        announced = list(self.snapshot.agents["ADMIN"].tools) if tools is None else tools
        self.world.start(self.pool, role="ho1", slots=512, tools=announced)
        self.supervisors: list[Supervisor] = []
        self.instances: list[str] = []
        self.supervise()
        self.host = self.world.client("host")
        self.run(self.world.settled())

    def supervise(self) -> Supervisor:
        """One more supervisor."""
        supervisor = Supervisor(snapshot=self.snapshot, **self._bounds)
        peer = self.world.start(supervisor, role="ho2", slots=SLOTS)
        self.supervisors.append(supervisor)
        self.instances.append(peer.instance)
        return supervisor

    # --- what a host asks ---------------------------------------------------------------------------------------------

    async def ask(self, message: Message, expect: type[Message], *, timeout_s: float = 30.0, to: str = "ho2") -> Any:
        session_id = getattr(message, "session_id", SESSION)
        return await self.host.request(to, message, expect=expect, timeout_s=timeout_s, key=session_id)

    async def start_session(self, session_id: str = SESSION, **fields: Any) -> SessionReady:
        return await self.ask(StartSession(session_id=session_id, **fields), SessionReady)

    async def turn(
        self, input_id: str, text: str, *, timeout_s: float = 30.0, to: str = "ho2", **fields: Any
    ) -> TurnResult:
        request = TurnRequest(**{"session_id": SESSION, "input_id": input_id, "text": text, **fields})
        reply = await self.ask(request, TurnReply, timeout_s=timeout_s, to=to)
        assert reply.result is not None
        return reply.result

    async def command(
        self, command: Command, command_id: str = "", *, to: str = "ho2", session_id: str = SESSION, **fields: Any
    ) -> CommandVerdict:
        """An operator's command; its id follows from its kind unless it is given."""
        wanted = HostCommand(
            command_id=command_id or command.kind.lower(), issued_at=format_iso(self.world.loop.time()), command=command,
            **fields,
        )  # fmt: skip
        return await self.ask(SessionCommand(session_id=session_id, command=wanted), CommandVerdict, to=to)

    async def asked(self, input_id: str, text: str, *, timeout_s: float = 30.0, **fields: Any) -> TurnReply:
        """One request for a turn, and whatever it is answered."""
        request = TurnRequest(**{"session_id": SESSION, "input_id": input_id, "text": text, **fields})
        return await self.ask(request, TurnReply, timeout_s=timeout_s)

    async def until(self, holds: Callable[[SessionView], bool]) -> SessionView:
        """The session as soon as this holds of it."""
        while not holds(view := await self.view()):
            await self.host.sleep(0.01)
        return view

    async def end_session(self, *, timeout_s: float = 30.0) -> SessionClosed:
        return await self.ask(EndSession(session_id=SESSION), SessionClosed, timeout_s=timeout_s)

    async def view(self) -> SessionView:
        return await self.ask(ReadSession(session_id=SESSION), SessionView)

    # --- the record ---------------------------------------------------------------------------------------------------

    async def write(self, *entries: WriteEntry) -> list[Ack]:
        """Each by the role that writes such entries, together with those of the same role beside it."""
        return [
            ack
            for role, of_role in groupby(entries, lambda entry: "host" if entry.event_type == "TurnDegraded" else "ho2")
            for ack in await self.ledger_client(role).write(list(of_role))
        ]


def degraded_entry(
    input_id: str, text: str, reply: str, *, delivered: bool = False, total_tokens: int = 0
) -> WriteEntry:
    """What the host appends when it answers without HO2; once the ledger is back, where it answered without that."""
    submission_id = f"TurnDegraded:{SESSION}/{input_id}{'/delivered' if delivered else ''}"
    event = TurnDegraded(
        input_id=input_id,
        input_ref=f"{submission_id}/1",
        reply_ref=f"{submission_id}/2",
        delivered=delivered,
        total_tokens=total_tokens,
        at=format_iso(1.0),
    )
    envelope = SessionEvent(session_id=SESSION, session_epoch=0, step_epoch=0, event=event)
    return WriteEntry(
        submission_id=submission_id, stream=name_session_stream(SESSION), event_type="TurnDegraded", at_us=1,
        bodies=[pack_event(envelope, submission_id, 1), text.encode(), reply.encode()],
        once=(derive_delivered_key if delivered else derive_turn_key)(SESSION, input_id),
    )  # fmt: skip
