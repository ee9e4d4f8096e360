"""The index file itself; what it means for the ledger stands in test_recovery.py and test_service.py."""

import errno
import os
import random
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.messages.ledger import Provenance
from hobus.bus.record.entry import WriteEntry, to_stored
from hobus.ledger_service import index as index_module
from hobus.ledger_service.admission import StreamHead
from hobus.ledger_service.index import (
    FILE,
    FILES,
    Committed,
    Index,
    Position,
    connect_index,
    find_partition,
    hash_key,
    list_partitions,
)
from hobus.ledger_service.segment import EntryPlace
from hobus.ledger_service.verify import verify_directory
from tests.ledger_service.rig import running, start, write

CHAIN = bytes(32)


def _committed(sequence: int, **changed) -> Committed:
    provenance = Provenance(session_id=f"s{sequence % 7}", work_order_id=f"w{sequence}", run_seq=2)
    entry = WriteEntry(f"id{sequence}", "ho1m", "E", 1, provenance=provenance, once=f"k{sequence}")
    stored = to_stored(entry, "ho1/1@1", 1, (), ())
    return Committed(EntryPlace(sequence, 0, 100 * sequence, 90, 0, CHAIN), stored._replace(**changed))


def _apply(index: Index, first: int, count: int) -> None:
    rows = [_committed(number) for number in range(first, first + count)]
    position = Position(0, first + count - 1, 100 * (first + count), CHAIN)
    index.apply(rows, {"session/x": StreamHead(f"id{first}", first, "ho2/1@7")}, [position])


def test_a_reader_sees_each_commit_and_cannot_write(memory_path):
    path = memory_path / "index.sqlite"
    with (
        closing(Index.open(str(path))) as index,
        closing(Index(connect_index(f"{path.absolute().as_uri()}?mode=ro", uri=True))) as reader,
    ):
        for first in (0, 10):
            _apply(index, first, 10)
            assert reader.positions() == index.positions() == [Position(0, first + 9, 100 * (first + 10), CHAIN)]
            assert (
                len(reader.select({"session_id": "s3"}, after=-1, limit=99, newest_first=False))
                == (first + 10 + 3) // 7
            )
        with pytest.raises(sqlite3.OperationalError):
            reader.apply([_committed(20)], {}, [])


def test_questions_between_commits_do_not_keep_the_log_from_being_taken_over(memory_path):
    with closing(Index.open(str(memory_path / "index.sqlite"))) as index:
        for round_number in range(150):
            _apply(index, 20 * round_number, 20)
            assert not [*index.find_by_submission("nothing")] and len([*index.find_by_once("k3")]) == 1
        assert (memory_path / "index.sqlite-wal").stat().st_size < 8_000_000
        assert (
            index.head("session/x") == StreamHead("id2980", 2980, "ho2/1@7") and index.head("session/y") == StreamHead()
        )


@pytest.mark.usefixtures("small_partitions")
def test_all_hashes_are_read_in_parts_while_entries_come_in(memory_path, monkeypatch):
    monkeypatch.setattr(index_module, "_HASHES_AT_ONCE", 3)
    with closing(Index.open(str(memory_path / "index.sqlite"))) as index:
        _apply(index, 0, 20)
        same = [_committed(number, submission_id="id7", once=None) for number in range(20, 30)]
        index.apply(same, {}, [Position(0, 29, 3000, CHAIN)])
        parts = index.hashes()
        found = set(next(parts))
        _apply(index, 30, 20)
        found.update(value for some in parts for value in some)
    assert found >= {hash_key(f"{kind}{number}") for kind in ("id", "k") for number in range(20)}


@given(st.integers(0, 1 << 40))
def test_each_entry_is_in_one_of_the_partitions_up_to_it(sequence):
    partitions = list_partitions(sequence)
    assert partitions[0] == find_partition(sequence) <= sequence and partitions[-1] == 0
    assert partitions == sorted(set(partitions), reverse=True)
    assert {find_partition(number - 1) for number in partitions[:-1]} == set(partitions[1:])


def test_a_partition_is_small_while_the_index_is_and_partitions_stay_few():
    """Exact at the borders, since rows on disk have these numbers."""
    assert [find_partition(number) for number in (0, 4095, 4096, 131_071)] == [0, 0, 4096, 126_976]
    assert [find_partition(number) for number in (131_072, 139_263, 139_264)] == [131_072, 131_072, 139_264]
    assert list_partitions(-1) == [] and list_partitions(4096) == [4096, 0]
    assert [len(list_partitions(1 << bits)) for bits in (17, 18, 24)] == [33, 49, 145]


@pytest.fixture
def small_partitions(monkeypatch):
    """Of four entries, so that few entries are in many."""
    monkeypatch.setattr(index_module, "_PARTITION_BITS", 2)


@pytest.mark.usefixtures("small_partitions")
def test_an_id_is_found_in_whichever_partition_it_is_before_and_after_a_start(memory_path):
    path = str(memory_path / "index.sqlite")
    with closing(Index.open(path)) as index:
        assert not [*index.find_by_submission("id0")]
        for first in range(0, 300, 10):
            _apply(index, first, 10)
        index.apply([_committed(300, submission_id="id7", once="k8")], {}, [Position(0, 300, 30_100, CHAIN)])
    with closing(Index.open(path)) as opened, closing(Index.open(path)) as index:
        _apply(index, 301, 10)
        for asked, last in ((opened, 301), (index, 311)):
            for number in set(range(last)) - {7, 8, 300}:
                assert [place.sequence for place in asked.find_by_submission(f"id{number}")] == [number]
                assert [place.sequence for place in asked.find_by_once(f"k{number}")] == [number]
            assert [place.sequence for place in asked.find_by_submission("id7")] == [300, 7]
            assert [place.sequence for place in asked.find_by_once("k8")] == [300, 8]
        assert not [*index.find_by_submission("id311")]


@pytest.mark.slow
def test_a_transaction_writes_few_pages_however_many_entries_there_are(memory_path):
    """A hash is in no order of time; in one tree of all of them each new one would lie on another page."""
    path = memory_path / "index.sqlite"
    with closing(Index.open(str(path))) as index:
        for first in range(0, 40_000, 4_000):
            _apply(index, first, 4_000)
    with closing(Index.open(str(path))) as index:  # the log is empty
        _apply(index, 40_000, 200)
        assert path.with_name(f"{FILE}-wal").stat().st_size < 200 * 4_096


def test_a_failed_transaction_leaves_the_position_where_it_was(memory_path):
    path = str(memory_path / "index.sqlite")
    with closing(Index.open(path)) as index:
        _apply(index, 0, 5)
        with pytest.raises(sqlite3.IntegrityError):
            _apply(index, 4, 5)
    with closing(Index.open(path)) as index:
        assert index.positions() == [Position(0, 4, 500, CHAIN)] and not [*index.find_by_submission("id5")]


def test_an_index_of_another_schema_is_not_opened(memory_path):
    """It is rebuilt, not migrated."""
    path = str(memory_path / "index.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(sqlite3.DatabaseError, match="schema"):
        Index.open(path)


def test_fields_that_may_not_be_asked_for_are_refused():
    with closing(Index.open(None)) as index, pytest.raises(ValueError, match="not a field to query by"):
        index.select({"chain": "x"}, after=-1, limit=1, newest_first=False)


@pytest.mark.parametrize("bits", [12, pytest.param(70, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("small_partitions")
def test_a_flipped_bit_never_hides_what_a_write_is_decided_by(memory_path, bits):
    """Ids, once keys, heads: the right answer or an error, wherever in the file the bit is."""
    path, damaged = memory_path / "index.sqlite", memory_path / "damaged.sqlite"
    with closing(Index.open(str(path))) as index:
        _apply(index, 0, 320)
    content, draw = path.read_bytes(), random.Random(7)
    used = [at for at, byte in enumerate(content) if byte]  # where nothing is, hardly anything can be damaged
    noticed = 0
    for _ in range(bits):
        bit = draw.choice(used) * 8 + draw.randrange(8)
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(changed)
        try:
            with closing(Index.open(str(damaged))) as index:
                for number in range(320):
                    assert [place.sequence for place in index.find_by_submission(f"id{number}")] == [number], bit
                    assert [place.sequence for place in index.find_by_once(f"k{number}")] == [number], bit
                assert not [one for number in range(50) for one in index.find_by_submission(f"other{number}")], bit
                hashes = {value for some in index.hashes() for value in some}
                assert hashes == {hash_key(f"{kind}{number}") for kind in ("id", "k") for number in range(320)}, bit
                assert index.head("session/x") == StreamHead("id0", 0, "ho2/1@7"), bit
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            noticed += 1
        for beside in ("-wal", "-shm"):
            damaged.with_name(damaged.name + beside).unlink(missing_ok=True)
    assert noticed > bits // 3


@pytest.mark.parametrize("column", ["length", "stream", "crc"])
def test_a_damaged_row_that_holds_no_text_is_a_damaged_row(memory_path, column):
    path = memory_path / "index.sqlite"
    with closing(Index.open(str(path))) as index:
        _apply(index, 0, 10)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE entries SET {column} = CAST(x'e228a1' AS TEXT) WHERE sequence = 3")  # noqa: S608 - names
    told = []
    with closing(Index.open(str(path))) as index:
        index.on_broken = told.append
        with pytest.raises(sqlite3.DatabaseError):
            index.select({"event_type": "E"}, after=-1, limit=99, newest_first=False)
    assert len(told) == 1
    with closing(Index(connect_index(f"{path.absolute().as_uri()}?mode=ro", uri=True))) as reader:
        assert "3" in reader.fault()


def test_words_of_sqlite_itself_that_are_no_text_are_an_error_of_the_file(memory_path):
    path = memory_path / "index.sqlite"
    with closing(Index.open(str(path))) as index:
        _apply(index, 0, 10)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE heads_again", b"CREATE \xe2\x28\xa1LE heads_again"))
    assert data != path.read_bytes()
    with pytest.raises(sqlite3.DatabaseError):
        Index.open(str(path)).close()


@pytest.mark.parametrize("damage", ["end = NULL", "chain = 'e'", "end = CAST(x'e2' AS TEXT)"])
async def test_a_position_that_is_none_makes_the_index_anew(memory_path, damage):
    disk = RealDisk(memory_path)
    async with running(disk) as ledger:
        await ledger.write(*(write(f"e{n}") for n in range(5)))
        await ledger.service.drain()
    with closing(sqlite3.connect(memory_path / FILE)) as db, db:
        db.execute(f"UPDATE segments SET {damage}")  # noqa: S608 - words of this test
    async with running(disk) as ledger:
        assert [entry.submission_id for entry in await ledger.read("ho1m")] == [f"e{n}" for n in range(5)]


def test_an_index_that_cannot_be_written_is_none(memory_path, monkeypatch):
    path = memory_path / FILE
    Index.open(str(path)).close()
    monkeypatch.setattr(index_module, "connect_index", lambda found: sqlite3.connect(f"file:{found}?mode=ro", uri=True))
    with pytest.raises(sqlite3.DatabaseError, match="readonly"):
        Index.open(str(path)).close()


_NO_FILES = {
    "a directory": lambda path: (path.mkdir(), (path / "mine").write_text("kept")),
    "an empty directory": lambda path: path.mkdir(),
    "a link to nothing": lambda path: path.symlink_to("/nonexistent/x"),
    "a link to a directory": lambda path: path.symlink_to(path.parent),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", _NO_FILES)
async def test_whatever_stands_in_the_place_of_the_index_gives_way_to_a_new_one(memory_path, name, kind):
    """It is a cache: the verification says what will happen, the start does it, and a directory is kept aside."""
    disk = RealDisk(memory_path)
    async with running(disk) as ledger:
        await ledger.write(*(write(f"e{n}") for n in range(5)))
    for file in FILES if name == FILE else (name,):
        (memory_path / file).unlink(missing_ok=True)
    _NO_FILES[kind](memory_path / name)
    report = verify_directory(memory_path)
    assert report.ok and f"{name} is not a file" in report.index and "makes a new one" in report.index
    async with running(disk) as ledger:
        assert [ack.outcome for ack in await ledger.write(write("e0"), write("f"))] == ["known", "committed"]
    assert verify_directory(memory_path).index == "agrees"
    assert [file.read_text() for file in memory_path.glob("*.aside/mine")] == ["kept"] * (kind == "a directory")


class _Stuck(RealDisk):
    """Its directory takes no change of names."""

    def remove(self, path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    def rename(self, source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", f"{source} -> {target}")


async def test_where_no_index_can_be_made_the_start_says_where_and_what_fixes_it(memory_path, monkeypatch):
    async with running(RealDisk(memory_path)) as ledger:
        await ledger.write(write("a"))
    (memory_path / FILE).unlink()
    (memory_path / FILE).mkdir()
    with pytest.raises(LedgerError, match=f"{memory_path / FILE} can be neither .* may write in its directory"):
        await start(_Stuck(memory_path))
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    monkeypatch.setattr("os.geteuid", lambda: -1)
    report = verify_directory(memory_path)
    assert not report.ok and report.fault.file == FILE and "not writable" in report.fault.what
