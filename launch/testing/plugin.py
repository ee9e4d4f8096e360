"""The pytest plugin: the cluster of a test module, a script or a cassette for each of its tests.

Every run of pytest loads this module, whoever's: what it needs is loaded by the tests that use it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from hobus.launch.app.agent import Agent
    from hobus.launch.testing.cluster import ScriptedCluster

_RECORD = "--hobus-record"
_BACKEND = "--hobus-backend"
_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--hobus-record` and `--hobus-backend`."""
    group = parser.getgroup("hobus", "agents of hobus")
    group.addoption(
        _RECORD, action="store_true",
        help="ask the agents' own models, and write what models and tools answered into cassettes/ beside the tests",
    )  # fmt: skip
    said = "what hobus_cluster is: processes, or simulated (the same actors in this process, in virtual time)"
    group.addoption(_BACKEND, choices=("processes", "simulated"), default="processes", help=said)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Remember whether the test itself passed."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture(scope="module")
def hobus_agents(request: pytest.FixtureRequest) -> Sequence[Agent]:
    """Return the agents of the module's cluster: its `hobus_agents`; the first one answers who names none."""
    found = getattr(request.module, "hobus_agents", ())
    if not isinstance(found, Sequence):
        pytest.fail("hobus_agents is a list: hobus_agents = [...]", pytrace=False)
    return found


@pytest.fixture(scope="module")
def hobus_settings(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return settings of the module's cluster by dotted paths: its `hobus_settings`."""
    return getattr(request.module, "hobus_settings", {})


@pytest.fixture(scope="module")
def _hobus_running(
    request: pytest.FixtureRequest, hobus_agents: Sequence[Agent], hobus_settings: Mapping[str, Any]
) -> Generator[ScriptedCluster]:
    is_real = bool(request.config.getoption(_RECORD))
    if request.config.getoption(_BACKEND) == "simulated" and not is_real:
        from hobus.launch.testing.simulated import SimulatedScriptedCluster as made  # noqa: N813, PLC0415
    else:
        from hobus.launch.testing.cluster import ScriptedCluster as made  # noqa: N813, PLC0415
    with (
        tempfile.TemporaryDirectory(prefix="hobus-test-") as root,
        made(Path(root), hobus_agents, hobus_settings, is_real=is_real) as cluster,
    ):
        yield cluster


@pytest.fixture
def hobus_cluster(request: pytest.FixtureRequest, _hobus_running: ScriptedCluster) -> Generator[ScriptedCluster]:
    """Provide the module's cluster, a `hobus.Cluster`.

    `use(ScriptedModel([...]))` says what its model answers in this test.
    """
    from hobus.launch.testing.cassette import Cassette, write_cassette  # noqa: PLC0415
    from hobus.ledger_service.reader import find_head  # noqa: PLC0415

    cluster, path = _hobus_running, make_cassette_path(request)
    if not cluster.is_real and path.exists():
        cluster.use(Cassette(path))
    before = find_head(cluster.home / "ledger") if cluster.is_real else -1
    yield cluster
    has_passed = request.node.stash.get(_PASSED, False)
    if cluster.is_real and has_passed:
        write_cassette(cluster.home, path, after=before)
    if (fault := cluster.rest()) and has_passed:  # else the first fault is the one to see
        pytest.fail(fault, pytrace=False)


def make_cassette_path(request: pytest.FixtureRequest) -> Path:
    """Return where a test's cassette lies: no two tests of a module share one."""
    classes = f"{request.cls.__qualname__}." if request.cls else ""
    name = quote(classes + request.node.name, safe="[] ")
    return request.path.parent / "cassettes" / request.path.stem / f"{name}.json"
