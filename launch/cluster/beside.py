"""What executors rest on and no configuration holds: code of tools in packages, files with secrets of MCP servers."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from hobus.config.secret_refs import file_refs
from hobus.config.sections.tools import ToolsConfig
from hobus.launch.cluster.run_file import RunFile

_GROUP = "hobus.tools"


def changed_beside(tools: ToolsConfig, run: RunFile) -> list[str]:
    """Of these, in words, what was changed after the oldest executor that runs here was started.

    Such an executor has the former content, while a tool process that follows another one has the new.
    """
    started = [row.started_at for row in run.children if row.role == "ho1" and row.started_at]
    if not started:
        return []
    since = min(started)
    found = [f"the code of {name}" for name in tools.entry_points if _newest(_modules_of(name)) > since]
    refs = sorted(set(file_refs(tools.model_dump(mode="json"))))
    return [*found, *(f"file:{path}" for path in refs if _newest([Path(path).expanduser()]) > since)]


def _newest(files: Iterator[Path] | list[Path]) -> float:
    """When the last of them was written, made or put into place."""
    newest = 0.0
    for path in files:
        try:
            newest = max(newest, os.stat(path).st_ctime)  # noqa: PTH116 - not what `touch` and installers set
        except OSError:
            continue
    return newest


def _modules_of(name: str) -> Iterator[Path]:
    """Of the package, or the module, that the entry point leads to; nothing of it is imported."""
    for point in entry_points(group=_GROUP, name=name):
        spec = importlib.util.find_spec(point.module.partition(".")[0])
        if spec is not None and spec.submodule_search_locations:
            for folder in spec.submodule_search_locations:
                yield from Path(folder).rglob("*.py")
        elif spec is not None and spec.origin:
            yield Path(spec.origin)
