"""One pipeline, run over the sources that its caller hands in and within one account.

A stage whose source fails, or that has none, is a warning and no end; a limit that is met ends the pipeline. Each
fragment is charged before it counts, so that no stage brings more than there is room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import Struct, field

from hobus.actors.ho2_supervisor.attention import structuring
from hobus.actors.ho2_supervisor.attention.account import Account, LimitReached
from hobus.actors.ho2_supervisor.attention.context import Fragment, Status, Stop, count_chars
from hobus.actors.ho2_supervisor.attention.merging import Required
from hobus.bus.errors import RuntimeFault
from hobus.bus.record.payloads.orders import StageTrace
from hobus.config.assets import Tier
from hobus.config.attention_rules import get_tokens
from hobus.config.attention_template import AnyStage, Halting, HorizontalSearch, Structuring
from hobus.config.schema import AdminConfig

TIERS: tuple[Tier, ...] = ("hot", "ho2", "ho1")
"""From the highest."""
RELAXED = "+relaxed"
"""Behind the name of a stage in the trace that was run once more for a halting that was not satisfied."""


class Room(Struct):
    """What a source may use, and where it is to look."""

    account: Account
    warn: Callable[[str], None]
    tiers: tuple[Tier, ...] = ()
    """From the highest; none: wherever."""
    is_tier_by_tier: bool = False
    """The lower ones only as far as the higher ones leave room; else all alike."""
    is_truncated: bool = False

    def leave_out(self, said: str) -> None:
        """Note that something did not fit: mark the stage `truncated` and warn."""
        self.is_truncated = True
        self.warn(said)


AskingSource = Callable[[Any, Room], AsyncGenerator[Fragment, None]]
FragmentSource = AskingSource | Callable[[Any, Room], Iterable[Fragment]]
"""Given a stage's configuration, its fragments, the best first. It asks `room.account.query` before each question.

What is at hand comes as an iterable: it cannot be late.

May raise RuntimeFault, which is a warning, and LimitReached.
"""
Sources = Mapping[str, FragmentSource]
"""Type of stage -> what answers it."""


class StageRun(Struct):
    """Run stages over one account."""

    config: AdminConfig
    stages: tuple[AnyStage, ...]
    required: Required
    sources: Sources
    account: Account
    fragments: list[Fragment] = field(default_factory=list[Fragment])
    trace: list[StageTrace] = field(default_factory=list[StageTrace])
    warnings: list[str] = field(default_factory=list[str])
    tiers: tuple[Tier, ...] = ()
    is_tier_by_tier: bool = False
    was_relaxed: bool = False
    answered: set[int] = field(default_factory=set[int])
    """Places of the required ledger queries that gave a fragment."""

    @property
    def text_chars(self) -> int:
        """Return the characters of the text: everything charged, except a closing newline after the last line."""
        return self.account.chars - bool(self.fragments and self.fragments[-1].closing)

    async def through(self) -> Stop:
        """Run every stage in order; return why the pipeline ended."""
        stopped_by: Stop | None = None
        for number, stage in enumerate(self.stages):
            if stopped_by is not None or not stage.enabled:
                self._note(stage, "skipped")
                continue
            try:
                if await self._stage(number, stage):
                    stopped_by = "satisfaction"
            except LimitReached as reached:
                stopped_by = reached.limit
        return stopped_by or "completion"

    def is_enough(self) -> bool:
        """Return whether the fragments found so far would satisfy every halting."""
        return all(
            self._is_satisfied(stage.config) for stage in self.stages if stage.type == "halting" and stage.enabled
        )

    async def _stage(self, number: int, stage: AnyStage) -> bool:
        """Run one stage; return whether the pipeline ends here, satisfied. Raises LimitReached."""
        match stage.type:
            case "tier_select":
                self.tiers = tuple(tier for tier in TIERS if tier in stage.config.tiers)
                self.is_tier_by_tier = stage.config.strategy == "highest_first"
                self._note(stage, "ok")
            case "structuring":
                self._structure(stage, stage.config, stage.stage)
            case "halting":
                began = self._note_beginning()
                is_satisfied = self._is_satisfied(stage.config) or await self._searched_again(number, stage.config)
                self._note(stage, "ok" if is_satisfied else "empty", began=began)
                return is_satisfied
            case _:
                await self._produce(number, stage, stage.config, stage.stage)
        return False

    async def _produce(self, number: int, stage: AnyStage, config: Any, name: str) -> None:
        """Add the fragments of a source, charging each first. Raises LimitReached."""
        source = self.sources.get(stage.type)
        if source is None:
            self._warn(name, f"nothing here answers stages of type {stage.type}")
            self._note(stage, "skipped", name=name)
            return
        began = self._note_beginning()
        room = Room(self.account, lambda said: self._warn(name, said), self.tiers, self.is_tier_by_tier)
        status, reached = "ok", None
        try:
            self.account.check_time()
            await self._take_all(source(config, room), number)
        except TimeoutError:
            status, reached = "timeout", LimitReached("time")
        except LimitReached as limit:
            status, reached = "timeout" if limit.limit == "time" else "truncated", limit
        except RuntimeFault as fault:
            status = "failed"
            self._warn(name, fault.code)
        produced = len(self.fragments) - began.fragments
        if status == "ok" and room.is_truncated:
            status = "truncated"
        elif status == "ok" and not produced:
            status = "empty"
        if produced and stage.type == "ledger_query" and stage.config in self.required.queries:
            self.answered.add(self.required.queries.index(stage.config))
        self._note(stage, status, name=name, began=began)
        if reached is not None:
            raise reached

    async def _take_all(self, found: AsyncGenerator[Fragment, None] | Iterable[Fragment], stage: int) -> None:
        if isinstance(found, Iterable):
            for fragment in found:
                self._take(fragment, stage)
            return
        async with asyncio.timeout(self.account.seconds_left), aclosing(found):
            async for fragment in found:
                self._take(fragment, stage)

    def _take(self, fragment: Fragment, stage: int) -> None:
        """Count the fragment in, once it is charged. Raises LimitReached."""
        self.account.charge(fragment.chars)
        self.fragments.append(Fragment(*fragment[:-1], stage) if stage else fragment)

    def _structure(self, stage: AnyStage, config: Structuring, name: str) -> None:
        began, chars_max = self._note_beginning(), self.account.chars
        if config.max_tokens is not None:
            tokens_max = get_tokens(config.max_tokens, self.config.budget)
            chars_max = (tokens_max + 1) * self.account.chars_per_token - 1
        found = structuring.drop_repeated(self.fragments)
        self.fragments = structuring.order_fragments(found, config.strategy, chars_max)
        self.account.chars = count_chars(self.fragments)
        status: Status = "ok" if self.fragments else "empty"
        if left_out := len(found) - len(self.fragments):
            status = "truncated"
            self._warn(name, f"{left_out} of {len(found)} fragments left out, the least relevant (max_tokens)")
        self._note(stage, status, name=name, began=began)

    async def _searched_again(self, at: int, config: Halting) -> bool:
        """Repeat the earlier searches with half the threshold and twice the results; return whether that satisfies."""
        before = [(number, stage) for number, stage in enumerate(self.stages[:at]) if stage.enabled]
        searches = [(number, stage) for number, stage in before if stage.type == "horizontal_search"]
        if self.was_relaxed or not searches or not self.account.chars_left:
            return False
        self.was_relaxed = True
        known = {(one.source, one.source_id) for one in self.fragments}
        for number, stage in searches:
            count = len(self.fragments)
            try:
                await self._produce(number, stage, _relax(stage.config), f"{stage.stage}{RELAXED}")
            finally:
                new = [one for one in self.fragments[count:] if (one.source, one.source_id) not in known]
                self.account.chars -= count_chars(self.fragments[count:]) - count_chars(new)
                self.fragments[count:] = new
                known |= {(one.source, one.source_id) for one in new}
        for _, stage in before:
            if stage.type == "structuring":
                self._structure(stage, stage.config, f"{stage.stage}{RELAXED}")
        return self._is_satisfied(config)

    def _is_satisfied(self, config: Halting) -> bool:
        return (
            len(self.fragments) >= config.min_fragments
            and self.account.tokens >= config.min_tokens
            and self.required.compute_satisfaction(self.fragments, self.answered) >= config.satisfaction_threshold
        )

    def _warn(self, name: str, said: str) -> None:
        self.warnings.append(f"{name}: {said}")

    def _note(self, stage: AnyStage, status: Status, *, name: str = "", began: _Began | None = None) -> None:
        began = began or self._note_beginning()
        tokens = max(0, self.account.chars - began.chars) // self.account.chars_per_token
        produced = max(0, len(self.fragments) - began.fragments)
        duration_ms = round((self.account.now() - began.at) * 1000)
        self.trace.append(StageTrace(name or stage.stage, stage.type, produced, tokens, duration_ms, status))

    def _note_beginning(self) -> _Began:
        return _Began(len(self.fragments), self.account.chars, self.account.now())


class _Began(Struct, frozen=True):
    """How things stood when a stage began."""

    fragments: int
    chars: int
    at: float


def _relax(config: HorizontalSearch) -> HorizontalSearch:
    return config.model_copy(
        update={"relevance_threshold": config.relevance_threshold / 2, "max_results": config.max_results * 2}
    )
