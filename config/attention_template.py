"""Attention templates: how a prompt's context is filled. Models of `config/attention/<template_id>.json`.

A template is a pipeline of stages under one budget. What a stage does is the engine's (`ho2_supervisor/attention/`),
which templates apply to whom is `attention_rules.py`'s.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from hobus.config.assets import AgentClass, Asset, FrameworkId, TemplateId, Text, Tier, Version

StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Count = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[int, Field(gt=0, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Tokens = Positive | Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
"""A number of tokens, or the name of a budget of section `budget`."""

LedgerField = Literal["decision", "origin", "reason", "run_seq", "stream", "work_order_id"]
SearchSource = Literal["ledger", "registries", "files"]
Scope = Literal["session", "agent", "cluster"]
Registry = Literal["frameworks", "specs", "packages", "file_ownership"]
Prompts = Literal["PRC-SYNTHESIZE-001", "PRC-CLASSIFY-001", "PRC-CONSOLIDATE-001"]
"""Contracts of the prompts whose contexts templates fill: answers, classifications, consolidations."""
ANSWERS: Prompts = "PRC-SYNTHESIZE-001"
CLASSIFICATIONS: Prompts = "PRC-CLASSIFY-001"
CONSOLIDATIONS: Prompts = "PRC-CONSOLIDATE-001"
Handler = Literal["moment"]
"""What a custom stage may name: the handlers of `ho2_supervisor/attention/sources.py`."""
USER_INPUT = "{{ user_input }}"
"""The turn's message, in the query of a horizontal_search: the one placeholder that there is."""


class TierSelect(Asset):
    """Tiers for later stages that name none; finds no fragments."""

    tiers: tuple[Tier, ...] = Field(description="hot, ho2, ho1")
    strategy: Literal["highest_first", "all_parallel"] = Field(
        description="highest_first: tier by tier (hot, ho2, ho1), until the stage is full; all_parallel: "
        "in all of them at once"
    )


class LedgerQuery(Asset):
    """Facts of the record, newest first: ids and codes, never a text."""

    event_type: str | None = Field(default=None, description="kind of entry; default: every kind")
    tier: Tier | None = Field(default=None, description="of the entry's author; default: as tier_select says, or any")
    max_entries: Positive = Field(description="most entries")
    recency_s: Positive | None = Field(default=None, description="greatest age before the turn")
    filters: dict[LedgerField, str | int] = Field(default_factory=dict, description="fields that must be equal")
    scope: Scope = Field(default="session", description="whose entries: session, agent or cluster")


class RegistryQuery(Asset):
    """Rows of a registry of the configuration's manifests."""

    registry: Registry = Field(description="frameworks, specs, packages, file_ownership")
    filters: dict[str, str] = Field(default_factory=dict, description="fields of its rows that must be equal")


class FileRead(Asset):
    """Files below the agent's roots (permissions.paths), on the cluster's machine."""

    paths: tuple[Text, ...] = Field(description="relative to those roots, without `..` or links that leave them")
    max_size_bytes: Positive = Field(description="a larger file is cut, with a warning")


class HorizontalSearch(Asset):
    """Texts that match words, ranked by BM25: of people, models and tools (tier hot), registries, files."""

    query: Text = Field(description="words to find; `{{ user_input }}` inserts the turn's message")
    tiers: tuple[Tier, ...] = Field(default=(), description="default: as tier_select says, or all")
    sources: tuple[SearchSource, ...] = Field(
        description="ledger: texts of the record; registries: all rows; files: passages of `paths`"
    )
    paths: tuple[Text, ...] = Field(default=(), description="files to search, as in file_read; each is a query")
    scope: Literal["session", "agent"] = Field(
        default="session",
        description="session: this one; agent: all of its principal with this agent, or of everybody if the agent's "
        "file says shares_texts",
    )
    max_results: Positive = Field(
        description="most results that the prompt does not have anyway, earlier questions last; doubled in a repeated "
        "search"
    )
    relevance_threshold: Share = Field(description="the lowest score; halved in a repeated search")


class Structuring(Asset):
    """Order the fragments found so far, without duplicates, within a size."""

    strategy: Literal["chronological", "relevance", "hierarchical"] = Field(
        description="chronological: by event time; relevance: by score; hierarchical: by stage, then by score"
    )
    max_tokens: Tokens | None = Field(default=None, description="drops the least relevant until the rest fits")


class Halting(Asset):
    """End the pipeline if enough is found; else repeat the searches before it once, relaxed."""

    min_fragments: Count = Field(description="fragments needed")
    min_tokens: Count = Field(description="and tokens needed")
    satisfaction_threshold: Share = Field(
        description="and the share of the contract's required context that gave something; nothing required: 1"
    )


class Custom(Asset):
    """Call a built-in function."""

    handler: Handler = Field(description="moment: when the turn's message was sent")


class OfTurn(Asset):
    """The supervisor's own material for a turn."""

    max_tokens: Tokens | None = Field(
        default=None,
        description="default: the agent's budget for history, budget.ho3_bias_budget for memory, what the template "
        "leaves for liveness",
    )


class Stage(Asset):
    """One step of a pipeline."""

    stage: StageName = Field(description="its name in the trace, unique in its template")
    enabled: StrictBool = Field(default=True, description="false: skipped, as the trace says")


class TierSelectStage(Stage):
    """Choose tiers."""

    type: Literal["tier_select"]
    config: TierSelect


class LedgerQueryStage(Stage):
    """Ask the record."""

    type: Literal["ledger_query"]
    config: LedgerQuery


class RegistryQueryStage(Stage):
    """Ask a registry."""

    type: Literal["registry_query"]
    config: RegistryQuery


class FileReadStage(Stage):
    """Read files."""

    type: Literal["file_read"]
    config: FileRead


class HorizontalSearchStage(Stage):
    """Search texts."""

    type: Literal["horizontal_search"]
    config: HorizontalSearch


class StructuringStage(Stage):
    """Put fragments in order."""

    type: Literal["structuring"]
    config: Structuring


class HaltingStage(Stage):
    """End the pipeline, or have it search once more."""

    type: Literal["halting"]
    config: Halting


class CustomStage(Stage):
    """Call a function."""

    type: Literal["custom"]
    config: Custom


class HistoryStage(Stage):
    """Earlier turns of the session, the newest verbatim."""

    type: Literal["history"]
    config: OfTurn = OfTurn()


class LivenessStage(Stage):
    """What is open in the session: its intent, its orders, what failed."""

    type: Literal["liveness"]
    config: OfTurn = OfTurn()


class MemoryStage(Stage):
    """Learned lines that match the turn's labels."""

    type: Literal["memory"]
    config: OfTurn = OfTurn()


AnyStage = (
    TierSelectStage
    | LedgerQueryStage
    | RegistryQueryStage
    | FileReadStage
    | HorizontalSearchStage
    | StructuringStage
    | HaltingStage
    | CustomStage
    | HistoryStage
    | LivenessStage
    | MemoryStage
)


class AppliesTo(Asset):
    """Selectors: each one that is stated must match; the most specific template wins."""

    contract: tuple[Prompts, ...] = Field(
        default=(),
        description="of the prompt: PRC-SYNTHESIZE-001 (answers; default), PRC-CLASSIFY-001 or PRC-CONSOLIDATE-001",
    )

    framework_id: tuple[FrameworkId, ...] = Field(default=(), description="the agent's; most specific")
    agent_class: tuple[AgentClass, ...] = Field(default=(), description="the agent's; second")
    tier: tuple[Tier, ...] = Field(default=(), description="the agent's; third")


class TemplateBudget(Asset):
    """Limits of one assembly; reaching any ends the pipeline."""

    max_context_tokens: Tokens = Field(
        description="a number, or a setting of section `budget`; at most projection_budget, or the agent's own setting"
    )
    max_queries: Count = Field(description="queries to the record, registries, files and searches")
    timeout_ms: Positive = Field(description="wall time")


class PipelineFallback(Asset):
    """What becomes of a pipeline that did not end well."""

    on_timeout: Literal["return_partial", "fail", "use_cached"] = Field(
        description="a limit was reached: use what there is, nothing, or the cached context"
    )
    on_empty: Literal["proceed_empty", "fail", "use_default"] = Field(
        description="no or too few fragments: use them, nothing, or the files that the contract requires"
    )


class Template(Asset):
    """How the context of a prompt is filled."""

    template_id: TemplateId = Field(description="the name of its file")
    version: Version = Field(description="of this text, `1.0.0`")
    title: Text = Field(description="its purpose, in a few words")
    applies_to: AppliesTo = Field(description="whose prompts it fills; empty: everybody's")
    pipeline: tuple[Annotated[AnyStage, Field(discriminator="type")], ...] = Field(description="stages in order")
    budget: TemplateBudget
    fallback: PipelineFallback


def make_template_schema() -> dict[str, Any]:
    return Template.model_json_schema()
