"""What a message is classified beside: what its session is for, and what was said last; by a template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, AttentionRequest, Fragment, list_parts
from hobus.actors.ho2_supervisor.attention.pipeline import FragmentSource, Room
from hobus.actors.ho2_supervisor.turn import intents
from hobus.actors.ho2_supervisor.turn.blocks import compile_unsafe, make_whole_harmless
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.text_parts import TextPart
from hobus.config.assets import ContractPurpose
from hobus.config.attention_rules import get_tokens
from hobus.config.attention_template import OfTurn
from hobus.config.prompt_contracts import get_contract_id


async def assemble(run: Run) -> tuple[list[Segment], AssembledContext]:
    """Return what this run's classification is shown beside its message; the same whenever the run is driven."""
    attention = run.resources.attention
    request = make_request(run, "classify", run.first_order_id)
    context = await attention.assemble(request, attention.choose_template(request), _make_sources(run))
    # As the prompt pack calls what the session is for, and what was said last.
    shown = (("active_intent", context.of("liveness")), ("earlier", context.of("history")))
    segments = [
        Segment(name=name, ref=part.ref, text=part.text) for name, fragments in shown for part in list_parts(fragments)
    ]
    return segments, context


def make_request(run: Run, purpose: ContractPurpose, order_id: str, **bounds: Any) -> AttentionRequest:
    return AttentionRequest(
        agent=run.agent,
        contract=run.resources.snapshot.contracts[get_contract_id(run.agent, purpose)],
        session_id=run.session.session_id,
        work_order_id=order_id,
        at=run.requested.at,
        user_input=run.input_text,
        **bounds,
    )


def count_chars_left(run: Run, config: OfTurn, room: Room) -> int:
    """Return how many characters a stage may still show."""
    if config.max_tokens is None:
        return room.account.chars_left
    cpt = run.config.attention.chars_per_token
    return min(room.account.chars_left, get_tokens(config.max_tokens, run.config.budget) * cpt)


def _make_sources(run: Run) -> dict[str, FragmentSource]:
    unsafe = compile_unsafe(run.resources.snapshot.prompt_packs)

    def show(fragments: Sequence[Fragment]) -> FragmentSource:
        def yield_fitting(config: OfTurn, room: Room) -> Iterator[Fragment]:
            for fragment in [make_whole_harmless(one, unsafe) for one in fragments]:
                if fragment.chars <= count_chars_left(run, config, room):
                    yield fragment

        return yield_fitting

    # The newest turn's line is enough to tell a first message from a later one.
    said = [Fragment("history", one.input_id, (TextPart(None, one.text),)) for one in run.history.lines[-1:]]
    return {"liveness": show(intents.show_active_objective(run)), "history": show(said)}
