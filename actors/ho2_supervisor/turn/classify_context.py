"""What a message is classified beside: what its session is for, and what was said last; by a template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, AttentionRequest, Fragment, parts_of
from hobus.actors.ho2_supervisor.attention.pipeline import FragmentSource, Room
from hobus.actors.ho2_supervisor.turn import history, intents
from hobus.actors.ho2_supervisor.turn.blocks import harmless, harmless_whole, unsafe_in
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.text_parts import TextPart
from hobus.config.attention_rules import tokens_of
from hobus.config.attention_template import OfTurn
from hobus.config.prompt_contracts import contract_id_of

OBJECTIVE = "active_intent"
"""What the prompt pack calls what the session is for."""


EARLIER = "earlier"
"""What it calls what was said last."""


class Beside(NamedTuple):
    """What a classification's prompt shows beside its message."""

    segments: list[Segment]
    context: AssembledContext | None
    """None: nothing is classified."""


NOTHING = Beside([], None)


async def assembled(run: Run) -> Beside:
    """Assemble the context of this run's classification: the same whenever the run is driven."""
    attention = run.resources.attention
    request = AttentionRequest(
        agent=run.agent,
        contract=run.resources.snapshot.contracts[contract_id_of(run.agent, "classify")],
        session_id=run.session.session_id,
        work_order_id=run.first_order_id,
        at=run.requested.at,
        user_input=run.input_text,
    )
    context = await attention.tried(request, attention.template_for(request), _sources(run))
    shown = ((OBJECTIVE, context.of("liveness")), (EARLIER, context.of("history")))
    segments = [
        Segment(name=name, ref=part.ref, text=part.text) for name, fragments in shown for part in parts_of(fragments)
    ]
    return Beside(segments, context)


def chars_left(run: Run, config: OfTurn, room: Room) -> int:
    """Return how many characters a stage may still show."""
    if config.max_tokens is None:
        return room.account.chars_left
    cpt = run.config.attention.chars_per_token
    return min(room.account.chars_left, tokens_of(config.max_tokens, run.config.budget) * cpt)


def _sources(run: Run) -> dict[str, FragmentSource]:
    unsafe = unsafe_in(run.resources.snapshot.prompt_packs)

    def alive(config: OfTurn, room: Room) -> Iterator[Fragment]:
        for found in intents.active_objective(run):
            fragment = harmless_whole(found, unsafe)
            if fragment.chars <= chars_left(run, config, room):
                yield fragment

    def said(config: OfTurn, room: Room) -> Iterator[Fragment]:
        for input_id, line in history.newest_lines(run.history):
            fragment = Fragment("history", input_id, harmless([TextPart(None, line)], unsafe))
            if fragment.chars <= chars_left(run, config, room):
                yield fragment

    return {"liveness": alive, "history": said}
