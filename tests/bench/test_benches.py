"""Each bench imports; its step runs where its guarantee is tested."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
ELSEWHERE = ("bench.peers.", "bench.answers.model_server")
"""Run by interpreters that have a peer's packages, or a model's."""
MODULES = sorted(
    ".".join(path.relative_to(BENCH.parent).with_suffix("").parts)
    for path in BENCH.rglob("*.py")
    if path.name != "__init__.py"
)


def test_every_bench_imports():
    """Without its arguments, its machine and its results: nothing is measured by an import."""
    for name in MODULES:
        if not name.startswith(ELSEWHERE):
            import_module(name)
