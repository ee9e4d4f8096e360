"""An engine with templates made for a test, a clock that a test moves, and sources that give what they are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.builders import shipped_snapshot
from hobus.actors.ho2_supervisor.attention.context import AssembledContext, AttentionRequest, Fragment, make_fragment
from hobus.actors.ho2_supervisor.attention.engine import Engine
from hobus.actors.ho2_supervisor.attention.pipeline import FragmentSource, Room
from hobus.config.assets import AgentFile, Contract
from hobus.config.attention_template import Template
from hobus.config.schema import AdminConfig

AT = "2026-01-31T12:00:00.000000Z"
SESSION = "11111111-2222-5333-8444-555555555555"
ADMIN: AgentFile = shipped_snapshot().agents["ADMIN"]
SYNTHESIZE: Contract = shipped_snapshot().contracts["PRC-SYNTHESIZE-001"]


@dataclass
class Ticks:
    """A monotonic clock."""

    at_s: float = 0.0

    def __call__(self) -> float:
        return self.at_s


def template(*pipeline: Mapping[str, Any], template_id: str = "ATT-TEST-001", **fields: Any) -> Template:
    """A template of these stages; a stage without a name has its type's."""
    stages = [{"stage": f"{stage['type']}_{number}", **stage} for number, stage in enumerate(pipeline)]
    values: dict[str, Any] = {
        "template_id": template_id, "version": "1.0.0", "title": "of a test", "applies_to": {}, "pipeline": stages,
        "budget": {"max_context_tokens": 1000, "max_queries": 10, "timeout_ms": 1000},
        "fallback": {"on_timeout": "return_partial", "on_empty": "proceed_empty"},
    }  # fmt: skip
    for name, value in fields.items():
        values[name] = value | {} if not isinstance(values.get(name), dict) else {**values[name], **value}
    return Template.model_validate(values)


def requiring(**required: Any) -> Contract:
    """The contract of answers with this required context."""
    return SYNTHESIZE.model_copy(update={"required_context": SYNTHESIZE.required_context.model_validate(required)})


def request(**fields: Any) -> AttentionRequest:
    """What a turn of ADMIN asks for."""
    values: dict[str, Any] = {
        "agent": ADMIN, "contract": SYNTHESIZE, "session_id": SESSION, "work_order_id": f"WO-{SESSION}-1.2.1", "at": AT,
        "user_input": "what packages are installed?",
    }  # fmt: skip
    return AttentionRequest(**{**values, **fields})


@dataclass
class Assembling:
    """An engine and what it asks."""

    templates: Sequence[Template]
    given: Mapping[str, Sequence[Fragment]] = field(default_factory=dict)
    """Type of stage -> what its source gives; one question each."""
    sources: dict[str, FragmentSource] = field(default_factory=dict)
    config: AdminConfig = field(default_factory=lambda: shipped_snapshot().config)
    clock: Ticks = field(default_factory=Ticks)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = {one.template_id: one for one in self.templates}
        self.engine = Engine(self.config, known, {name: name.encode() for name in known}, self.clock)
        self.sources = {**{kind: self._giving(kind) for kind in self.given}, **self.sources}

    def _giving(self, kind: str) -> FragmentSource:
        async def source(config: Any, room: Room) -> AsyncGenerator[Fragment, None]:
            self.asked.append((kind, config))
            room.account.query()
            for fragment in self.given[kind]:
                yield fragment

        return source

    async def assembled(self, **fields: Any) -> AssembledContext:
        """The context of the one template, or of the one that applies."""
        wanted = request(**fields)
        return await self.engine.assemble(wanted, self.engine.choose_template(wanted), self.sources)


def fragments(source: Any, *texts: str, score: float | None = None) -> list[Fragment]:
    """One fragment per text, named by its place."""
    return [make_fragment(source, f"{source}-{number}", text, score=score) for number, text in enumerate(texts, 1)]
