"""The map of cells: who is placed stays, one move at a time, every step once, and another process sees it at once."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.cells.map import NEXT, REFUSING, Cell, CellMap
from hobus.launch.cells.placement import cell_for


@pytest.fixture
def path(tmp_path):
    """Where a map is."""
    return tmp_path / "cells.sqlite"


def cells(path, *names):
    """A map of these."""
    found = CellMap(path)
    for name in names:
        found.put(Cell(name, f"http://{name}", "", "k"))
    return found


def test_who_was_placed_stays_when_cells_come_and_go(path):
    """A cell more takes only people whom nobody has seen; one that takes nobody new keeps those whom it has."""
    two = cells(path, "a", "b")
    before = {f"p{number}": two.place(f"p{number}")[0] for number in range(40)}
    assert set(before.values()) == {"a", "b"} and all(cell == cell_for(who, "ab") for who, cell in before.items())
    two.put(Cell("c", "http://c", "", "k"))
    assert {who: two.place(who)[0] for who in before} == before
    two.put(two.cells()["a"]._replace(is_open=False))
    assert {two.place(f"q{number}")[0] for number in range(40)} == {"b", "c"}
    assert {who: two.place(who)[0] for who in before} == before
    assert not two.drop("a") and two.drop("c") is False


def test_a_cell_without_people_can_go(path):
    """The others stay."""
    found = cells(path, "a", "b")
    assert found.drop("b") and list(found.cells()) == ["a"]


def test_two_processes_place_a_person_once(path):
    """Both see the same, at once; the file is for its user alone, as it holds keys."""
    one, other = cells(path, "a", "b"), CellMap(path)
    assert {name: one.place(name) for name in "xyz"} == {name: other.place(name) for name in "xyz"}
    assert path.stat().st_mode & 0o077 == 0


def test_a_move_in_its_steps(path):
    """Doors refuse the person until the target has them; then the map says so, and another move may begin."""
    found = cells(path, "a", "b")
    found.list_people("a", ["alice"])
    assert found.place("alice") == ("a", False)
    move = found.begin("alice", "b", 1)
    assert (move.source, move.target, move.step) == ("a", "b", "leaving")
    assert CellMap(path).place("alice") == ("a", True)
    assert found.begin("alice", "a", 2) == move, "one at a time: whoever asks meanwhile is told of the one there is"
    assert not found.drop("b")
    places = {}
    while move.step != "done":
        places[move.step] = found.place("alice")
        assert found.moves() == [move]
        move = found.advance(move, 3)
    assert places == dict.fromkeys(("leaving", "copying", "arriving"), ("a", True)) | {"sweeping": ("b", False)}
    assert found.place("alice") == ("b", False) and found.moves() == []


def test_who_turns_back_is_where_they_were(path):
    """Refused until they are back."""
    found = cells(path, "a", "b")
    found.list_people("a", ["alice"])
    back = found.advance(found.begin("alice", "b", 1), 2, "returning")
    assert found.place("alice") == ("a", True)
    assert found.advance(back, 3).step == "done" and found.place("alice") == ("a", False)


def test_a_move_to_where_the_person_is_sweeps_where_they_came_from(path):
    """What began late there is carried after them."""
    found = cells(path, "a", "b")
    found.list_people("a", ["alice"])
    move = found.begin("alice", "b", 1)
    while move.step != "done":
        move = found.advance(move, 2)
    again = found.begin("alice", "b", 3)
    assert (again.source, again.target, again.step) == ("a", "b", "sweeping")
    found.advance(again, 4)
    assert found.drop("a")
    nothing_left = found.begin("alice", "b", 5)
    assert (nothing_left.source, nothing_left.step) == ("b", "sweeping"), "where they came from is no cell any more"


@given(st.lists(st.sampled_from(["one", "other"]), max_size=12))
def test_two_who_make_one_move_make_each_step_once(order):
    """Whoever is behind changes nothing: the person is at the target once it is reached, and no step comes twice."""
    found = _in_memory()
    held = dict.fromkeys(("one", "other"), found.begin("alice", "b", 1))
    reached = [held["one"].step]
    for who in order:
        if held[who].step != "done":
            held[who] = found.advance(held[who], 2)
            now = next((move.step for move in found.moves()), "done")
            if now != reached[-1]:
                assert NEXT[reached[-1]] == now
                reached.append(now)
    assert found.place("alice") == (("b" if reached[-1] in ("sweeping", "done") else "a"), reached[-1] in REFUSING)


def _in_memory():
    found = CellMap.__new__(CellMap)
    found.open(sqlite3.connect(":memory:", isolation_level=None))
    found.put(Cell("a", "", "", ""))
    found.put(Cell("b", "", "", ""))
    found.list_people("a", ["alice"])
    return found
