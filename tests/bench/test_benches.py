"""Each bench imports; its step runs where its guarantee is tested, here or in tests/process."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from bench.simulation import run, table
from hobus.launch.lab.simulation.many import SeedTally

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


def test_a_simulated_seed_is_counted():
    """The bench of seeds, one step."""
    tally = SeedTally()
    run(range(4, 5), tally, jobs=1)
    assert tally.failed == [] and "| seeds | 1 from 4 on" in table(tally, 4, 0)
