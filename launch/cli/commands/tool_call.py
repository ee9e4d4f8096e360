"""`hobus tools call`: one tool, called in a turn that the offline model answers."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.json_text import read_object
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX, Tools
from hobus.bus.messages.ids import derive_session_id, shorten_session
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.config.json_schema import get_validator
from hobus.config.schema_defaults import with_defaults
from hobus.launch.cli.commands.cluster_options import (
    choose_timeout,
    find_known_agent,
    make_overrides,
    with_agent,
    with_cluster,
)
from hobus.launch.cli.commands.options import DURATION, Output, with_json
from hobus.launch.cli.commands.tools import ask_tools
from hobus.launch.cli.outcome import RUN_WAITING, exit_code_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, format_next_here
from hobus.launch.console.output import as_json, note_coloured, note_lines, say
from hobus.launch.sessions.notifications import Noticed, describe_in_shell, follow
from hobus.launch.sessions.turns import decode_argument, run_beside
from hobus.launch.sessions.watched_turn import ROLE, answer_of

_OFFLINE = "offline/offline-rules-1"
"""The model that calls the tool it is told to, and says what that brought; no network, no tokens."""
_REFUSALS = frozenset({"denied", "tool_not_permitted"})


def check_arguments(tool_id: str, text: str, tools: Tools) -> dict[str, Any]:
    """Return the arguments of a call of this tool. Raises UsageFault that says what is wrong with them."""
    word = next((one for one in tools.tools if one.tool_id == tool_id), None)
    if word is None:
        known = ", ".join(one.tool_id for one in tools.tools) or "none"
        raise UsageFault(f"there is no tool {tool_id}; there are {known}", hint=format_next_here("tools"))
    arguments = read_object(text, depth_max=PARAMETERS_DEPTH_MAX)
    if arguments is None:
        raise UsageFault(
            f"the arguments are not a JSON object: {text[:80]}",
            hint=f"{format_next_here(f'tools call {tool_id}')} '{{}}'",
        )
    schema = read_object(word.parameters, depth_max=PARAMETERS_DEPTH_MAX) or {}
    arguments = with_defaults(schema, arguments)
    if faults := get_validator(schema).faults(arguments):
        said = "; ".join(str(one) for one in faults)
        raise UsageFault(f"the arguments do not fit {tool_id}: {said}", hint=f"its schema is {json.dumps(schema)}")
    return arguments


@click.command("call")
@click.argument("tool_id", metavar="NAME")
@click.argument("arguments", metavar="[JSON]", default="{}")
@with_agent
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait, e.g. 90 or 2m.")
@click.option("--input-id", metavar="ID", help="Idempotency key of this call: the same key never runs it twice.")
@with_json
@with_cluster
def call(  # noqa: PLR0913 - one per option
    *, place: Place, tool_id: str, arguments: str, agent: str | None, timeout_s: float | None, input_id: str | None
) -> Output:
    """Call one tool as its agent would. JSON `-` reads standard input; default: {}.

    It is a turn in which the offline model makes this call: permissions and approvals apply, and it is recorded. Exit
    codes: 0 a result, 1 the tool failed, 4 the call waits for an approval, 5 it was refused.
    """
    agent = find_known_agent(agent, place.snapshot, running_in=place.home)
    text = decode_argument(sys.stdin.read() if arguments == "-" else arguments)
    given = check_arguments(tool_id, text, asyncio.run(ask_tools(place)))
    overrides = make_overrides(None, _OFFLINE, place.snapshot, agent=agent)
    asked = place.snapshot.agents[agent or place.snapshot.config.host.agent_id]
    if overrides is not None and asked.output_schema is not None:  # in that form an answer is not the tool's result
        overrides = overrides.model_copy(update={"output_schema": {"type": "object"}})
    wait_s = choose_timeout(timeout_s, place.snapshot.config, default_ms=place.snapshot.config.host.turn_timeout_ms)
    input_id = input_id or SystemClock().new_id()
    words = f"use {tool_id} {json.dumps(given, ensure_ascii=False)}"
    turn = ProcessTurn(input_id=input_id, text=words, agent_id=agent, run_overrides=overrides)
    result = asyncio.run(_ask(place, turn, wait_s))
    code = next((one.code for one in result.tool_calls), "") or result.code or ""
    if result.outcome == "success" and not result.tool_calls:
        code = "not_called"
    answer = _read_value(result.response)
    said = answer["answer"] if isinstance(answer, dict) and answer.keys() == {"answer"} else result.response
    value = _read_value(said.removeprefix(f"{tool_id}: "))
    document = {
        "tool_id": tool_id, "arguments": given, "ok": not code, "code": code, "value": None if code else value,
        "message": said if code else "", "elapsed_ms": result.elapsed_ms, "session_id": result.session_id,
        "input_id": input_id,
    }  # fmt: skip
    exit_code = _exit_code(result, code)

    def show() -> None:
        if code:
            hint = f"the same again with --input-id {input_id}" if code == RUN_WAITING else ""
            raise CommandError(f"{code}: {said}", hint=hint, exit_code=exit_code)
        say(value if isinstance(value, str) else as_json(value, indent=1))
        note_coloured(f"{tool_id} · {result.elapsed_ms} ms · {shorten_session(result.session_id)}", "bright_black")

    return Output(document, show, exit_code)


async def _ask(place: Place, turn: ProcessTurn, timeout_s: float) -> TurnResult:
    """Return the turn's answer; tell meanwhile when it waits for an approval. Raises RuntimeFault, CommandError."""
    session_id = derive_session_id(ROLE, turn.input_id)
    noticed = Noticed(session_id, says=describe_in_shell)
    answer = answer_of(place, turn, timeout_s=timeout_s)
    return await run_beside(answer, follow(place, session_id, turn.input_id, noticed, note_lines))


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _exit_code(result: TurnResult, code: str) -> int:
    if result.outcome != "success":
        return exit_code_of(result)
    if not code:
        return exit_codes.OK
    return exit_codes.REFUSED if code in _REFUSALS else exit_codes.FAILED
