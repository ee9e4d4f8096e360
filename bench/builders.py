"""The shipped configuration, read once, copies of it with some settings changed, and messages that are valid under it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hobus.bus.messages.gateway import Prompt, PromptMessage
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.work_order import Constraints, Fence, Segment, ToolCall, WorkOrder
from hobus.config.snapshot import Snapshot, load_snapshot

SESSION = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"
WO = f"WO-{SESSION}-1.1.1"


@cache
def shipped_snapshot() -> Snapshot:
    return load_snapshot()


def changed(values: dict[str, Any], changes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """These values, with some settings, each named by its dotted path, in them."""
    for path, value in changes:
        *sections, name = path.split(".")
        section = values
        for step in sections:
            section = section[step]
        assert name in section, f"{path} is no setting"
        section[name] = list(value) if isinstance(value, tuple) else value
    return values


@cache
def shipped_with(*changes: tuple[str, Any]) -> Snapshot:
    """The shipped snapshot with some values of `admin_config.json` changed."""
    shipped = shipped_snapshot()
    return replace(shipped, config=type(shipped.config).model_validate(changed(shipped.config.model_dump(), changes)))


def write_config(path: Path, *changes: tuple[str, Any]) -> Path:
    config = changed(shipped_snapshot().config.model_dump(mode="json"), changes)
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def prompt(key: str = "WO-a#1", text: str = "hello", **changes: Any) -> Prompt:
    values: dict[str, Any] = {
        "messages": [PromptMessage(role="user", segments=[Segment(name="user_input", text=text)])],
        "prompt_pack_id": "PRM-SYNTHESIZE-001", "contract_id": "PRC-SYNTHESIZE-001", "agent_id": "ADMIN",
        "work_order_id": key.partition("#")[0], "session_id": SESSION, "max_tokens": 100, "temperature": 0.0,
        "idempotency_key": key,
    }  # fmt: skip
    return Prompt(**{**values, **changes})


def order(wo_type: str = "synthesize", **changed: Any) -> WorkOrder:
    """A dispatched order of the shipped configuration; `constraints` given are merged into small ones."""
    contract = {"classify": "PRC-CLASSIFY-001", "consolidate": "PRC-CONSOLIDATE-001", "tool_call": ""}
    constraints: dict[str, Any] = {
        "prompt_contract_id": contract.get(wo_type, "PRC-SYNTHESIZE-001"), "token_budget": 10_000,
        "budget_mode": "warn", "timeout_seconds": 10.0, **changed.pop("constraints", {}),
    }  # fmt: skip
    fields: dict[str, Any] = {
        "wo_id": WO, "session_id": SESSION, "agent_id": "ADMIN", "agent_class": "ADMIN", "framework_id": "FMWK-107",
        "fence": Fence(run_id=RunId(session_id=SESSION, run_seq=1), session_epoch=1, step_epoch=1),
        "wo_type": wo_type, "state": "dispatched", "planned_at": "2026-01-01T00:00:00.000000Z",
        "created_by": "ho2/1@s1",
        "input_context": [Segment(name="user_input", ref="RunRequested:i1/1", text="what packages are installed?")],
        "constraints": Constraints(**constraints), "config_digest": shipped_snapshot().digest,
    }  # fmt: skip
    return WorkOrder(**{**fields, **changed})


def tool_order(tool_id: str = "list_packages", arguments: Mapping[str, Any] | None = None, **changed: Any) -> WorkOrder:
    call = ToolCall(call_id="001", tool_id=tool_id, arguments=dict(arguments or {}))
    constraints = {"tools_allowed": [tool_id], "token_budget": 1, **changed.pop("constraints", {})}
    return order("tool_call", **{"tool_call": call, "input_context": [], "constraints": constraints, **changed})
