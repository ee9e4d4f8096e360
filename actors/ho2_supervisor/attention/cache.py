"""Contexts assembled before, by what they were assembled for; in memory, bounded. Pure: times are arguments.

The key holds whatever a context depends on, so that one contract is never answered with another's context.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, AttentionRequest
from hobus.config.attention_template import Template


class Key(NamedTuple):
    """What a context was assembled for."""

    template_id: str
    template_version: str
    contract_id: str
    contract_version: str
    agent_id: str
    agent_class: str
    work_order_id: str
    session_id: str


def key_of(request: AttentionRequest, template: Template) -> Key:
    """The key of this request under this template."""
    return Key(
        template.template_id, template.version, request.contract.contract_id, request.contract.version,
        request.agent.agent_id, request.agent.agent_class, request.work_order_id, request.session_id,
    )  # fmt: skip


@dataclass(slots=True)
class ContextCache:
    """The newest contexts."""

    ttl_s: float
    contexts_max: int
    _kept: OrderedDict[Key, tuple[float, AssembledContext]] = field(
        default_factory=OrderedDict[Key, tuple[float, AssembledContext]]
    )

    def fresh(self, key: Key, now: float) -> AssembledContext | None:
        """One that is not older than its time; marked as cached."""
        found = self._kept.get(key)
        return None if found is None or now - found[0] > self.ttl_s else replace(found[1], is_cached=True)

    def last(self, key: Key) -> AssembledContext | None:
        """The last one, however old: for who has nothing better."""
        found = self._kept.get(key)
        return None if found is None else replace(found[1], is_cached=True)

    def keep(self, key: Key, context: AssembledContext, now: float) -> None:
        """It is there from now on, in place of an earlier one."""
        self._kept[key] = (now, context)
        self._kept.move_to_end(key)
        while len(self._kept) > self.contexts_max:
            self._kept.popitem(last=False)
