"""What the host writes (that it degraded, what it delivered) and asks: the prompt of the last resort. Pure."""

from __future__ import annotations

from typing import Any

from hobus.actors.session_host.turns import Turn, explain_no_answer
from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import DegradedPrompt, Prompt, PromptResponse
from hobus.bus.messages.ids import (
    DEGRADED,
    derive_body_ref,
    derive_candidates_key,
    derive_degraded_call_key,
    derive_degraded_order_id,
    derive_delivered_key,
    derive_entry_id,
    derive_session_key,
    derive_turn_key,
    format_iso,
)
from hobus.bus.messages.ledger import WriteEntry, name_session_stream
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.journal import pack_event
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import Degradation
from hobus.bus.record.session_facts import SessionEvent, TurnDegraded
from hobus.config.begun_sessions import BegunSessions
from hobus.config.prompt_pack import fill_pack, parse_pack
from hobus.config.snapshot import Snapshot

_REASON_MAX_CHARS = 64


def answer_keys(turn: Turn) -> list[str]:
    """Return where an input's answer stands: what ended it, what was delivered without that, what it names besides.

    And, last, whose session it is.
    """
    keys = [
        name_of(turn.session_id, turn.input_id)
        for name_of in (derive_turn_key, derive_delivered_key, derive_candidates_key)
    ]
    return [*keys, derive_session_key(turn.session_id)]


def derive_delivered_id(turn: Turn) -> str:
    """Return the submission id of what a client was told while the record was away."""
    return derive_entry_id("TurnDegraded", f"{turn.session_id}/{turn.input_id}/delivered")


def make_degradation(turn: Turn, fault: RuntimeFault, *, now: float) -> WriteEntry:
    """Build DEGRADATION: why the supervisor did not answer. Its payload is the same however often it is tried."""
    return _make_entry(
        turn,
        derive_entry_id("DEGRADATION", f"{turn.session_id}/{turn.input_id}"),
        now,
        [pack_payload(Degradation(turn.input_id))],
        stream="governance",
        reason=f"{type(fault).__name__}:{fault.code}"[:_REASON_MAX_CHARS],
    )


def make_turn_degraded(
    turn: Turn, response: PromptResponse, fault: RuntimeFault, *, now: float, delivered: bool
) -> WriteEntry:
    """Build TurnDegraded without prev and tenure: undelivered it competes for the turn, delivered it says what was."""
    submission_id = (
        derive_delivered_id(turn)
        if delivered
        else derive_entry_id("TurnDegraded", f"{turn.session_id}/{turn.input_id}")
    )
    event = TurnDegraded(
        input_id=turn.input_id,
        input_ref=derive_body_ref(submission_id, 1),
        reply_ref=derive_body_ref(submission_id, 2),
        delivered=delivered,
        reason=explain_no_answer(turn, fault, response),
        total_tokens=response.input_tokens + response.output_tokens,
        cost_usd=response.cost_usd,
        at=format_iso(now),
    )
    # The reducer applies its own epochs: the host does not know them.
    envelope = SessionEvent(session_id=turn.session_id, session_epoch=0, step_epoch=0, event=event)
    payload = pack_event(envelope, submission_id, round(now * 1_000_000))
    return _make_entry(
        turn,
        submission_id,
        now,
        [payload, turn.text.encode(), response.content.encode()],
        stream=name_session_stream(turn.session_id),
        once=(derive_delivered_key if delivered else derive_turn_key)(turn.session_id, turn.input_id),
    )


def _make_entry(turn: Turn, submission_id: str, now: float, bodies: list[bytes], **facts: Any) -> WriteEntry:
    return WriteEntry(
        submission_id=submission_id,
        event_type=submission_id.partition(":")[0],
        decision="DEGRADED",
        provenance=turn.about,
        trace=turn.trace,
        at_us=round(now * 1_000_000),
        bodies=bodies,
        **facts,
    )


class DegradedPrompts:
    """Prompts under PRC-DEGRADED-001: the user's message and basic facts about the agent; no memory, no tools."""

    def __init__(self, snapshot: Snapshot) -> None:
        contract = snapshot.contracts.get(DEGRADED)
        if contract is None:
            raise ConfigError(f"contracts: {DEGRADED} is missing; the session host degrades with it")
        text = snapshot.prompt_packs.get(contract.prompt_pack_id)
        if text is None:
            raise ConfigError(f"prompt_packs: {contract.prompt_pack_id} of {DEGRADED} is missing")
        self._contract = contract
        self._pack = parse_pack(contract.prompt_pack_id, text)
        self._snapshot = snapshot

    def make_prompt(self, turn: Turn, sessions: BegunSessions) -> DegradedPrompt:
        """Return the call for this turn, to where the turn would have gone; the same for every retry."""
        boundary, wanted, contract = self._contract.boundary, turn.message.run_overrides, self._contract
        route = sessions.route(turn.session_id, turn.agent_id, wanted, contract, self._snapshot)
        given = {
            "agent_id": [Segment(name="agent_id", text=turn.agent_id)],
            "agent_class": [Segment(name="agent_class", text=turn.about.agent_class)],
            "user_input": [Segment(name="user_input", text=turn.text, files=turn.message.files)],
        }
        prompt = make_from(
            Prompt,
            turn.about,
            messages=fill_pack(self._pack, given),
            prompt_pack_id=self._contract.prompt_pack_id,
            contract_id=DEGRADED,
            work_order_id=derive_degraded_order_id(turn.input_id),
            tier=self._contract.tier or "",
            provider_id=route[0],
            model_id=route[1],
            max_tokens=boundary.max_tokens,
            temperature=boundary.temperature,
            idempotency_key=derive_degraded_call_key(turn.session_id, turn.input_id),
            config_digest=self._snapshot.digest,
        )
        return DegradedPrompt(prompt=prompt)
