"""The exit criteria of a session as stories that one person plays on any cluster, simulated or of real processes.

Each story asks for what it needs and asserts what must hold; it ends with a session at rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.state import hash_state, pack_state
from hobus.actors.ho2_supervisor.turn.turn import compute_history_limits
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Entries, Entry, Read, name_session_stream
from hobus.bus.messages.session import (
    Approve,
    Cancel,
    Command,
    CommandVerdict,
    Deny,
    FollowUp,
    HostCommand,
    Pause,
    ProcessTurn,
    ReadSession,
    Resume,
    SessionCommand,
    SessionReady,
    SessionView,
    StartSession,
    Steer,
    TurnResult,
)
from hobus.bus.port import Bus
from hobus.bus.record.journal import read_recorded
from hobus.bus.record.session_facts import SessionFact
from hobus.config.schema import AdminConfig
from hobus.launch.sessions.turns import process_turn

QUESTION = "what packages are installed?"
LOOK_S = 0.02
PATIENCE_S = 40.0


class Person:
    """Somebody with one session, at a bus of their own."""

    def __init__(self, bus: Bus, config: AdminConfig) -> None:
        self.bus = bus
        self.config = config
        self.session_id = ""
        self._commands = 0

    async def begin(self, agent_id: str | None = None) -> None:
        """A session that nobody has spoken in; of the default agent unless named."""
        ready = await self.bus.request(
            "host", StartSession(agent_id=agent_id), expect=SessionReady, timeout_s=PATIENCE_S
        )
        self.session_id = ready.session_id

    async def say(
        self, text: str, input_id: str = "in-1", *, timeout_s: float = PATIENCE_S, **fields: Any
    ) -> TurnResult:
        """One message, asked again under its input id while that may help, as every client does."""
        turn = ProcessTurn(session_id=self.session_id, input_id=input_id, text=text, **fields)
        return await process_turn(self.bus, turn, timeout_s=timeout_s)

    async def command(self, command: Command, command_id: str = "", **fields: Any) -> CommandVerdict:
        """A command and its verdict; asked again under the same id while its session changes hands."""
        self._commands += 1
        wanted = HostCommand(
            command_id=command_id or f"{command.kind.lower()}-{self._commands}",
            issued_at=format_iso(self.bus.now()),
            command=command,
            **fields,
        )
        message = SessionCommand(session_id=self.session_id, command=wanted)
        return await self._patiently("ho2", message, CommandVerdict)

    async def view(self) -> SessionView:
        """The session as its owner shows it."""
        return await self._patiently("ho2", ReadSession(session_id=self.session_id), SessionView)

    async def until(self, holds: Callable[[SessionView], bool]) -> SessionView:
        """The session as soon as this holds of it."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(view := await self.view()):
                await self.bus.sleep(LOOK_S)
        return view

    async def journal(self) -> list[Entry]:
        """The session's stream."""
        entries: list[Entry] = []
        while True:
            after = entries[-1].sequence if entries else -1
            read = Read(stream=name_session_stream(self.session_id), after=after, limit=500, with_bodies=True)
            page = await self._patiently("ledger", read, Entries)
            entries += page.entries
            if not page.more:
                return entries

    async def _patiently(self, service: str, message: Any, expect: Any) -> Any:
        deadline = self.bus.clock.monotonic() + PATIENCE_S
        key = self.session_id if service == "ho2" else ""
        while True:
            try:
                return await self.bus.request(service, message, expect=expect, timeout_s=PATIENCE_S, key=key)
            except RuntimeFault as fault:
                if not fault.retryable or self.bus.clock.monotonic() > deadline:
                    raise
            await self.bus.sleep(LOOK_S)


def answering(view: SessionView) -> bool:
    """The model is at work on the answer."""
    return view.lifecycle == "Running" and view.run is not None and view.run.rounds >= 2 and view.run.in_flight > 0


def stands_still(view: SessionView) -> bool:
    """The run is paused or waits for an approval."""
    return view.lifecycle in ("Paused", "WaitingInput")


def held_calls(view: SessionView) -> dict[str, str]:
    """The id of each call that waits for an approval, by its tool."""
    return {call.tool_id: call.call_id for call in view.run.calls if call.held} if view.run is not None else {}


def names(entries: Sequence[Entry]) -> list[str]:
    """Event types in order."""
    return [entry.event_type for entry in entries]


def facts(entries: Sequence[Entry]) -> list[SessionFact]:
    """All that the entries of a journal tell, in order."""
    return [fact for entry in entries if (taken := read_recorded(entry)) is not None for fact in taken.facts]


# --- the seven criteria -----------------------------------------------------------------------------------------------


async def a_run_without_tools(person: Person) -> None:
    """1: requested, started, stepped, completed; then the session is at rest."""
    await person.begin()
    result = await person.say("hello there")
    assert (result.outcome, result.tool_calls) == ("success", [])
    told = [fact.entry_name for fact in facts(await person.journal())]
    assert [name for name in told if name.startswith(("SESSION", "Run", "Step"))] == [
        "SESSION_START",
        "RunRequested",
        "RunStarted",
        "StepStarted",
        "StepStarted",
        "RunCompleted",
    ]
    view = await person.view()
    assert (view.lifecycle, view.turn_count, view.run) == ("Idle", 1, None)


async def a_steer_at_the_boundary(person: Person) -> None:
    """2: said while the model is at work, observed by the next round and by no earlier one, visible in the answer."""
    await person.begin()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(person.say(QUESTION))
        view = await person.until(answering)
        verdict = await person.command(Steer(text="and is the ledger intact?"), "steer-it")
        assert (verdict.outcome, verdict.lifecycle) == ("applied", "Running")
    result = asked.result()
    assert [call.tool_id for call in result.tool_calls] == ["list_packages", "verify_ledger"]
    assert "Meanwhile you said: “and is the ledger intact?”" in result.response
    started = facts(await person.journal())
    observed = [e.steers for e in started if e.kind == "StepStarted" and e.steers]
    assert observed == [[f"HostCommandReceived:{person.session_id}/steer-it/1"]]
    first = next(e.step_id.turn_id.turn_seq for e in started if e.kind == "StepStarted" and e.steers)
    assert view.run is not None and first > view.run.rounds


async def a_follow_up_after_the_run(person: Person) -> None:
    """3: taken while a run is active, begun by itself when that is over, answered under its own input id."""
    await person.begin()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(person.say("hello there"))
        await person.until(answering)
        verdict = await person.command(FollowUp(text=QUESTION), "next")
        assert verdict.input_id == "followup:next"
        second = group.create_task(person.say(QUESTION, "followup:next"))
    results = first.result(), second.result()
    assert [r.run_id.run_seq for r in results if r.run_id is not None] == [1, 2]
    assert [call.tool_id for call in results[1].tool_calls] == ["list_packages"]
    kinds = [name for name in names(await person.journal()) if name in ("RunRequested", "RunCompleted")]
    assert kinds == ["RunRequested", "RunCompleted"] * 2


async def calls_side_by_side(person: Person) -> None:
    """4: several calls of one answer, each with its receipt, in call order whatever came first."""
    await person.begin()
    result = await person.say("what packages are installed, is the ledger intact, and which tools do you have?")
    assert [(call.tool_id, call.status) for call in result.tool_calls] == [
        ("list_packages", "Succeeded"),
        ("verify_ledger", "Succeeded"),
        ("list_tools", "Succeeded"),
    ]
    told = facts(await person.journal())
    [batch] = [number for number, fact in enumerate(told) if fact.kind == "ToolBatchIssued"]
    assert [fact.kind for fact in told[batch:]].count("OrderEnded") == 4, "three calls and an answer"


async def a_cancelled_run(person: Person) -> None:
    """5: it stops at once, every order has its end, what comes late changes nothing, and the next turn works."""
    await person.begin()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(person.say(QUESTION))
        view = await person.until(answering)
        verdict = await person.command(Cancel(reason="the wrong question"))
        assert verdict.outcome == "applied"
        assert verdict.session_epoch == view.session_epoch + 1
    result = asked.result()
    assert (result.outcome, result.code) == ("error", "cancelled")
    journal = await person.journal()
    sent = sorted(e.submission_id.partition(":")[2] for e in journal if e.event_type == "WO_DISPATCHED")
    ended = sorted(e.submission_id.partition(":")[2] for e in journal if e.event_type == "OrderEnded")
    assert sent == ended
    assert names(journal)[-1] == "RunCancelled"
    assert (await person.command(Cancel(), "too-late")).reason.startswith("no_active_run")
    assert (await person.say(QUESTION)).code == "cancelled"
    assert (await person.say(QUESTION, "in-2")).outcome == "success"


async def a_lease_renewed_and_over(
    person: Person, somebody: Person, go_away: Callable[[asyncio.Task[TurnResult]], object]
) -> None:
    """6: it goes on past its first term while its requester waits, and is cancelled once that one is gone."""
    await somebody.begin()
    person.session_id = somebody.session_id
    asked = asyncio.create_task(somebody.say(QUESTION, lease=True))
    began = await person.until(lambda view: view.run is not None and view.run.lease_id is not None)
    assert began.run is not None
    first_end = began.run.lease_expires_at or ""
    await person.command(Pause())
    renewed = await person.until(lambda view: view.run is not None and (view.run.lease_expires_at or "") > first_end)
    assert renewed.run is not None
    assert renewed.run.lease_id == began.run.lease_id
    go_away(asked)
    gone_at = person.bus.clock.monotonic()
    await person.until(lambda view: view.run is None)
    assert person.bus.clock.monotonic() - gone_at < person.config.sessions.lease_heartbeat_timeout_s + 5, (
        "not by its lease"
    )
    asked.cancel()
    journal = await person.journal()
    assert names(journal).count("TimePassed") == 1
    assert names(journal)[-1] == "RunCancelled"
    assert (await person.say(QUESTION)).code == "cancelled"


async def the_same_journal_twice(person: Person) -> None:
    """7: a session with everything in it folds to the same bytes each time, which are those of its owner."""
    await person.begin()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(person.say(QUESTION))
        await person.until(answering)
        await person.command(Pause())
        await person.until(stands_still)
        await person.command(Steer(text="and which tools do you have?"))
        await person.command(Steer(text="x"), "refused", expected_session_epoch=99)
        await person.command(Resume())
    assert asked.result().outcome == "success"
    states = [folded(await person.journal(), person) for _ in range(2)]
    assert pack_state(states[0].state) == pack_state(states[1].state)
    assert hash_state(states[0].state) == (await person.view()).state_hash


def folded(entries: Sequence[Entry], person: Person) -> SessionRecord:
    """The fold of a journal."""
    record = SessionRecord(person.session_id, compute_history_limits(person.config))
    for entry in entries:
        taken = read_recorded(entry)
        assert taken is not None
        assert record.take(taken).rejection is None, entry.submission_id
    return record


# --- beyond them ------------------------------------------------------------------------------------------------------


async def a_pause_that_outlives_its_owner(person: Person, kill_owner: Callable[[SessionView], None]) -> None:
    """Steered, paused, its owner killed, resumed by whoever is asked, finished: one answer, in which all of it shows."""
    await person.begin()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(person.say(QUESTION))
        await person.until(answering)
        await person.command(Steer(text="and is the ledger intact?"))
        await person.command(Pause())
        kill_owner(await person.until(stands_still))
        paused = await person.until(stands_still)
        assert (await person.command(Resume())).outcome == "applied"
    result = asked.result()
    assert result.outcome == "success"
    assert [call.tool_id for call in result.tool_calls] == ["list_packages", "verify_ledger"]
    after = await person.view()
    assert after.tenure > paused.tenure or after.tenure > 1
    assert names(await person.journal()).count("RunCompleted") == 1


async def an_approval_and_a_denial(person: Person) -> None:
    """Held calls wait for a person; whoever asks is told so when their time is over, and nothing degrades."""
    both = "what packages are installed, and is the ledger intact?"
    await person.begin()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(person.say(both))
        view = await person.until(lambda view: stands_still(view) and len(held_calls(view)) == 2)
        held = held_calls(view)
        assert sorted(held) == ["list_packages", "verify_ledger"]
        told = await person.say(both, timeout_s=4.0)
        assert (told.outcome, told.code) == ("error", "run_waiting")
        assert (await person.command(Approve(call_id="999"))).reason.startswith("call_not_open")
        assert (await person.command(Deny(call_id=held["verify_ledger"], reason="not now"))).outcome == "applied"
        assert (await person.command(Approve(call_id=held["list_packages"]))).lifecycle == "Running"
    result = asked.result()
    assert [(call.tool_id, call.status, call.code) for call in result.tool_calls] == [
        ("list_packages", "Succeeded", ""),
        ("verify_ledger", "Failed", "denied"),
    ]
    assert "verify_ledger failed (denied)" in result.response


async def commands_that_do_not_fit(person: Person) -> None:
    """Each is rejected with its reason and recorded, and the state is what it was."""
    await person.begin()
    before = await person.view()
    wrong = [
        (Pause(), {}, "no_active_run"),
        (Steer(text="hurry"), {}, "no_active_run"),
        (Resume(), {}, "no_active_run"),
        (Approve(call_id="001"), {}, "no_active_run"),
        (Cancel(), {"target_run_id": {"session_id": person.session_id, "run_seq": 7}}, "stale_target"),
        (Cancel(), {"expected_session_epoch": 5}, "stale_epoch"),
        (FollowUp(text=" "), {}, "blank"),
    ]
    for command, fields, code in wrong:
        verdict = await person.command(command, **fields)
        assert (verdict.outcome, verdict.reason.partition(":")[0]) == ("rejected", code), command
    after = await person.view()
    assert after.state_hash == before.state_hash
    assert names(await person.journal()).count("HostCommandRejected") == len(wrong)
