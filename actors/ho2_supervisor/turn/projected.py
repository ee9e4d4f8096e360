"""The projection of a turn: what is alive in its session, for its context, and the record of what became of it.

Its entries leave with the order that shows the context, in one write, and stand only if that does: however often the
run is driven, there is one of each. Driven again behind that order, a turn shows what that holds.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, Fragment, join_texts
from hobus.actors.ho2_supervisor.limits import HISTORY_DIGEST_CHARS
from hobus.actors.ho2_supervisor.projection import fragments as rules
from hobus.actors.ho2_supervisor.projection.liveness import LivenessState, find_liveness
from hobus.actors.ho2_supervisor.turn.intent_rules import hash_canonical, list_ruleset_rows
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.record.payloads.projection import Mode, ProjectionComputed, ShadowCompare

STREAM = "ho2_context_authority"


def find_alive(run: Run) -> LivenessState:
    """Return what is active in the run's session, from its fold: nothing is read."""
    record = run.session.record
    return find_liveness(record.state.intents, record.orders, session_open=record.state.status == "open")


def show_fragments(run: Run) -> list[Fragment]:
    """Return what is active, by priority; of intents only those that no message of the prompt says."""
    record = run.session.record
    said = {turn.input_ref for turn in record.history.turns}
    shown = {one.intent_id for one in run.memo.intents.active if one.objective_ref not in said}
    return rules.make_liveness_fragments(find_alive(run), record.objectives, shown)


def make_computed(run: Run, mode: Mode, projection: AssembledContext) -> WriteEntry:
    session_id, config, state = run.session.session_id, run.config, find_alive(run)
    told = projection.of("liveness", "memory")
    intents, orders = f"INT-{session_id}-", f"WO-{session_id}-"
    payload = ProjectionComputed(
        mode=mode,
        timestamp=run.requested.at,
        token_budget=run.agent.budget_tokens("projection", config.budget),
        tokens_used=sum(-(-(len(one.content) + 1) // config.attention.chars_per_token) for one in told),
        fragment_count=len(told),
        context_hash=_hash_text(join_texts(projection.of("liveness"))),
        ruleset_hash=hash_ruleset(config.attention.chars_per_token, HISTORY_DIGEST_CHARS),
        active_intents=tuple(one.removeprefix(intents) for one in state.active_intents),
        open_work_orders=tuple(one.removeprefix(orders) for one in state.open_work_orders),
        failed_items=tuple(one.wo_id.removeprefix(orders) for one in state.failed_items),
        escalations=tuple(one.wo_id.removeprefix(orders) for one in state.escalations),
        ho3_artifacts_injected=tuple(one.source_id for one in projection.of("memory")),
    )
    return run.make_entry("PROJECTION_COMPUTED", payload, stream=STREAM)


def make_compared(run: Run, shown: AssembledContext, projection: AssembledContext) -> WriteEntry:
    """Return PROJECTION_SHADOW_COMPARE: what a prompt shows beside its history, and what it would show."""
    beside = [[one for one in context.fragments if one.source != "history"] for context in (shown, projection)]
    texts = [join_texts(one) for one in beside]
    ids = [[fragment.source_id for fragment in one] for one in beside]
    cpt = run.config.attention.chars_per_token
    payload = ShadowCompare(
        shown_hash=_hash_text(texts[0]),
        projected_hash=_hash_text(texts[1]),
        shown_tokens=len(texts[0]) // cpt,
        projected_tokens=len(texts[1]) // cpt,
        only_shown=tuple(one for one in ids[0] if one not in ids[1]),
        only_projected=tuple(one for one in ids[1] if one not in ids[0]),
    )
    return run.make_entry("PROJECTION_SHADOW_COMPARE", payload, texts=texts, stream=STREAM)


@lru_cache(maxsize=8)
def hash_ruleset(chars_per_token: int, objective_chars: int) -> str:
    """Hash everything by which intents are resolved and projections computed, except template and budget."""
    return hash_canonical([list_ruleset_rows(), list(rules.PRIORITIES), chars_per_token, objective_chars])


def _hash_text(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
