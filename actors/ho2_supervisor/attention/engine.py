"""The one engine that assembles contexts: by which template and budget, and what counts if it does not end well.

It reads, writes nothing and sends no prompt. Whichever stage was last, the text keeps the template's budget and that of
its use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.attention import merging
from hobus.actors.ho2_supervisor.attention.account import LIMITS, Account
from hobus.actors.ho2_supervisor.attention.context import (
    AssembledContext,
    AttentionRequest,
    ChosenBy,
    Fallback,
)
from hobus.actors.ho2_supervisor.attention.merging import Required
from hobus.actors.ho2_supervisor.attention.pipeline import Sources, StageRun
from hobus.bus.window import remember
from hobus.config.attention_rules import choose, compute_context_tokens
from hobus.config.attention_template import AnyStage, Template
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot


class Engine(Struct, frozen=True):
    """Assemble contexts under one frozen configuration; cache the last ones."""

    config: AdminConfig
    templates: Mapping[str, Template]
    hashes: Mapping[str, bytes]
    """Template id -> the hash that records name it by."""
    now: Callable[[], float]
    """Seconds that never go back."""
    kept: OrderedDict[tuple[str, ...], tuple[float, AssembledContext]] = field(
        default_factory=OrderedDict[tuple[str, ...], tuple[float, AssembledContext]]
    )
    """The cache: contexts, and when they were assembled, by all that they were assembled for."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, now: Callable[[], float]) -> Engine:
        return cls(snapshot.config, snapshot.templates, snapshot.map_template_hashes(), now)

    def choose_template(self, request: AttentionRequest) -> Template | None:
        """Return the template that fills this context, or None. Raises ConfigError for two, or an unknown name."""
        return choose(self.templates, request.agent, request.template_override, contract=request.prompts)

    async def assemble(
        self, request: AttentionRequest, template: Template | None, sources: Sources
    ) -> AssembledContext:
        """Return the context; without its fragments where the template's fallback says that it failed."""
        required = merging.list_required(request.contract)
        if template is None:
            context = await self._assemble_minimal(request, required, sources)
            warning = f"no attention template applies to agent {request.agent.agent_id}"
            return replace(context, warnings=(warning, *context.warnings), chosen_by="default")
        key = _make_key(request, template)
        at, kept = self.kept.get(key, (0.0, None))
        if kept is not None and self.now() - at <= self.config.attention.cache_ttl_s:
            return replace(kept, is_cached=True)
        pipeline = merging.merge_stages(template, required)
        context, is_enough = await self._run(request, template, pipeline, required, sources)
        context = replace(context, chosen_by=_explain_choice(request, template))
        if context.stopped_by in LIMITS:
            context = _keep_limited(context, template.fallback.on_timeout, kept)
        elif not (context.fragments and is_enough):
            on_empty = template.fallback.on_empty
            context = replace(context, fallback=on_empty)
            if on_empty == "use_default":
                context = _replace_context(context, await self._assemble_minimal(request, required, sources))
        if context.fallback == "fail":
            context = replace(context, fragments=())
        elif context.stopped_by not in LIMITS:
            remember(self.kept, key, (self.now(), context), at_most=limits.CACHE_MAX)
        return context

    async def _assemble_minimal(
        self, request: AttentionRequest, required: Required, sources: Sources
    ) -> AssembledContext:
        tokens_max = request.agent.budget_tokens(request.purpose, self.config.budget)
        template = merging.make_minimal(tokens_max, required)
        context, _ = await self._run(request, template, template.pipeline, required, sources)
        return context

    async def _run(
        self,
        request: AttentionRequest,
        template: Template,
        pipeline: tuple[AnyStage, ...],
        required: Required,
        sources: Sources,
    ) -> tuple[AssembledContext, bool]:
        """Return what the pipeline gives, and whether its haltings are satisfied."""
        tokens_max = compute_context_tokens(template, self.config.budget, request.agent, purpose=request.purpose)
        if request.tokens_max is not None:
            tokens_max = min(tokens_max, request.tokens_max)
        account = Account(
            tokens_max=tokens_max,
            queries_max=template.budget.max_queries,
            timeout_s=template.budget.timeout_ms / 1000,
            chars_per_token=self.config.attention.chars_per_token,
            now=self.now,
        )
        run = StageRun(self.config, pipeline, required, sources, account)
        stopped_by = await run.through()
        context = AssembledContext(
            template_id=template.template_id,
            template_version=template.version,
            template_hash=self.hashes.get(template.template_id, b""),
            fragments=tuple(run.fragments),
            stages=tuple(run.trace),
            tokens_assembled=run.text_chars // account.chars_per_token,
            queries_executed=account.queries,
            elapsed_ms=account.elapsed_ms,
            max_context_tokens=tokens_max,
            warnings=tuple(run.warnings),
            stopped_by=stopped_by,
        )
        return context, run.is_enough()


def _make_key(request: AttentionRequest, template: Template) -> tuple[str, ...]:
    """Return the cache key: everything on which a context depends."""
    contract, agent = request.contract, request.agent
    return (
        template.template_id, template.version, contract.contract_id, contract.version, agent.agent_id,
        agent.agent_class, request.work_order_id, request.session_id, str(request.tokens_max),
    )  # fmt: skip


def _explain_choice(request: AttentionRequest, template: Template) -> ChosenBy:
    if request.template_override == template.template_id:
        return "override"
    return "agent" if template.template_id in request.agent.attention else "selectors"


def _keep_limited(partial: AssembledContext, fallback: Fallback, last: AssembledContext | None) -> AssembledContext:
    """Return what counts of a pipeline that met a limit."""
    found = replace(partial, fallback=fallback)
    if fallback != "use_cached":
        return found
    if last is None:
        warning = "use_cached: nothing is cached; the context is a part of what was asked for"
        return replace(found, warnings=(*partial.warnings, warning))
    return replace(found, fragments=last.fragments, tokens_assembled=last.tokens_assembled, is_cached=True)


def _replace_context(context: AssembledContext, default: AssembledContext) -> AssembledContext:
    """Return the default's context in place of an insufficient one, with the trace of both."""
    return replace(
        context,
        fragments=default.fragments,
        stages=(*context.stages, *default.stages),
        tokens_assembled=default.tokens_assembled,
        queries_executed=context.queries_executed + default.queries_executed,
        elapsed_ms=context.elapsed_ms + default.elapsed_ms,
        warnings=(*context.warnings, *default.warnings),
        fallback="use_default",
    )
