"""The projection in its turn: what the order shows of it by `projection.mode`, and the record of it.

Its entries leave with the order that shows the context, in one write, and stand only if that does: however often the
run is driven, there is one of each. Driven again behind that order, a turn shows what that holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hobus.actors.ho2_supervisor.projection import fragments as rules
from hobus.actors.ho2_supervisor.projection.fragments import Fragment, Projection
from hobus.actors.ho2_supervisor.projection.liveness import LivenessState, liveness_of
from hobus.actors.ho2_supervisor.turn.intent_rules import hash_of, ruleset_rows
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.ids import requested_id
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.payloads.projection import Mode, ProjectionComputed, ShadowCompare


class Shown(NamedTuple):
    """What a prompt gets: the memory lines and the assembled context; and what leaves with the order that shows it."""

    memory_lines: list[Segment]
    context: list[Segment]
    entries: list[WriteEntry]


def shown(run: Run, memory_lines: list[Segment], recorded: list[Segment] | None) -> Shown:
    """What this turn's prompts show beside their history. `memory_lines`: those that were chosen for the turn.

    `recorded`: the assembled context of the order that an earlier drive sent; None: it sent none.
    """
    mode = run.config.projection.mode
    if mode == "off":
        return Shown(memory_lines, [], [])
    if recorded is not None:
        return Shown(memory_lines, recorded, [])
    state = alive(run)
    remembered = rules.memory_fragments(memory_lines)
    found = project(run, [*rules.liveness_fragments(state, run.session.record.objectives), *remembered])
    computed = _entry(run, "PROJECTION_COMPUTED", computed_from(run, mode, state, found))
    if mode == "enforce":
        return Shown(_kept(memory_lines, found.ids("memory")), found.segments(), [computed])
    older = project(run, remembered)
    texts = ["\n".join(fragment.content for fragment in one.fragments) for one in (older, found)]
    compared = _entry(run, "PROJECTION_SHADOW_COMPARE", difference(older, found, texts), texts=texts)
    return Shown(memory_lines, [], [computed, compared])


def alive(run: Run) -> LivenessState:
    """What is alive in the run's session, as its fold has it: nothing is read for it."""
    record = run.session.record
    return liveness_of(record.state.intents, record.orders, session_open=record.state.status == "open")


def project(run: Run, fragments: Sequence[Fragment]) -> Projection:
    """What of these fits under the turn's budget."""
    config = run.config
    return rules.project(
        fragments,
        budget_tokens=config.budget.projection_budget,
        chars_per_token=config.attention.chars_per_token,
    )


def computed_from(run: Run, mode: Mode, state: LivenessState, found: Projection) -> ProjectionComputed:
    """PROJECTION_COMPUTED of this turn."""
    session_id, config = run.session.session_id, run.config
    intents, orders = f"INT-{session_id}-", f"WO-{session_id}-"
    return ProjectionComputed(
        mode=mode,
        timestamp=run.requested.at,
        token_budget=config.budget.projection_budget,
        tokens_used=found.tokens_used,
        fragment_count=found.fragment_count,
        context_hash=found.context_hash,
        ruleset_hash=ruleset_hash(config.attention.chars_per_token, config.ho2.history_digest_chars),
        active_intents=tuple(one.removeprefix(intents) for one in state.active_intents),
        open_work_orders=tuple(one.removeprefix(orders) for one in state.open_work_orders),
        failed_items=tuple(one.wo_id.removeprefix(orders) for one in state.failed_items),
        escalations=tuple(one.wo_id.removeprefix(orders) for one in state.escalations),
        ho3_artifacts_injected=tuple(found.ids("memory")),
    )


def difference(older: Projection, found: Projection, texts: Sequence[str]) -> ShadowCompare:
    """What the one has and the other has not; `texts`: of both."""
    ids = [[fragment.source_id for fragment in one.fragments] for one in (older, found)]
    hashes = [hashlib.sha256(text.encode()).digest() for text in texts]
    return ShadowCompare(
        shown_hash=hashes[0],
        projected_hash=hashes[1],
        shown_tokens=older.tokens_used,
        projected_tokens=found.tokens_used,
        only_shown=tuple(one for one in ids[0] if one not in ids[1]),
        only_projected=tuple(one for one in ids[1] if one not in ids[0]),
    )


@lru_cache(maxsize=8)
def ruleset_hash(chars_per_token: int, objective_chars: int) -> str:
    """Of everything by which an intent is resolved and a projection computed, but for the budget."""
    return hash_of([ruleset_rows(), list(rules.PRIORITIES), chars_per_token, objective_chars])


def _kept(lines: Sequence[Segment], artifact_ids: Sequence[str]) -> list[Segment]:
    """The lines of these artifacts, line feeds between them."""
    kept = [line for line in lines if line.artifact_id in artifact_ids]
    if len(kept) == sum(line.artifact_id is not None for line in lines):
        return list(lines)
    parted = [part for line in kept for part in (Segment(name=line.name, text="\n"), line)]
    return parted[1:]


def _entry(run: Run, event_type: str, payload: tuple[Any, ...], *, texts: Sequence[str] = ()) -> WriteEntry:
    return run.resources.entry(
        event_type, payload, texts=texts, stream="ho2_context_authority",
        provenance=run.session.provenance(run.run_id.run_seq),
        parents=[requested_id(run.session.session_id, run.requested.input_id)], trace=run.trace,
    )  # fmt: skip
