"""What HO2 and HO3 tell each other in a turn: READ before the prompt, LOG of what the run teaches when it is over.

Memory is an aid, never a precondition: HO3 silent within its time-out, or gone, is an outcome with a code.

A run teaches by rules alone: one event per signal and run, its id derived from the run, so that what is logged again
counts once. The answer and its lesson are recorded at the same time: RunCompleted is on its way to the ledger while the
signals are on theirs to HO3. So the candidates that come back stand in CONSOLIDATION_DUE, not in RunCompleted's bytes.
It stands before any reply names them, once for each input, and whoever answers the input again reads it: every answer
names the same. Where it does not stand no answer names any; the gates stay crossed, and the next turn that logs such a
signal names it again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.configurations import Configurations
from hobus.actors.ho2_supervisor.learning import statement
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.actors.ho2_supervisor.turn.classification import Stated, read_classification, read_stated
from hobus.bus.errors import MemoryFault, RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import RunId, derive_candidates_key, derive_signal_event_id
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.memory import (
    Artifact,
    ArtifactFacts,
    AsOf,
    Bias,
    Biases,
    ConsolidationFailureLogged,
    LogOverlay,
    LogSignals,
    OverlayLogged,
    ReadActiveBiases,
    Signal,
    SignalsLogged,
)
from hobus.bus.messages.session import Consolidate, Remembered
from hobus.bus.port import R
from hobus.bus.record.payloads.orders import SignalsNamed
from hobus.config.assets import names
from hobus.config.sections.record import Ho3Config
from hobus.config.sections.turns import ClassifyLabels


class Learning:
    """Log what runs teach, and own the tasks that do so when nobody waits for the result."""

    def __init__(self, configurations: Configurations, memory: Ho3Config) -> None:
        self._bus = configurations.current.bus
        self._memory = memory
        self._configurations = configurations
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._late: dict[asyncio.Task[Any], None] = {}  # once more, as HO3 did not acknowledge in time

    @property
    def _resources(self) -> Resources:
        return self._configurations.current

    async def recall(self, session: OwnedSession, agent_id: str, *, as_of_ts: str, trace: str) -> Recalled:
        """Read what is in force for the session's principal as of then, page by page, within `ho3.read_timeout_ms`."""
        question = ReadActiveBiases(
            agent_id=agent_id, principal=session.record.state.principal, as_of_ts=as_of_ts,
            session_id=session.session_id,
        )  # fmt: skip
        biases: list[Bias] = []
        try:
            async with asyncio.timeout(self._memory.read_timeout_ms / 1000):
                while True:
                    found = await self._ask(question, Biases, self._memory.read_timeout_ms, trace)
                    biases += found.biases
                    if found.next is None:
                        return Recalled(tuple(biases), found.as_of)
                    further = {"after": found.next, "as_of_seq": found.as_of.as_of_seq}
                    question = question.model_copy(update=further)
        except (TimeoutError, RuntimeFault) as fault:
            return Recalled(code=get_code(fault))

    async def persist_and_learn(self, session: OwnedSession, *, trace: str) -> Learned:
        """Wait until the ended run is durable, and log its signals at the same time.

        The candidates are those that the record has. Raises JournalLost when nobody can say which these are.
        """
        ended = session.record.last_run
        _, learned = await run_beside(session.barrier(), self._log(session, ended, trace))
        self._warn(session, ended, learned, trace)
        if ended is not None and learned.code and len(self._late) < limits.LATE_LOGS_MAX:
            self._keep(self._log_late(session, ended, trace), self._late)
        if ended is None or not (learned.candidates or learned.remembered):
            return learned
        ack = await session.write_beside(self._make_due(session, ended, learned, trace))
        if ack is not None and ack.is_first:
            return learned
        candidates, remembered = await session.learned(ended.input_id)
        return Learned(tuple(candidates), remembered=remembered)

    async def learn_late(self, session: OwnedSession, run_id: RunId, *, trace: str) -> Remembered | None:
        """Do as `persist_and_learn` behind the run's answer, which names no candidates; return what was stated."""
        learned = await self.persist_and_learn(session, trace=trace)
        if learned.candidates:
            agent_id = session.record.state.agent_id or ""
            named = Consolidate(
                session_id=session.session_id, run_id=run_id, agent_id=agent_id, signal_ids=list(learned.candidates)
            )
            await self._bus.post("ho2", named, key=agent_id, trace=trace)
        return learned.remembered

    def log_later(self, session: OwnedSession, *, trace: str = "") -> None:
        """Begin to log the newest run's signals; events that were logged before count once all the same."""
        if session.record.last_run is None:
            return
        self._keep(self._log_and_warn(session, session.record.last_run, trace), self._tasks)

    @staticmethod
    def _keep(work: Coroutine[Any, Any, Any], tasks: dict[asyncio.Task[Any], None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks[task] = None
        task.add_done_callback(tasks.pop)

    async def drain(self) -> None:
        """Wait for what is on its way, at most `ho3.log_timeout_ms`; give up what is late."""
        for task in list(self._late):
            task.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _log_and_warn(self, session: OwnedSession, ended: EndedRun, trace: str) -> None:
        self._warn(session, ended, await self._log(session, ended, trace), trace)

    async def _log_late(self, session: OwnedSession, ended: EndedRun, trace: str) -> None:
        """Log a run's events again, until HO3, which may be away, acknowledges or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.LATE_LOG_TIMEOUT_MS / 1000):
                while (await self._log(session, ended, trace, timeout_ms=limits.LATE_LOG_TIMEOUT_MS)).code:
                    await self._bus.sleep(limits.LATE_LOG_INTERVAL_MS / 1000)

    async def _log(
        self, session: OwnedSession, ended: EndedRun | None, trace: str, *, timeout_ms: int | None = None
    ) -> Learned:
        """Log the run's events; return which gates they crossed and what the run stated.

        Within `ho3.log_timeout_ms` unless another time-out is given. Events that are logged again count once.
        """
        agent = self._resources.snapshot.agents.get(session.record.state.agent_id or "")
        if ended is None or agent is None or not agent.memory:
            return Learned()
        principal, vocabulary = session.record.state.principal, self._resources.config.classify_labels
        signals = list_signals(ended, session.session_id, principal=principal, tools=agent.tools, vocabulary=vocabulary)
        stated = read_stated(ended.classified, vocabulary) if self._memory.stated_weight > 0 else None
        made: Artifact | None = None
        timeout_ms = timeout_ms or self._memory.log_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if stated is not None and (stated := await self._judge(stated, session, ended)) is not None:
                    signals.append(statement.make_signal(stated, ended, session.session_id, principal))
                    made = statement.make_artifact(stated, signals[-1], self._memory)
                if not signals:
                    return Learned()
                message = LogSignals(agent_id=agent.agent_id, signals=signals)
                logged = await self._ask(message, SignalsLogged, timeout_ms, trace)
                candidates = tuple(gate.signal_id for gate in logged.gates if gate.crossed)
                if made is None:
                    return Learned(candidates)
                return Learned(candidates, remembered=await self._remember(agent.agent_id, made, timeout_ms, trace))
        except (TimeoutError, RuntimeFault) as fault:
            unknown = tuple(signal.signal_id for signal in signals)
            lost = None if made is None else statement.make_remembered(made, "unanswered")
            return Learned(code=get_code(fault), unknown=unknown, remembered=lost)

    async def _judge(self, stated: Stated, session: OwnedSession, ended: EndedRun) -> Stated | None:
        """Judge as `statement.judged` does. Raises RuntimeFault where the message cannot be read."""
        message = await _read_message(session, ended)
        return None if message is None else statement.judge_wish(stated, message, limits.STATED_IN_MAX_CHARS)

    async def _remember(self, agent_id: str, made: Artifact, timeout_ms: int, trace: str) -> Remembered:
        """Log a statement; one that memory refuses goes into quarantine. Raises RuntimeFault, TimeoutError."""
        try:
            logged = await self._ask(LogOverlay(agent_id=agent_id, overlay=made), OverlayLogged, timeout_ms, trace)
        except MemoryFault as fault:
            refused = statement.make_failure(made, agent_id, fault)
            await self._ask(refused, ConsolidationFailureLogged, timeout_ms, trace)
            return statement.make_remembered(made, "refused")
        return statement.make_remembered(made, "active" if logged.is_active else "pending")

    async def _ask(self, message: Message, expect: type[R], timeout_ms: int, trace: str) -> R:
        async with asyncio.timeout(timeout_ms / 1000):
            return await self._bus.request(HO3, message, expect=expect, timeout_s=timeout_ms / 1000, trace=trace)

    def _make_due(self, session: OwnedSession, ended: EndedRun, learned: Learned, trace: str) -> WriteEntry:
        """Return CONSOLIDATION_DUE: what the answer names beyond RunCompleted's bytes; the first one written counts."""
        said = learned.remembered
        named = SignalsNamed(learned.candidates)
        if said is not None:
            named = named._replace(remembered_id=said.artifact_id, remembered_state=said.state)
        return self._resources.entry(
            "CONSOLIDATION_DUE",
            named,
            texts=[] if said is None else [said.statement],
            provenance=session.provenance(ended.run_seq), parents=[ended.ended_by],
            trace=trace, once=derive_candidates_key(session.session_id, ended.input_id),
        )  # fmt: skip

    def _warn(self, session: OwnedSession, ended: EndedRun | None, learned: Learned, trace: str) -> None:
        """Record MEMORY_WARNING where HO3 did not acknowledge: nobody knows whether those signals count."""
        if ended is None or not learned.code:
            return
        session.note(
            self._resources.entry(
                "MEMORY_WARNING",
                SignalsNamed(tuple(learned.unknown)),
                provenance=session.provenance(ended.run_seq), parents=[ended.ended_by],
                reason=learned.code, trace=trace,
            )
        )  # fmt: skip


HO3 = "ho3"
T = TypeVar("T")


class Recalled(Struct, frozen=True):
    """What HO3 had in force for a turn, and as of what; `code` says why there is nothing."""

    biases: tuple[Bias, ...] = ()
    as_of: AsOf | None = None
    code: str = ""


class Weighed(NamedTuple):
    """An artifact in force: its rank in this turn, and why its line is not shown; empty: it is."""

    artifact: ArtifactFacts
    score: float
    left_out: Literal["", "labels", "words", "room"]


class Learned(Struct, frozen=True):
    """The signals whose gates the turn's events crossed; `code` says why that is unknown, and for which signals."""

    candidates: tuple[str, ...] = ()
    code: str = ""
    unknown: tuple[str, ...] = ()
    """With a code: the signals that HO3 did not acknowledge."""
    remembered: Remembered | None = None
    """What the turn stated."""


def get_code(fault: TimeoutError | RuntimeFault) -> str:
    return fault.code if isinstance(fault, RuntimeFault) else "expired"


async def run_beside(main: Coroutine[Any, Any, T], aside: Coroutine[Any, Any, Any]) -> tuple[T, Any]:
    """Await both at once and return both results; raise what `main` raises, and then end `aside`."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(aside)
            result = await main
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return result, task.result()


async def _read_message(session: OwnedSession, ended: EndedRun) -> str | None:
    """Return what the run's input says; None if erased. Raises RuntimeFault where it cannot be read."""
    for turn in session.record.history.turns[-1:]:
        if turn.input_id == ended.input_id and turn.input_text is not None:
            return turn.input_text
    known = session.record.inputs.get(ended.input_id)
    return None if known is None else await session.find_text(known.input_ref)


_IS_SIGNAL = re.compile(r"[a-z_]+:[!-~]{1,120}")


def list_signals(
    ended: EndedRun, session_id: str, *, principal: str, tools: Collection[str], vocabulary: ClassifyLabels
) -> list[Signal]:
    """Return the signals of a run that is over, in a fixed order; a missing fact gives none.

    `tools`: those that the agent has, wildcards among them; a name that a model made up is no signal.
    """
    labels = read_classification(ended.classified, vocabulary, is_first=False)
    found = [
        *([f"intent:{labels.speech_act}"] if labels.speech_act else []),
        *(f"domain:{label}" for label in labels.domain),
        *(f"task:{label}" for label in labels.task),
        *(f"tool:{tool_id}" for tool_id in ended.tool_ids if names(tools, tool_id)),
        *([f"outcome:{ended.outcome}"] if ended.outcome else []),
    ]
    return [
        Signal(
            event_id=derive_signal_event_id(session_id, ended.run_seq, signal_id),
            signal_id=signal_id,
            principal=principal,
            session_id=session_id,
            at=ended.requested_at,
        )
        for signal_id in dict.fromkeys(found)
        if _IS_SIGNAL.fullmatch(signal_id)
    ]
