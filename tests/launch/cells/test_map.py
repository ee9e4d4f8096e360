"""The map of cells: who is placed stays, one move at a time, every step once, and another process sees it at once."""

import pytest

from hobus.bus.errors import BusError
from hobus.launch.cells.map import Cell, CellMap, choose_cell
from tests.postgres import postgres

pytestmark = pytest.mark.slow

OPEN: list[CellMap] = []


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL server."""
    with postgres() as found:
        yield found


@pytest.fixture(params=["file", "server"])
def path(request, tmp_path):
    """Where a map is."""
    if request.param == "file":
        (tmp_path / "cells.sqlite").touch()
        yield str(tmp_path / "cells.sqlite")
    else:
        where = request.getfixturevalue("server").where
        found = opened(where)
        found.cells()
        found._run("truncate cells, people, moves, listed, secrets")
        yield where
    while OPEN:
        OPEN.pop().close()


def opened(path):
    """A map, as one process has it."""
    OPEN.append(CellMap(path))
    return OPEN[-1]


def cells(path, *names):
    """A map of these."""
    found = opened(path)
    for name in names:
        found.put(Cell(name, f"http://{name}", "", "k"))
    return found


def name(found, who):
    """The cell of this person."""
    return found.place(who)[0].name


def where(found):
    """That of alice, and whether she moves."""
    cell, is_moving = found.place("alice")
    return cell.name, is_moving


def test_who_was_placed_stays_when_cells_come_and_go(path):
    """A cell more takes only people whom nobody has seen; one that takes nobody new keeps those whom it has."""
    two = cells(path, "a", "b")
    before = {f"p{number}": name(two, f"p{number}") for number in range(40)}
    assert set(before.values()) == {"a", "b"} and all(cell == choose_cell(who, "ab") for who, cell in before.items())
    two.put(Cell("c", "http://c", "", "k"))
    assert {who: name(two, who) for who in before} == before
    two.put(two.cells()["a"]._replace(is_open=False))
    assert {name(two, f"q{number}") for number in range(40)} == {"b", "c"}
    assert {who: name(two, who) for who in before} == before
    assert not two.drop("a") and two.drop("c") is False


def test_a_cell_without_people_can_go(path):
    """The others stay, a door that still runs there enters nobody, and whoever comes with it again is asked anew."""
    found = cells(path, "a", "b")
    found.list_people("b", [])
    assert found.drop("b") and list(found.cells()) == ["a"]
    assert not found.is_listed("b")
    found.list_people("b", ["alice"])
    assert where(found) == ("a", False)


def test_two_processes_place_a_person_once(path):
    """Both see the same, at once."""
    one, other = cells(path, "a", "b"), opened(path)
    assert {who: one.place(who) for who in "xyz"} == {who: other.place(who) for who in "xyz"}
    assert one.secret("first") == other.secret("second") == other.secret() == "first"


def test_a_move_in_its_steps(path):
    """Doors refuse the person until the target has them; then the map says so, and another move may begin."""
    found = cells(path, "a", "b")
    found.list_people("a", ["alice"])
    assert where(found) == ("a", False)
    move = found.begin("alice", "b", 1)
    assert (move.source, move.target, move.step) == ("a", "b", "leaving")
    assert where(opened(path)) == ("a", True)
    assert found.begin("alice", "a", 2) == move, "one at a time: whoever asks meanwhile is told of the one there is"
    assert not found.drop("b")
    places = {}
    while move.step != "done":
        places[move.step] = where(found)
        assert found.moves() == [move]
        move = found.advance(move, 3)
    assert places == dict.fromkeys(("leaving", "copying", "arriving"), ("a", True)) | {"sweeping": ("b", False)}
    assert where(found) == ("b", False) and found.moves() == []


def test_who_turns_back_is_where_they_were(path):
    """Refused until they are back."""
    found = cells(path, "a", "b")
    found.list_people("a", ["alice"])
    back = found.advance(found.begin("alice", "b", 1), 2, "returning")
    assert where(found) == ("a", True)
    assert found.advance(back, 3).step == "done" and where(found) == ("a", False)


def test_a_move_to_where_the_person_is_is_done(path):
    """Nothing is written down."""
    found = cells(path, "a", "b")
    found.list_people("a", ["alice"])
    assert found.begin("alice", "a", 1).step == "done" and found.moves() == []


def test_one_holds_the_map_at_a_time(path):
    """Until it gives it back."""
    one, other = cells(path, "a"), opened(path)
    release = one.hold()
    assert release is not None and other.hold() is None
    assert "a" in other.cells(), "doors go on"
    release()
    assert other.hold() is not None


def test_who_lost_the_connection_that_held_the_map_goes_on_by_no_other(server):
    """Another command may be at work by then."""
    found = opened(server.where)
    assert found.hold() is not None
    server.stop()
    server.start()
    with pytest.raises(BusError, match="kept other commands out is lost"):
        found.cells()
    OPEN.pop().close()


def test_a_server_that_went_is_told_and_asked_again_once_it_is_back(server, tmp_path):
    """Nothing is half done: what was begun as it went is undone."""
    found = opened(server.where)
    found.put(Cell("z", "http://z", "", "k"))
    with pytest.raises(BusError, match="the map of cells"), found._write_whole():  # noqa: PT012
        found._run("delete from cells")
        server.stop()
        found.cells()
    with pytest.raises(BusError, match="the map of cells"):
        found.cells()
    server.start()
    assert "z" in found.cells()
    OPEN.pop().close()


def test_a_server_that_restarted_is_asked_over_a_new_connection(server):
    """Nobody hears of it, whatever is asked first; a transaction that was under way is told."""
    found = opened(server.where)
    found.put(Cell("y", "http://y", "", "k"))
    for ask in (found.cells, lambda: found.list_people("y", ["bob"])):
        server.stop()
        server.start()
        ask()
    with pytest.raises(BusError, match="the map of cells"), found._write_whole():  # noqa: PT012
        server.stop()
        server.start()
        found.cells()
    assert found.find_cell("bob") == "y"
    OPEN.pop().close()


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    """As one fault, whatever the library says of it."""
    (tmp_path / "cells.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(BusError, match="not a database"):
        CellMap(tmp_path / "cells.sqlite").cells()
    with pytest.raises(BusError, match="the map of cells"):
        CellMap(tmp_path / "none" / "cells.sqlite").cells()
