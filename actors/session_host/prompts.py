"""The prompt of the last resort. Pure."""

from __future__ import annotations

from hobus.actors.session_host.turns import Turn
from hobus.bus.errors import ConfigError
from hobus.bus.messages.gateway import DegradedPrompt, Prompt
from hobus.bus.messages.ids import degraded_call_key, degraded_order_id
from hobus.bus.messages.work_order import Segment
from hobus.config.prompt_pack import fill_pack, parse_pack
from hobus.config.snapshot import Snapshot

CONTRACT = "PRC-DEGRADED-001"


class DegradedPrompts:
    """Prompts under PRC-DEGRADED-001: the user's message and basic facts about the agent; no memory, no tools."""

    def __init__(self, snapshot: Snapshot) -> None:
        contract = snapshot.contracts.get(CONTRACT)
        if contract is None:
            raise ConfigError(f"contracts: {CONTRACT} is missing; the session host degrades with it")
        text = snapshot.prompt_packs.get(contract.prompt_pack_id)
        if text is None:
            raise ConfigError(f"prompt_packs: {contract.prompt_pack_id} of {CONTRACT} is missing")
        self._contract = contract
        self._pack = parse_pack(contract.prompt_pack_id, text)
        self._snapshot = snapshot

    def prompt_of(self, turn: Turn) -> DegradedPrompt:
        """The call for this turn; the same for every retry of its input id."""
        agent = self._snapshot.agents.get(turn.agent_id)
        agent_class = agent.agent_class if agent else ""
        facts = {"agent_id": turn.agent_id, "agent_class": agent_class, "user_input": turn.text}
        order_id = degraded_order_id(turn.input_id)
        boundary = self._contract.boundary
        prompt = Prompt(
            messages=fill_pack(self._pack, {name: [Segment(name=name, text=text)] for name, text in facts.items()}),
            prompt_pack_id=self._contract.prompt_pack_id,
            contract_id=CONTRACT,
            agent_id=turn.agent_id,
            agent_class=agent_class,
            framework_id=agent.framework_id if agent else "",
            package_id=turn.package_id,
            work_order_id=order_id,
            session_id=turn.session_id,
            tier=self._contract.tier or "",
            max_tokens=boundary.max_tokens,
            temperature=boundary.temperature,
            idempotency_key=degraded_call_key(turn.session_id, turn.input_id),
            config_digest=self._snapshot.digest,
        )
        return DegradedPrompt(prompt=prompt)
