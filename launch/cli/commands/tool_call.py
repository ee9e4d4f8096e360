"""`hobus tools call`: one tool, called as its agent would: what is checked before, and what is told of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.json_text import object_in
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX, Tools
from hobus.bus.messages.ids import direct_order_id, end_key, session_id_of, shown_session
from hobus.bus.messages.ledger import Entry, Found, Lookup
from hobus.bus.messages.session import ProcessTurn, SessionConfig, TurnResult
from hobus.bus.messages.work_order import ToolFile
from hobus.bus.port import Bus
from hobus.bus.record.payloads.orders import files_in
from hobus.config.json_schema import validator_of
from hobus.config.schema_defaults import with_defaults
from hobus.launch.cli.commands.cluster_options import known_agent, seconds_to_wait, with_agent, with_cluster
from hobus.launch.cli.commands.options import DURATION, Output, with_json
from hobus.launch.cli.commands.tools import Row, tool_rows, tools_of
from hobus.launch.cli.outcome import RUN_WAITING, exit_code_of
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, next_here, same_command
from hobus.launch.console.output import as_json, note, note_coloured, note_lines, printable, say
from hobus.launch.limits import JOURNAL_POLL_MS
from hobus.launch.sessions.notifications import Noticed, follow, in_shell
from hobus.launch.sessions.tool_texts import ToolText, text_of
from hobus.launch.sessions.tool_texts import words_of as words_of_tool
from hobus.launch.sessions.turns import beside, words_of
from hobus.launch.sessions.watched_turn import ROLE, answer_of

_DENIED = "denied"
REFUSALS = frozenset({_DENIED, "tool_not_permitted"})
"""Codes of a call that nobody made: an operator refused it, or the agent may not use the tool."""


Files = Sequence[tuple[ToolFile, bytes | None]]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of a call; `told` is what its order's end says besides, None where there is none to be read."""

    result: TurnResult
    told: ToolText | None
    files: Files = ()  # that it brought; None: erased
    saved: Sequence[str] = ()  # where they stand

    @property
    def code(self) -> str:
        """Why the tool brought nothing; empty if it did."""
        calls = self.result.tool_calls if self.result.outcome == "success" else []
        return (calls[0].code if calls else self.result.code) or ""

    @property
    def message(self) -> str:
        """Why it brought nothing, beginning with the code; as a supervisor says it."""
        return self.result.response.removeprefix("error ")

    @property
    def value(self) -> Any:
        """What the tool gave: JSON where it is that, else its text."""
        try:
            return json.loads(self.result.response)
        except ValueError:
            return self.result.response


def checked_arguments(tool_id: str, text: str, tools: Tools) -> dict[str, Any]:
    """The arguments of a call of this tool. Raises UsageFault that says what is wrong with them."""
    word = next((one for one in tools.tools if one.tool_id == tool_id), None)
    if word is None:
        known = ", ".join(one.tool_id for one in tools.tools) or "none"
        raise UsageFault(f"there is no tool {tool_id}; there are {known}", hint=next_here("tools"))
    arguments = object_in(text, depth_max=PARAMETERS_DEPTH_MAX)
    if arguments is None:
        raise UsageFault(
            f"the arguments are not a JSON object: {text[:80]}", hint=f"{next_here(f'tools call {tool_id}')} '{{}}'"
        )
    schema = object_in(word.parameters, depth_max=PARAMETERS_DEPTH_MAX) or {}
    arguments = with_defaults(schema, arguments)
    if faults := validator_of(schema).faults(arguments):
        said = "; ".join(str(one) for one in faults)
        takes = f"its schema is {json.dumps(schema)}" if schema.get("properties") else f"{tool_id} takes no arguments"
        raise UsageFault(f"the arguments do not fit {tool_id}: {said}", hint=takes)
    return arguments


async def _called(place: Place, turn: ProcessTurn, *, timeout_s: float, folder: Path | None = None) -> CallOutcome:
    """The call made as a turn of a session of its own, which its supervisor ends with it.

    Meanwhile it is told on stderr when it waits for an approval. Raises RuntimeFault, CommandError.
    """
    session_id = session_id_of(ROLE, turn.input_id)
    result = await beside(
        answer_of(place, turn, timeout_s=timeout_s),
        follow(place, session_id, turn.input_id, Noticed(session_id, says=in_shell), note_lines),
    )
    is_denied = any(one.code == _DENIED for one in result.tool_calls)
    if result.run_id is None or result.code == "run_waiting" or is_denied:
        return CallOutcome(result, None)
    async with connected(place, "operator") as bus:
        end = await _end_of_order(bus, direct_order_id(result.run_id), place)
    if end is None:
        return CallOutcome(result, None)
    files = files_in(end)
    return CallOutcome(
        result, text_of(end), files, [] if folder is None else _saved(files, folder / shown_session(session_id))
    )


def _saved(files: Files, folder: Path) -> list[str]:
    """Where the files stand now. Raises CommandError."""
    paths = [folder / f"{number}-{file.name.replace('/', '_')}" for number, (file, _data) in enumerate(files, 1)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, (_file, data) in zip(paths, files, strict=True):
            path.write_bytes(data or b"")
    except OSError as error:
        raise CommandError(f"the files cannot be saved in {folder}: {error.strerror}") from None
    return [*map(str, paths)]


async def _end_of_order(bus: Bus, wo_id: str, place: Place) -> Entry | None:
    """As soon as it is in the record: what a repeatable tool brought is answered a moment before that."""
    deadline = bus.clock.monotonic() + place.client_timeout_s
    while bus.clock.monotonic() < deadline:
        question = Lookup(once=[end_key(wo_id)], with_bodies=True)
        found = await bus.request("ledger", question, expect=Found, timeout_s=place.client_timeout_s)
        if found.entries and found.entries[0] is not None:
            return found.entries[0]
        await bus.sleep(JOURNAL_POLL_MS / 1000)
    return None


@click.command("call")
@click.argument("tool_id", metavar="NAME")
@click.argument("arguments", metavar="[JSON]", default="{}")
@with_agent
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait, e.g. 90 or 2m.")
@click.option("--input-id", metavar="ID", help="Idempotency key of this call; the same key never runs it twice.")
@click.option("--save", metavar="DIR", type=click.Path(path_type=Path), help="Where the files that it brings go.")
@with_json
@with_cluster
def call(  # noqa: PLR0913 - one per option
    *,
    place: Place,
    tool_id: str,
    arguments: str,
    agent: str | None,
    timeout_s: float | None,
    input_id: str | None,
    save: Path | None,
) -> Output:
    """Call one tool as its agent would, without a model; JSON `-` reads standard input, without it {} is given.

    It is an order of the cluster as any other: permissions and approvals hold, it is in the record, and it never runs
    twice. The result is printed; what the tool printed, and the traceback of what it raised, follow on stderr. Exit
    code 0 for a result, 1 if the tool failed, 5 if the call was refused, 4 while it waits for an approval.
    """
    config = place.snapshot.config
    agent = known_agent(agent, place.snapshot, running_in=place.home)
    text = words_of(sys.stdin.read() if arguments == "-" else arguments)
    if tool_id in place.snapshot.agents:
        raise UsageFault(f"{tool_id} is an agent", hint=next_here(f"ask --agent {tool_id} TEXT"))
    there = asyncio.run(tools_of(place))
    given = checked_arguments(tool_id, text, there)
    may = next(row["agents"] for row in tool_rows(there, place.snapshot) if row["tool_id"] == tool_id)
    wait_s = seconds_to_wait(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    input_id = input_id or SystemClock().new_id()
    turn = ProcessTurn(
        input_id=input_id,
        text=json.dumps(given, ensure_ascii=False),
        agent_id=agent,
        run_overrides=SessionConfig(calls_tool=tool_id),
    )
    try:
        called = asyncio.run(_called(place, turn, timeout_s=wait_s, folder=save))
    except KeyboardInterrupt:
        note(f"not waiting any more; the call goes on: the same again with --input-id {input_id} (it never runs twice)")
        raise
    show = partial(_show_called, called, tool_id, input_id, limit=config.tools.output_max_bytes, agent=agent, may=may)
    return Output(_called_document(tool_id, given, called), show, _exit_code(called))


def _called_document(tool_id: str, given: dict[str, Any], called: CallOutcome) -> Row:
    result, told = called.result, called.told
    return {
        "tool_id": tool_id,
        "arguments": given,
        "ok": not called.code,
        "code": called.code,
        "value": None if called.code else called.value,
        "truncated": None if told is None else told.truncated,
        "message": called.message if called.code else "",
        "files": [file.model_dump() for file, _data in called.files],
        "saved": called.saved,
        "printed": "" if told is None else told.printed,
        "traceback": "" if told is None else told.traceback,
        "tool_ms": None if told is None else told.elapsed_ms,
        "elapsed_ms": result.elapsed_ms,
        "session_id": result.session_id,
        "input_id": result.input_id,
    }


def _show_called(  # noqa: PLR0913 - what is said of a call
    called: CallOutcome, tool_id: str, input_id: str, *, limit: int, agent: str | None, may: list[str]
) -> None:
    """The result alone on stdout; the rest on stderr. A call without one ends the command as an error.

    `limit`: bytes of a result that is not cut; `agent`: whose tool it was to be, where that was said; `may`: agents
    that may use it.
    """
    if not called.code:
        value = called.value
        say(value if isinstance(value, str) else as_json(value, indent=1))
    if called.told is not None and called.told.truncated:
        note_coloured(f"the value is cut: it has more than {limit} bytes (tools.output_max_bytes)", "yellow")
    if called.files:
        where = ", ".join(called.saved) or "in the record; --save DIR writes them into a folder"
        note(f"files: {printable(where)}")
    for line in [] if called.told is None else words_of_tool(called.told):
        note(printable(line))
    if called.told is not None:
        took = (
            f"{called.told.tool or tool_id} · {called.told.elapsed_ms} ms · {shown_session(called.result.session_id)}"
        )
        note_coloured(took, "bright_black")
    if called.code:
        hint = f"the same again with --input-id {input_id}" if called.code == RUN_WAITING else ""
        if called.code == "tool_not_permitted":
            hint = _who_may(tool_id, may, is_named=agent is not None)
        raise CommandError(called.message, hint=hint, exit_code=_exit_code(called))


def _who_may(tool_id: str, may: list[str], *, is_named: bool) -> str:
    """What to do about a call that its agent may not make."""
    if not may:
        return f"no agent may use {tool_id}: {next_here('tools')}"
    return f"{', '.join(may)} may use it" if is_named else same_command("--agent", may[0])


def _exit_code(called: CallOutcome) -> int:
    if called.result.outcome != "success":
        return exit_code_of(called.result)
    if not called.code:
        return exit_codes.OK
    return exit_codes.REFUSED if called.code in REFUSALS else exit_codes.FAILED
