"""A template with what the contract requires: the stages that are run, and whether the required gave something.

Pure. The template has priority: what it asks for already is not asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.attention.context import Fragment
from hobus.config.assets import Contract
from hobus.config.attention_rules import list_required_queries
from hobus.config.attention_template import (
    AnyStage,
    AppliesTo,
    FileRead,
    FileReadStage,
    LedgerQuery,
    LedgerQueryStage,
    PipelineFallback,
    RegistryQuery,
    RegistryQueryStage,
    Template,
    TemplateBudget,
)

DEFAULT_ID = "ATT-DEFAULT-000"
"""Of the minimal template, which is no file."""


class Required(Struct, frozen=True):
    """What a contract requires of a context, item by item."""

    queries: tuple[LedgerQuery, ...]
    frameworks: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.queries) + len(self.frameworks) + len(self.files)

    def compute_satisfaction(self, fragments: Sequence[Fragment], answered: Collection[int]) -> float:
        """Return the share of required items that gave a fragment; 1 if none is required. `answered`: their indices."""
        if not self.count:
            return 1.0
        rows = {one.source_id for one in fragments if one.source == "registry"}
        files = {one.source_id for one in fragments if one.source == "file"}
        met = len(answered) + len(rows.intersection(self.frameworks)) + len(files.intersection(self.files))
        return met / self.count


def list_required(contract: Contract) -> Required:
    context = contract.required_context
    queries: list[LedgerQuery] = []
    for query in list_required_queries(contract):
        if query not in queries:
            queries.append(query)
    return Required(
        tuple(queries), tuple(dict.fromkeys(context.framework_refs)), tuple(dict.fromkeys(context.file_refs))
    )


def merge_stages(template: Template, required: Required) -> tuple[AnyStage, ...]:
    """Return the template's stages with those that the contract adds before structuring."""
    added = [stage for stage in _make_required_stages(required) if not _is_asked(stage, template.pipeline)]
    if not added:
        return template.pipeline
    at = next(
        (number for number, stage in enumerate(template.pipeline) if stage.type in ("structuring", "halting")),
        len(template.pipeline),
    )
    return (*template.pipeline[:at], *added, *template.pipeline[at:])


def make_minimal(tokens_max: int, required: Required) -> Template:
    """Return a template of the files that the contract requires, for where none applies."""
    files = [stage for stage in _make_required_stages(required) if stage.type == "file_read"]
    return Template.model_construct(
        template_id=DEFAULT_ID,
        version="1.0.0",
        title="What the contract requires",
        applies_to=AppliesTo(),
        pipeline=tuple(files),
        budget=TemplateBudget(
            max_context_tokens=tokens_max,
            max_queries=limits.REQUIRED_QUERIES_MAX,
            timeout_ms=limits.REQUIRED_TIMEOUT_MS,
        ),
        fallback=PipelineFallback(on_timeout="return_partial", on_empty="proceed_empty"),
    )


def _make_required_stages(required: Required) -> list[AnyStage]:
    stages: list[AnyStage] = [
        LedgerQueryStage(stage=f"required_ledger_{number}", type="ledger_query", config=query)
        for number, query in enumerate(required.queries, 1)
    ]
    stages += [
        RegistryQueryStage(
            stage=f"required_framework_{number}",
            type="registry_query",
            config=RegistryQuery(registry="frameworks", filters={"framework_id": framework_id}),
        )
        for number, framework_id in enumerate(required.frameworks, 1)
    ]
    stages += [
        FileReadStage(
            stage=f"required_file_{number}",
            type="file_read",
            config=FileRead(paths=(path,), max_size_bytes=limits.REQUIRED_FILE_MAX_BYTES),
        )
        for number, path in enumerate(required.files, 1)
    ]
    return stages


def _is_asked(stage: AnyStage, pipeline: Sequence[AnyStage]) -> bool:
    """Return whether an enabled stage asks for the same, or for more of the same."""
    for one in pipeline:
        if not one.enabled or one.type != stage.type:
            continue
        if isinstance(one, FileReadStage) and isinstance(stage, FileReadStage):
            if set(stage.config.paths) <= set(one.config.paths):
                return True
        elif isinstance(one, RegistryQueryStage) and isinstance(stage, RegistryQueryStage):
            is_wider = one.config.filters.items() <= stage.config.filters.items()
            if one.config.registry == stage.config.registry and is_wider:
                return True
        elif one.config == stage.config:
            return True
    return False
