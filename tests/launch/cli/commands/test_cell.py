"""What `hobus cell` says to what cannot be, without a cluster."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from hobus.bus.errors import SessionFault
from hobus.launch.cells import find_path
from hobus.launch.cells.map import Cell, CellMap
from hobus.launch.cli.commands import cell as commands
from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes
from hobus.launch.http import keys
from tests.launch.cli.test_every_command import run

A, B = "http://127.0.0.1:18432", "http://127.0.0.1:18433"


@pytest.fixture
def said(capsys, tmp_path):
    """`said(cell, *words)`: exit code and stderr of `hobus cell ...` in that cell's home, in which a cluster has run."""

    def command(cell: str, *words: str) -> tuple[int, str]:
        (tmp_path / cell / "ledger").mkdir(parents=True, exist_ok=True)
        code, out, err = run(capsys, "cell", *words, "--home", str(tmp_path / cell))
        return code, out + err

    return command


def refused(answer: tuple[int, str], *words: str) -> bool:
    """As a usage error, with these words and what to do next."""
    return answer[0] == exit_codes.USAGE and all(word in answer[1] for word in (*words, "next:"))


def test_a_home_is_one_cell_and_a_cell_is_one_home(said, tmp_path):
    """A second name, or somebody else's, would send people where their sessions are not."""
    assert refused(said("a", "add", "a", "--url", A, "--map", str(tmp_path / "b")), "there is no map of cells in")
    assert said("a", "add", "a", "--url", A)[0] == exit_codes.OK
    there = ("--map", str(tmp_path / "a"))
    assert said("b", "add", "b", "--url", B, *there)[0] == exit_codes.OK
    assert refused(said("b", "add", "c", "--url", B), "this home is already cell b")
    assert refused(said("c", "add", "b", "--url", "http://127.0.0.1:1", *there), "that is the cell b already")
    assert refused(said("c", "add", "c", "--url", A, *there), "that is the cell a already")
    assert said("b", "add", "b", "--url", "http://127.0.0.1:2/")[0] == exit_codes.OK, "another address"
    listed = json.loads(said("b", "list", "--json")[1])["cells"]
    assert [(one["cell"], one["url"], one["home"]) for one in listed] == [
        ("a", A, str(tmp_path / "a")), ("b", "http://127.0.0.1:2", str(tmp_path / "b")),
    ]  # fmt: skip
    secrets = {(tmp_path / name / "keys" / "http.secret").read_bytes() for name in "ab"}
    assert len(secrets) == 1, "all doors sign alike"
    for name in "ab":
        assert [key.may for key in keys.list_keys(make_home(tmp_path / name))] == ["cell"]
        assert find_path(tmp_path / name).stat().st_mode & 0o077 == 0, "it may name a server with a password"
    assert all(one.stat().st_mode & 0o077 == 0 for one in (tmp_path / "a").glob("cells.sqlite*")), "it holds keys"


def test_a_later_cell_has_no_clients_yet(said, tmp_path):
    """Their sessions would be signed with another secret, and their names be others'."""
    said("a", "add", "a", "--url", A)
    keys.create(make_home(tmp_path / "b"), "alice", new_id=lambda: "1" * 20, now_us=1, ttl_s=None)
    assert refused(said("b", "add", "b", "--url", B, "--map", str(tmp_path / "a")), "has clients' keys", "keys list")
    assert not find_path(tmp_path / "b").exists() and list(CellMap(tmp_path / "a" / "cells.sqlite").cells()) == ["a"]


def test_a_key_named_as_other_doors_is_not_taken_away(said, tmp_path):
    """Theirs would take the place of a person's own."""
    keys.create(make_home(tmp_path / "a"), "front", new_id=lambda: "1" * 20, now_us=1, ttl_s=None)
    assert refused(said("a", "add", "a", "--url", A), "has a key named front", "keys list")
    assert [key.may for key in keys.list_keys(make_home(tmp_path / "a"))] == ["use"]
    assert refused(said("b", "add", "b", "--url", B, "--map", str(tmp_path / "a")), "there is no map of cells in")


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"no map" * 100)])
def test_a_map_that_is_gone_or_damaged_is_told_and_not_made_anew(said, capsys, tmp_path, harm):
    """In a new one people would be placed anew; `hobus doctor` sees it, too."""
    said("a", "add", "a", "--url", A)
    harm(tmp_path / "a" / "cells.sqlite")
    code, told = said("a", "list")
    assert code and "the map of cells" in told and "next:" in told
    code, told, _ = run(capsys, "doctor", "--home", str(tmp_path / "a"))
    assert code and "the map of cells" in told
    assert said("a", "add", "a", "--url", A)[0]


def test_a_server_without_its_library_is_told_with_the_mend(said, capsys, tmp_path, monkeypatch):
    """By `hobus doctor`, too."""
    said("a", "add", "a", "--url", A)
    find_path(tmp_path / "a").write_text('{"name": "a", "map": "postgresql://127.0.0.1:1/cells"}')
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for answer in (said("a", "list"), run(capsys, "doctor", "--home", str(tmp_path / "a"))[:2]):
        assert answer[0] and "needs psycopg" in answer[1] and "hobus[cells]" in answer[1]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("add", "A", "--url", A), "NAME: a-z, 0-9 and -"),
        (("add", "a", "--url", "127.0.0.1:1"), "--url: http://HOST:PORT"),
        (("add", "a", "--url", A, "--ssh", "-oProxyCommand=sh"), "--ssh: [USER@]HOST"),
        (("add", "a", "--url", A, "--map", "mysql://x/y"), "--map: expected the first cell's home"),
        (("list",), "is no cell"),
        (("move", "alice", "b"), "is no cell"),
        (("remove", "b"), "is no cell"),
    ],
)
def test_what_is_none_is_told(said, words, what):
    """With what is expected, or what to do before."""
    assert refused(said("a", *words), what)


def test_who_and_what_nobody_knows_is_told(said, tmp_path, capsys):
    """A home without a cluster, a person or a cell that there is not, the last cell, a damaged file."""
    code, _out, err = run(capsys, "cell", "add", "a", "--url", A, "--home", str(tmp_path / "etc"))
    assert refused((code, err), "no cluster has run in") and not (tmp_path / "etc").exists()
    code, err = said("a", "add", "a", "--url", A)
    assert code == exit_codes.OK and "hobus restart http/1" in err
    assert refused(said("a", "move", "alice", "b"), "there is no cell 'b'")
    assert said("a", "move", "alice", "a")[0] == exit_codes.UNREACHABLE, "whether she is here, its cluster knows"
    with closing(CellMap(tmp_path / "a" / "cells.sqlite")) as cells:
        cells.list_people("a", [])
    assert refused(said("a", "move", "alice", "a"), "no cell knows 'alice'")
    assert refused(said("a", "move", "Alice/..", "a"), "no cell knows")
    assert refused(said("a", "remove", "a"), "a is the last one", "hobus cell add")
    find_path(tmp_path / "a").write_text("{")
    assert refused(said("a", "list"), "cell.json is damaged")


def test_a_cell_on_another_machine_is_told_from_one_here(said, tmp_path):
    """Without --ssh it is looked for here."""
    said("a", "add", "a", "--url", A)
    with closing(CellMap(tmp_path / "a" / "cells.sqlite")) as cells:
        for name in "bc":
            cells.put(Cell(name, f"http://{name}", f"/nowhere/{name}", "k"))
        cells.list_people("b", ["alice"])
    assert refused(said("a", "move", "alice", "c"), "the home of cell", "is not on this machine", "--ssh HOST")


def test_a_turn_that_outlasts_the_wait_is_told_with_the_option(said, tmp_path, monkeypatch):
    """The person is where they were."""
    said("a", "add", "a", "--url", A)

    async def connect(*_given: object) -> SimpleNamespace:
        return SimpleNamespace(people=AsyncMock(return_value={}))

    monkeypatch.setattr(commands, "_connect_side", connect)
    monkeypatch.setattr(commands, "made", AsyncMock(side_effect=SessionFault("run_active", "at work")))
    with closing(CellMap(tmp_path / "a" / "cells.sqlite")) as cells:
        cells.put(Cell("b", "http://b", "/nowhere", "k"))
        cells.list_people("a", ["alice"])
    code, told = said("a", "move", "alice", "b", "--wait", "1s")
    assert code == exit_codes.REFUSED and "run_active" in told and "next: the same command with a longer --wait" in told


def test_one_command_changes_cells_at_a_time(said, tmp_path, monkeypatch):
    """The other one says so, and goes by what there is when its turn has come."""
    said("a", "add", "a", "--url", A)
    with closing(CellMap(tmp_path / "a" / "cells.sqlite")) as cells:
        cells.put(Cell("b", "http://b", "/nowhere", "k"))
        release = cells.hold()
        assert release is not None and cells.hold() is None

        def sleep(_s: float) -> None:
            assert cells.drop("b")
            release()

        monkeypatch.setattr("time.sleep", sleep)
        answer = said("a", "remove", "a")
        assert refused(answer, "another `hobus cell` is at work", "a is the last one")
        assert cells.hold() is not None, "it was given back"
