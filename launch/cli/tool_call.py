"""One tool called by an operator: what is checked before, the turn that calls it, and what is told of it afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hobus.bus.json_text import object_in
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX, Tools
from hobus.bus.messages.ids import direct_order_id, end_key, session_id_of, shown_session
from hobus.bus.messages.ledger import Entry, Found, Lookup
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.messages.work_order import ToolFile
from hobus.bus.port import Bus
from hobus.bus.record.payloads.orders import files_in
from hobus.config.json_schema import validator_of
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError, UsageFault, next_here
from hobus.launch.console.output import note_lines
from hobus.launch.sessions.following import follow
from hobus.launch.sessions.notifications import Noticed, in_shell
from hobus.launch.sessions.tool_texts import ToolText, text_of
from hobus.launch.sessions.turns import beside
from hobus.launch.sessions.watched_turn import ROLE, answer_of

_DENIED = "denied"
REFUSALS = frozenset({_DENIED, "tool_not_permitted"})
"""Codes of a call that nobody made: an operator refused it, or the agent may not use the tool."""


Files = Sequence[tuple[ToolFile, bytes | None]]


@dataclass(frozen=True, slots=True)
class Called:
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
    if faults := validator_of(schema).faults(arguments):
        said = "; ".join(str(one) for one in faults)
        takes = f"its schema is {json.dumps(schema)}" if schema.get("properties") else f"{tool_id} takes no arguments"
        raise UsageFault(f"the arguments do not fit {tool_id}: {said}", hint=takes)
    return arguments


async def call(place: Place, turn: ProcessTurn, *, timeout_s: float, folder: Path | None = None) -> Called:
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
        return Called(result, None)
    async with connected(place, "operator") as bus:
        end = await _end_of_order(bus, direct_order_id(result.run_id), place)
    if end is None:
        return Called(result, None)
    files = files_in(end)
    return Called(
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
        await bus.sleep(place.snapshot.config.launcher.journal_poll_ms / 1000)
    return None
