"""What every test relies on: no network that is not this machine, and no process left behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

import hobus.launch.process  # noqa: F401 - first: as in every process of a cluster, no traceback is painted, for 0.1 s each
from hobus.bus.collector import settle

_MARK = "LC_HOBUS_TEST_MARK"
"""Of a name that `launcher.environment` hands on to every process of a cluster."""
LONG_TIMEOUT_S = 300
"""Ends a test that hangs; says nothing of how fast anything should be, which is measured by `bench`."""

# What helpers assert tells its values, too.
_HERE = Path(__file__).parent
pytest.register_assert_rewrite(
    *(
        ".".join(path.relative_to(_HERE.parent).with_suffix("").parts)
        for path in _HERE.rglob("*.py")
        if not path.name.startswith(("test_", "conftest", "__init__"))
    )
)

# Whether an example takes 200 ms, or its drawing a second, is the machine's business.
# A law has a few examples in a quick run, and more by `--hypothesis-profile=thorough`: new ones in every run.
for _profile, _examples in (("quick", 25), ("thorough", 60)):
    settings.register_profile(
        _profile, max_examples=_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("quick")


# Every worker and every interpreter that a test starts would compile all that it reads.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A command that forgets its home finds nothing there, never a developer's cluster.
os.environ["HOBUS_HOME"] = str(Path(tempfile.gettempdir()) / f"nobodys-home-{uuid.uuid4().hex}")
os.environ["NO_COLOR"] = "1"

# Also where a shell runs the tests in its background: it has them ignore Ctrl-C (and `nohup` the hang-up), and what they
# start inherits that.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)


# Modules and tests are made once and kept: a collector that looks for garbage among them finds none, for a fifth of the
# suite's time.
gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run does not load a file none of whose tests it takes, as the marks in its text say (for seconds of every worker)."""
    is_test, wanted = collection_path.name.startswith("test_"), config.option.markexpr
    if wanted.startswith("not process and not slow and"):
        is_left = collection_path in (_HERE / "process", _SIMULATION) or (is_test and _is_slow(collection_path))
    else:
        is_left = wanted.startswith("(process or slow) and") and is_test and not _is_marked(collection_path)
    return is_left or None


_SIMULATION = _HERE / "simulation"
"""Whole turns of a whole cluster: slow, all of them."""


@cache
def _is_slow(path: Path) -> bool:
    return path.parent == _SIMULATION or "\npytestmark = pytest.mark.slow\n" in path.read_text(encoding="utf-8")


@cache
def _is_marked(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return _is_slow(path) or "mark.slow" in text or "mark.process" in text


def pytest_collection_finish() -> None:
    """What was collected stays, and is not looked at again; what a test makes is, as in every process of a cluster.

    Frozen first: the look at all that was collected would take a second.
    """
    gc.freeze()
    settle()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Pytest looks through everything five times at the end, for what was dropped with an error: once is enough."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What a passed test printed nobody reads, and a worker would send all of it."""
    if report.passed:
        report.sections.clear()


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """For tests that write and sync hundreds of files, where what a disk keeps is not the question.

    Of memory, where the machine has a place for that.
    """
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if os.access(place, os.W_OK) else tmp_path) as made:
        yield Path(made)


@pytest.hookimpl(tryfirst=True)  # before those that are not wanted are taken out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `process`, and slow ones, have time on busy machines, too; those of whole clusters are slow."""
    for item in items:
        if item.path.parent == _SIMULATION:
            item.add_marker(pytest.mark.slow)
        if any(item.get_closest_marker(name) is not None for name in ("process", "slow")):
            assert _is_marked(item.path), f"{item.path}: a mark stands in the file of its tests"
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))


@pytest.fixture(autouse=True)
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked `process` ends all that it started, detached clusters and their orphans included.

    What was started for its whole module runs on, with what that starts.
    """
    if request.node.get_closest_marker("process") is None:
        yield
        return
    mark = uuid.uuid4().hex
    request.getfixturevalue("monkeypatch").setenv(_MARK, mark)
    before = {child.pid for child in psutil.Process().children()}
    yield
    own = [child for child in psutil.Process().children() if child.pid not in before]
    left = _marked(mark) + own + [below for child in own for below in _below(child)]
    told = sorted({f"{process.pid} {_command_line(process)}" for process in left if _is_alive(process)})
    for process in left:
        _end(process)
    psutil.wait_procs(own, timeout=10)  # a later test of this process finds no zombie among its children
    assert told == [], "processes outlived the test that started them"


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _marked(mark: str) -> list[psutil.Process]:
    """Processes that inherited the mark of this test, whoever their parent is now."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(_MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # not ours to look at, or gone
    return found


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return "(gone)"


def _end(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return
