"""The account of a turn: everything that the record has of it and of why it was answered so, made in one pass. Pure.

Every view of a turn (`hobus why`, `session show --turn`, the console's page, `--json`) shows parts of it. Every fact
names the entry that it was read from; the prompts are word for word what the provider got.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hobus.bus.lanes import get_role
from hobus.bus.messages.base import name_fields
from hobus.bus.messages.ids import derive_called_session, shorten_session
from hobus.bus.messages.session import ModelChoice
from hobus.bus.messages.work_order import CLASSIFICATION
from hobus.bus.record.payloads.orders import ContextAssembled, ContextBeside, FragmentTrace, QualityGate
from hobus.bus.record.payloads.prompts import PromptSent
from hobus.bus.record.session_facts import RunCompleted, RunRequested
from hobus.config.attention_template import CLASSIFICATIONS, CONSOLIDATIONS
from hobus.launch.sessions.evidence import Evidence, Seen, seen_in, short
from hobus.launch.sessions.history import TurnSeen
from hobus.launch.sessions.moments import Moment, all_moments
from hobus.launch.sessions.provenance import Configuration, UsedVersion, find_digest, list_used
from hobus.launch.sessions.steps import TIMED, Figures, Step, Totals, end_of_turn, failed_in, figures_of, steps_in
from hobus.launch.sessions.why_memory import MemoryShown, SignalSeen, learned_in, memory_shown, signals_in
from hobus.launch.sessions.why_prompts import PromptShown, prompts_shown

_BESIDE = ("INTENT_", "PROJECTION_", "ESCALATION", "BUDGET_WARNING", "DEGRADATION", "MEMORY_WARNING")
"""Beginnings of the names of entries that are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSeen:
    """An entry as it is."""

    event: str
    sequence: int
    decision: str
    says: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSeen:
    """What a prompt was given beside its message, and how that came about."""

    sequence: int
    what: Literal["answer", "classification", "consolidation", "other"]
    said: ContextAssembled | ContextBeside

    @property
    def fragments(self) -> tuple[FragmentTrace, ...]:
        return self.said.fragments if isinstance(self.said, ContextAssembled) else ()

    @property
    def elapsed_ms(self) -> int:
        said = self.said
        return said.elapsed_ms if isinstance(said, ContextAssembled) else sum(one.duration_ms for one in said.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAccount:
    """One turn, and all that the record has of it."""

    session_id: str
    turn: TurnSeen
    figures: Figures
    ended_us: int | None = None
    """When it had its answer, or its other end, in microseconds since 1970; None: not yet."""
    model: str = ""
    """`PROVIDER/MODEL` that is asked for the answer, and who named it; empty: none is, or the record does not say."""
    classification: dict[str, Any] | None = None
    classified: int | None = None
    """Sequence of the classification's end; None: there was none."""
    steps: tuple[Step, ...] = ()
    prompts: tuple[PromptShown, ...] = ()
    contexts: tuple[ContextSeen, ...] = ()
    memory: MemoryShown | None = None
    signals: tuple[SignalSeen, ...] = ()
    facts: tuple[FactSeen, ...] = ()
    """Intents, projections, warnings, and what the quality gate said."""
    moments: tuple[Moment, ...] = ()
    called_by: str = ""
    """The turn whose agent called this one; empty: a client asked."""
    calls: tuple[str, ...] = ()
    """Turns of agents that this one called, and that answered; of others a failure names it."""
    config_digest: str = ""
    made_of: tuple[UsedVersion, ...] = ()
    """Under which versions of agent, contracts, prompt packs, template and settings."""
    missing: tuple[str, ...] = ()
    """What could not be told, in sentences."""

    @property
    def name(self) -> str:
        """Return `SES-1a2b3c4d-2`; without a run, `SES-1a2b3c4d/<input id>`."""
        session = shorten_session(self.session_id)
        return f"{session}-{self.turn.run}" if self.turn.run else f"{session}/{self.turn.input_id}"

    @property
    def asked(self) -> PromptShown | None:
        """Return the last prompt that asked for the answer; None: there was none."""
        return next(
            (one for one in self.prompts[::-1] if one.step.about not in ("classification", "consolidation")), None
        )

    @property
    def totals(self) -> Totals:
        return self.figures.totals

    @property
    def failures(self) -> list[Step]:
        """Return what failed, in the order in which that was recorded."""
        return failed_in(self.steps)

    @property
    def waits(self) -> list[Step]:
        return [one for one in self.steps if one.kind == "wait"]

    @property
    def timed(self) -> list[Step]:
        return [one for one in self.steps if one.kind in TIMED]

    def document(self) -> dict[str, Any]:
        """Return the account as programs get it."""
        values = asdict(self)
        turn, figures, failed = values.pop("turn"), values.pop("figures"), [asdict(one) for one in self.failures]
        return name_fields({"turn": self.name, **turn, **figures, "what_failed": failed, **values})


def make_account(session_id: str, turn: TurnSeen, found: Evidence) -> TurnAccount:
    """Return the account of a turn; parts whose entries were not read are empty."""
    entries = seen_in(found.turn)
    steps, memory, digest = tuple(steps_in(entries)), memory_shown(found, entries), find_digest(entries)
    classified, labels = _classification(entries, steps)
    prompts = [*prompts_shown(entries, steps, found, learned_in(found, memory))]
    asked = next((one.said for one in entries if isinstance(one.said, RunRequested)), None)
    return TurnAccount(
        session_id=session_id,
        turn=turn,
        figures=figures_of(entries, steps),
        ended_us=end_of_turn(entries),
        model=_model(None if asked is None else asked.model),
        classification=labels,
        classified=classified,
        steps=steps,
        prompts=tuple(prompts),
        contexts=tuple(contexts_in(entries)),
        memory=memory,
        signals=signals_in(entries, found),
        facts=tuple(_facts(entries)),
        moments=tuple(all_moments(entries)),
        called_by="" if asked is None else asked.called_by.removeprefix("WO-").partition(".")[0],
        # An order that a supervisor ended was answered by another agent: workers end all others.
        calls=tuple(
            f"{derive_called_session(one.wo_id)}-1"
            for one in entries
            if one.type == "WO_COMPLETED" and get_role(one.entry.origin) == "ho2"
        ),
        config_digest=digest,
        made_of=list_used(entries, found.configurations),
        missing=(_lacking(found.configurations.get(digest)),) if found.rules is None and prompts else (),
    )


def _lacking(recorded: Configuration | None) -> str:
    why = "the record lacks the configuration that the turn ran under"
    if recorded is not None and recorded.body:
        why = f"the configuration that the turn ran under (#{recorded.sequence}) is of another version"
    return f"{why}: texts of prompt packs are not shown"


def _model(chosen: ModelChoice | None) -> str:
    if chosen is None:
        return ""
    by = "the default" if chosen.named_by == "default" else f"named by the {chosen.named_by}"
    return f"{chosen.provider}/{chosen.model}, {by}"


def _classification(turn: Sequence[Seen], steps: Iterable[Step]) -> tuple[int | None, dict[str, Any] | None]:
    orders = {one.order for one in steps if one.about == "classification"}
    tagged = {one.wo_id for one in turn if isinstance(one.said, PromptSent) and CLASSIFICATION in one.said.domain_tags}
    for one in turn:
        if (short(one.wo_id) in orders or one.wo_id in tagged) and (receipt := one.receipt) is not None:
            return one.entry.sequence, receipt.output_result and receipt.output_result.parsed
    return None, None


def contexts_in(turn: Iterable[Seen]) -> Iterator[ContextSeen]:
    """Yield each context in the order of the record; the classification's before the answer's, as it was assembled."""
    kinds: dict[str, Any] = {CLASSIFICATIONS: "classification", CONSOLIDATIONS: "consolidation"}
    for one in turn:
        if isinstance(one.said, ContextAssembled):
            for said in one.said.beside:
                yield ContextSeen(sequence=one.entry.sequence, what=kinds.get(said.contract_id, "other"), said=said)
            what = kinds.get(one.said.contract_id, "answer")
            yield ContextSeen(sequence=one.entry.sequence, what=what, said=one.said._replace(beside=()))


def _facts(turn: Iterable[Seen]) -> Iterator[FactSeen]:
    for entry, said, taken in turn:
        if isinstance(said, RunCompleted):
            decision, says = "REJECTED" if said.faults else "ACCEPTED", {"faults": said.faults}
        elif isinstance(said, QualityGate) or entry.event_type.startswith(_BESIDE):
            is_payload = said is not None and taken is None
            decision, says = entry.decision, dict(name_fields(said)) if is_payload else {}
            says |= {"reason": entry.reason} if entry.reason else {}
        else:
            continue
        yield FactSeen(event=entry.event_type, sequence=entry.sequence, decision=decision, says=says)


# --- two turns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDifference:
    """A stretch of the last prompt of two turns, where it is not the same in both; None: it is not there."""

    name: str
    before: str | None
    after: str | None


def differences(before: TurnAccount, after: TurnAccount) -> list[PromptDifference]:
    """Compare the prompts that asked for the two answers, by the names of their stretches, in their order."""
    left, right = (_by_name(one) for one in (before, after))
    return [
        PromptDifference(name=name, before=left.get(name), after=right.get(name))
        for name in dict.fromkeys([*right, *left])
        if left.get(name) != right.get(name)
    ]


def _by_name(one: TurnAccount) -> dict[str, str]:
    texts: dict[str, str] = {}
    for each in () if one.asked is None else one.asked.shown:
        name = f"{each.role} {each.name}"
        texts[name] = texts.get(name, "") + each.text
    return texts


def settings_of(one: TurnAccount) -> dict[str, Any]:
    """Return what a prompt was asked under, to be held against that of another turn."""
    last = None if one.asked is None else one.asked.sent
    return {
        "config_digest": one.config_digest,
        "model": "" if last is None else f"{last.provider_id}/{last.model_id}",
        "prompt_pack": "" if last is None else last.prompt_pack_id,
        "contract": "" if last is None else last.contract_id,
        "tools": [] if last is None else list(last.tools),
        "classification": one.classification,
        "memory": [] if one.memory is None else [line.artifact_id for line in one.memory.shown],
        "rounds": len(one.prompts),
    }
