"""What `hobus cell` says to what cannot be, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hobus.launch.cells import path_of
from hobus.launch.cells.map import CellMap
from hobus.launch.console import exit_codes
from tests.launch.cli.test_every_command import run

URL = "http://127.0.0.1:18432"


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with a cell b."""
    (tmp_path / "b" / "ledger").mkdir(parents=True)
    return str(tmp_path / "home")


def added(capsys: pytest.CaptureFixture[str], home: str, name: str, url: str, at: Path) -> tuple[int, str]:
    """Exit code and what is said on stderr."""
    code, _out, err = run(capsys, "cell", "add", name, "--url", url, "--at", str(at), "--home", home)
    return code, err


def test_a_cell_has_one_name_and_a_home_with_the_sessions_of_its_people(capsys, home, tmp_path):
    """Its key would go to the newer name, and everybody under the older one would be refused."""
    assert added(capsys, home, "b", URL, tmp_path / "b")[0] == exit_codes.OK
    for url, at in ((URL, tmp_path / "c"), ("http://127.0.0.1:1", tmp_path / "b")):
        code, err = added(capsys, home, "c", url, at)
        assert code == exit_codes.USAGE and "that is the cell b already" in err
    assert added(capsys, home, "b", URL + "/", tmp_path / "b")[0] == exit_codes.OK
    CellMap(path_of(Path(home))).list_people("b", ["alice"])
    code, err = added(capsys, home, "b", URL, tmp_path / "typo")
    assert code == exit_codes.USAGE and "typo has no record, and the sessions of the 1 people of b are in" in err
    (tmp_path / "file").touch()
    code, err = added(capsys, home, "d", "http://127.0.0.1:2", tmp_path / "file")
    assert code == exit_codes.USAGE and "file is no directory" in err


def test_the_last_cell_that_takes_people_stays_and_ones_own_can_come_back(capsys, home, tmp_path):
    """A refused removal changes nothing."""
    added(capsys, home, "b", URL, tmp_path / "b")
    assert run(capsys, "cell", "remove", "here", "--home", home)[0] == exit_codes.OK
    code, _out, err = run(capsys, "cell", "remove", "b", "--home", home)
    assert code == exit_codes.USAGE and "b is the last one" in err and "hobus cell add" in err
    listed = lambda: json.loads(run(capsys, "cell", "list", "--json", "--home", home)[1])["cells"]  # noqa: E731
    assert [(one["cell"], one["takes_new"]) for one in listed()] == [("b", True)]
    assert run(capsys, "cell", "add", "here", "--home", home)[0] == exit_codes.OK
    assert {one["cell"] for one in listed()} == {"b", "here"}
