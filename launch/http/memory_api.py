"""What is remembered of the key that asks, and how it changes that: `hobus memory`, for its own lines alone.

The memory process refuses a door that names no key, or changes a line of another one than it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hobus.bus.errors import MemoryFault, mark_in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import NonBlank, Record, make_from
from hobus.bus.messages.ids import KEY_PREFIX, format_iso
from hobus.launch.http.context import Door
from hobus.launch.http.openai_api import get_door, get_principal, read
from hobus.launch.http.problems import Problem

_ARTIFACT = re.compile(r"ART-[!-~]{1,76}")
_PLACE = re.compile(r"\d{1,18}")
_CHANGES: dict[str, type[m.DeactivateOverlay | m.ActivateOverlay | m.ConfirmOverlay | m.UpdateOverlayWeight]] = {
    "deactivate": m.DeactivateOverlay,
    "activate": m.ActivateOverlay,
    "confirm": m.ConfirmOverlay,
    "reject": m.DeactivateOverlay,
    "weight": m.UpdateOverlayWeight,
}


class MemoryLine(Record):
    """One learned line."""

    artifact_id: str
    state: Annotated[
        m.OverlayState, Meta(description="active: it may stand in prompts; pending: a constraint to be confirmed")
    ]
    line: Annotated[str, Meta(description="as it stands in prompts")]
    artifact_type: m.ArtifactType
    labels: Annotated[m.Labels, Meta(description="turns about one of these are shown it; of scope global all are")]
    scope: m.ArtifactScope
    session_id: Annotated[str | None, Meta(description="of scope session")]
    weight: Annotated[float, Meta(description="0 (silent) to 1")]
    created_at: str
    expires_at: str | None
    source_signal_ids: Annotated[list[str], Meta(description="the habits or the statement behind it")]
    source_event_count: Annotated[int, Meta(description="events that it rests on")]


class MemoryLines(Record):
    """A page of the lines of the key that asks, in the order in which they were learned."""

    agent_id: str
    lines: list[MemoryLine]
    next: Annotated[int | None, Meta(description="`after` of the next page; null: that is all")]
    as_of: Annotated[str, Meta(description="the moment that was asked about")]


class MemoryChangeBody(Record):
    """`POST /v1/memory/{artifact_id}`."""

    change: Annotated[
        Literal["deactivate", "activate", "confirm", "reject", "weight"],
        Meta(description="confirm and reject: of a constraint that waits; deactivate: nor is it learned again"),
    ]
    weight: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="the new one, of weight alone")] = (
        None
    )
    reason: Annotated[NonBlank, Meta(description="kept in the record; at most 200 characters")] = "over HTTP"


async def read_lines(request: Request) -> Response:
    """List what is remembered of this key; `all=true`: in every state, else what is active or waits to be confirmed."""
    door, asked = get_door(request), _read_query(request, "all", "after", "agent_id")
    if asked.get("all", "false") not in ("true", "false"):
        raise Problem(400, "invalid_input", "all: expected true or false", param="all")
    after = asked.get("after", "")
    if after and not _PLACE.fullmatch(after):
        raise Problem(400, "invalid_input", "after: expected `next` of the page before", param="after")
    agent_id = _choose_agent(door, asked.get("agent_id"))
    question = m.ReadOverlays(
        agent_id=agent_id,
        principal=_find_whose(request),
        active_only=False,
        after=int(after) if after else m.FIRST_PAGE,
    )
    found = await door.bus.request("ho3", question, expect=m.Overlays, timeout_s=door.timeout_s)
    is_all = asked.get("all") == "true"
    shown = [_make_line(one) for one in found.overlays if is_all or one.state in ("active", "pending")]
    page = MemoryLines(agent_id=agent_id, lines=shown, next=found.next, as_of=found.as_of.as_of_ts)
    return JSONResponse(page.model_dump(mode="json"))


async def change_line(request: Request) -> Response:
    """Confirm, reject, switch off or on, or weigh one of this key's lines; 404 for any other."""
    body = await read(request, MemoryChangeBody)
    if (body.change == "weight") != (body.weight is not None):
        raise Problem(400, "invalid_input", "weight: expected with change `weight` and no other", param="weight")
    return await _change(request, body)


async def forget_line(request: Request) -> Response:
    """Switch one of this key's lines off: it is in no prompt, and not learned again. The record keeps that it was."""
    return await _change(request, MemoryChangeBody(change="deactivate"))


async def _change(request: Request, body: MemoryChangeBody) -> Response:
    door, artifact_id = get_door(request), request.path_params["artifact_id"]
    if not _ARTIFACT.fullmatch(artifact_id):
        raise Problem(404, "unknown_artifact", "no such line: expected ART-…", param="artifact_id")
    given = _read_query(request, "agent_id").get("agent_id")
    first = _choose_agent(door, given)
    about: dict[str, Any] = {
        "artifact_id": artifact_id, "principal": _find_whose(request), "reason": body.reason,
        "at": format_iso(door.bus.now()), **({} if body.weight is None else {"new_weight": body.weight}),
    }  # fmt: skip
    unknown: MemoryFault | None = None
    for agent_id in dict.fromkeys([first] if given else [first, *door.snapshot.agents]):
        change = _CHANGES[body.change](agent_id=agent_id, **about)
        try:
            with mark_in_doubt():
                changed = await door.bus.request("ho3", change, expect=m.OverlayChanged, timeout_s=door.timeout_s)
        except MemoryFault as fault:
            if fault.code != "unknown_artifact":
                raise
            unknown = unknown or fault
            continue
        return JSONResponse(_make_line(changed.overlay).model_dump(mode="json"))
    raise unknown or AssertionError("no agent was asked")


def _read_query(request: Request, *known: str) -> Mapping[str, str]:
    """Return the query. Raises Problem for an unknown key: it may have been meant to narrow something."""
    for key in request.query_params:
        if key not in known:
            said = f"no such key of the query; there are {', '.join(known)}"
            raise Problem(400, "invalid_input", said, param=key[:80])
    return request.query_params


def _find_whose(request: Request) -> str:
    return f"{KEY_PREFIX}{get_principal(request)}"


def _choose_agent(door: Door, given: str | None) -> str:
    """Return the agent whose memory it is. Raises Problem: memory is off, or there is no such agent."""
    if door.config.memory is None:
        raise Problem(404, "memory_off", "memory is off in this cluster")
    agent_id = given or door.config.host.agent_id
    if agent_id not in door.snapshot.agents:
        known = ", ".join(door.snapshot.agents)
        raise Problem(404, "not_found", f"no such agent; configured: {known}", param="agent_id")
    return agent_id


def _make_line(overlay: m.Overlay) -> MemoryLine:
    made = overlay.artifact
    return make_from(
        MemoryLine, made, state=overlay.state, line=made.context_line, created_at=made.created_at_event_ts,
        expires_at=made.expires_at_event_ts, source_event_count=len(made.source_event_ids),
    )  # fmt: skip
