"""What an attention template may cost at most, by counts; tokens are held against budgets. Plain functions."""

from __future__ import annotations

from collections.abc import Iterator

from hobus.config.attention_template import AnyStage, LedgerQuery, Template
from hobus.config.schema import AdminConfig


def cost_faults(template: Template, config: AdminConfig) -> Iterator[str]:
    """What of it every turn would pay too dearly for: each number with the setting that it is above."""
    bounds, budget = config.attention, template.budget
    yield from _above("budget.max_queries", budget.max_queries, "attention.queries_max", bounds.queries_max)
    yield from _above("budget.timeout_ms", budget.timeout_ms, "attention.timeout_max_ms", bounds.timeout_max_ms)
    if len(template.pipeline) > bounds.stages_max:
        count = len(template.pipeline)
        yield f"pipeline: has {count} stages; at most {bounds.stages_max} are taken (attention.stages_max)"
    for number, stage in enumerate(template.pipeline):
        yield from (f"pipeline.{number}.config.{fault}" for fault in _stage_faults(stage, config))


def query_faults(query: LedgerQuery, config: AdminConfig) -> Iterator[str]:
    """The same of one question to the record, a stage's or a contract's."""
    yield from _above("max_entries", query.max_entries, "attention.entries_max", config.attention.entries_max)


def _stage_faults(stage: AnyStage, config: AdminConfig) -> Iterator[str]:
    match stage.type:
        case "ledger_query":
            yield from query_faults(stage.config, config)
        case "file_read":
            yield from _above(
                "max_size_bytes", stage.config.max_size_bytes, "ho1.file_max_bytes", config.ho1.file_max_bytes
            )
            yield from _paths_faults(stage.config.paths, config)
        case "horizontal_search":
            yield from _above(
                "max_results", stage.config.max_results, "attention.results_max", config.attention.results_max
            )
            yield from _paths_faults(stage.config.paths, config)
        case _:
            pass


def _paths_faults(paths: tuple[str, ...], config: AdminConfig) -> Iterator[str]:
    """Each is a question."""
    if len(paths) > config.attention.queries_max:
        yield f"paths: are {len(paths)}; at most {config.attention.queries_max} are asked for (attention.queries_max)"


def _above(path: str, wanted: int, setting: str, most: int) -> Iterator[str]:
    if wanted > most:
        yield f"{path}: {wanted} is above {setting} ({most}); lower the first or raise the second"
