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
    """Where later stages search that name no tier of their own; gives no fragments."""

    tiers: tuple[Tier, ...] = Field(description="hot, ho2, ho1")
    strategy: Literal["highest_first", "all_parallel"] = Field(
        description="highest_first: tier by tier (hot, ho2, ho1), until a stage has what it may give; all_parallel: "
        "in all of them at once"
    )


class LedgerQuery(Asset):
    """Facts of the record, newest first: ids and codes, never a text."""

    event_type: str | None = Field(default=None, description="kind of entry; left out: every kind")
    tier: Tier | None = Field(default=None, description="of the entry's author; left out: as tier_select says, or any")
    max_entries: Positive = Field(description="at most so many")
    recency_s: Positive | None = Field(default=None, description="none older than this before the turn")
    filters: dict[LedgerField, str | int] = Field(default_factory=dict, description="fields that must be equal")
    scope: Scope = Field(default="session", description="whose entries: of the session, the agent, or the cluster")


class RegistryQuery(Asset):
    """Rows of a registry, which is derived from the manifests of the snapshot."""

    registry: Registry = Field(description="frameworks, specs, packages, file_ownership")
    filters: dict[str, str] = Field(default_factory=dict, description="fields of its rows that must be equal")


class FileRead(Asset):
    """Files below the roots that the agent may read (permissions.paths), by an executor on the cluster's machine."""

    paths: tuple[Text, ...] = Field(description="relative to those roots, without `..` or links that lead out")
    max_size_bytes: Positive = Field(description="of a larger file its beginning, with a warning")


class HorizontalSearch(Asset):
    """Texts by their words, ranked by BM25: what people, models and tools said (of tier hot), registries, files."""

    query: Text = Field(description="what to look for; `{{ user_input }}` stands for the turn's message")
    tiers: tuple[Tier, ...] = Field(default=(), description="left out: as tier_select says, or all")
    sources: tuple[SearchSource, ...] = Field(
        description="ledger: texts of the record; registries: rows of all of them; files: passages of those of `paths`"
    )
    paths: tuple[Text, ...] = Field(
        default=(), description="files to search, as file_read has them; each is a question"
    )
    scope: Literal["session", "agent"] = Field(
        default="session",
        description="session: what was said in this one; agent: in all of the same principal with it, or of anybody "
        "where its file says shares_texts",
    )
    max_results: Positive = Field(
        description="the best so many that the prompt has not anyway, earlier questions last; twice as many when it is "
        "asked once more"
    )
    relevance_threshold: Share = Field(description="a lower score is left out; half of it when it is asked once more")


class Structuring(Asset):
    """What was found so far: each text once, in order, within a size."""

    strategy: Literal["chronological", "relevance", "hierarchical"] = Field(
        description="chronological: by event time; relevance: by score; hierarchical: by stage, then by score"
    )
    max_tokens: Tokens | None = Field(default=None, description="the least relevant go until the rest fits")


class Halting(Asset):
    """Whether that is enough: then the pipeline ends here; else the searches before it are asked once more, relaxed."""

    min_fragments: Count = Field(description="so many fragments")
    min_tokens: Count = Field(description="and so much text")
    satisfaction_threshold: Share = Field(
        description="and this share of what the contract requires has given something; nothing required: 1"
    )


class Custom(Asset):
    """A function of the program."""

    handler: Handler = Field(description="moment: when the turn's message was sent")


class OfTurn(Asset):
    """What a supervisor itself has for a turn."""

    max_tokens: Tokens | None = Field(
        default=None,
        description="left out: the agent's budget for history, budget.ho3_bias_budget for memory, what the template "
        "leaves for liveness",
    )


class Stage(Asset):
    """One step of a pipeline."""

    stage: StageName = Field(description="its name in the trace, one of a kind in its template")
    enabled: StrictBool = Field(default=True, description="false: left out, and the trace says so")


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
        description="of the prompt: PRC-SYNTHESIZE-001 (answers), PRC-CLASSIFY-001 or PRC-CONSOLIDATE-001; nothing "
        "stated: answers",
    )

    framework_id: tuple[FrameworkId, ...] = Field(default=(), description="the agent's; before agent_class")
    agent_class: tuple[AgentClass, ...] = Field(default=(), description="the agent's; before tier")
    tier: tuple[Tier, ...] = Field(default=(), description="the agent's")


class TemplateBudget(Asset):
    """What one assembly may take; any of it used up ends the pipeline."""

    max_context_tokens: Tokens = Field(
        description="a number, or a setting of section `budget`; never above projection_budget, or what the agent "
        "names instead"
    )
    max_queries: Count = Field(description="questions to the record, registries, files and searches")
    timeout_ms: Positive = Field(description="wall time")


class PipelineFallback(Asset):
    """What becomes of a pipeline that did not end well."""

    on_timeout: Literal["return_partial", "fail", "use_cached"] = Field(
        description="a limit was met: what there is, nothing, or the last context of the same"
    )
    on_empty: Literal["proceed_empty", "fail", "use_default"] = Field(
        description="no fragment, or not enough: as it is, nothing, or the files that the contract requires"
    )


class Template(Asset):
    """How the context of a prompt is filled."""

    template_id: TemplateId = Field(description="its name, as the file's")
    version: Version = Field(description="of this text, `1.0.0`")
    title: Text = Field(description="what it is for, in a few words")
    applies_to: AppliesTo = Field(description="whose prompts it fills; nothing stated: everybody's")
    pipeline: tuple[Annotated[AnyStage, Field(discriminator="type")], ...] = Field(description="stages in order")
    budget: TemplateBudget
    fallback: PipelineFallback


def template_schema() -> dict[str, Any]:
    return Template.model_json_schema()
