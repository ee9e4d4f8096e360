"""Reading a directory without a running ledger."""

import pytest

from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.messages.ledger import Provenance
from hobus.ledger_service.index import open_for_reading
from hobus.ledger_service.reader import (
    EntryFilter,
    find_entries,
    find_head,
    find_sessions,
    list_journal_ends,
    list_runs_with,
    read_entries,
)
from hobus.ledger_service.segment import name_segment
from tests.ledger_service.rig import SESSION, append, ledger_config, running, start, take_over, write

OF_SESSION = Provenance(session_id=SESSION.removeprefix("session/"))
CONFIG = ledger_config(segment_bytes=4_096)


@pytest.fixture
async def directory(memory_path):
    """Twenty-three entries over several segments."""
    async with running(RealDisk(memory_path), CONFIG) as ledger:
        await ledger.write(take_over(1, ""), append("s1", take_over(1, "").submission_id, 1, provenance=OF_SESSION))
        for number in range(20):
            await ledger.write(write(f"e{number}", "ho2m" if number % 2 else "ho1m", body=bytes([number]) * 200))
        await ledger.write(
            write("last", event_type="WO_FAILED", provenance=Provenance(session_id="abc", work_order_id="w"))
        )
        assert len(ledger.service._ledger.files.firsts()) > 2
    return memory_path


def _numbers(*args, **kwargs) -> list[int]:
    return [entry.sequence for entry in read_entries(*args, **kwargs)]


async def test_all_entries_come_in_order_or_newest_first(directory):
    assert _numbers(directory) == list(range(23))
    assert _numbers(directory, newest_first=True) == list(range(22, -1, -1))
    assert _numbers(directory, after=9, limit=3) == [10, 11, 12]
    assert _numbers(directory, after=9, newest_first=True, limit=20) == list(range(22, 9, -1))
    assert _numbers(directory, after=22) == [] and _numbers(directory, limit=0) == []
    async with running(RealDisk(directory), CONFIG) as ledger:
        assert list(read_entries(directory, with_bodies=True)) == await ledger.all(with_bodies=True)


async def test_filters_choose_entries(directory):
    assert _numbers(directory, EntryFilter(stream="ho2m"), limit=3) == [3, 5, 7]
    assert _numbers(directory, EntryFilter(event_type="WO_FAILED")) == [22]
    assert _numbers(directory, EntryFilter(session=f"SES-{SESSION.removeprefix('session/')[:8]}")) == [1]
    assert _numbers(directory, EntryFilter(session="ab")) == [22]
    assert _numbers(directory, EntryFilter(stream="ho1m", event_type="TookOver")) == []


async def test_journals_are_listed_by_their_last_entries_and_runs_by_what_happened_in_them(directory):
    """With an index, with entries behind it, and without one; the journal that changed last first."""
    whole = SESSION.removeprefix("session/")
    for _ in range(2):
        assert list_journal_ends(directory) == [(whole, 1, read_entries_types(directory)[1])]
        assert list_runs_with(directory, "WO_FAILED") == [("abc", 0, "w")]
        assert list_runs_with(directory, "TookOver") == []
        for path in directory.glob("index.sqlite*"):
            path.unlink()


async def test_runs_with_a_seldom_entry_are_found_without_a_look_at_every_entry(directory):
    """By the tree of such types; of others the index has none."""
    with open_for_reading(directory) as opened:
        assert opened is not None
        database, asked = opened[0]._db, list[str]()
        database.set_trace_callback(asked.append)
        for event_type, is_by_tree in (("SESSION_START", True), ("WO_FAILED", False)):
            opened[0].runs_with(event_type)
            [plan, *_] = database.execute(f"EXPLAIN QUERY PLAN {asked[-1]}").fetchall()
            assert ("by_seldom_type" in plan[3]) is is_by_tree, plan


def read_entries_types(directory) -> list[str]:
    return [entry.event_type for entry in read_entries(directory)]


async def test_sessions_are_found_by_how_they_begin(directory):
    whole = SESSION.removeprefix("session/")
    for _ in range(2):
        assert find_sessions(directory, whole[:8]) == {whole} and find_sessions(directory, "abc") == {"abc"}
        assert find_sessions(directory, "") >= {whole, "abc"} and find_sessions(directory, "abcd") == set()
        for path in directory.glob("index.sqlite*"):
            path.unlink()


async def test_reading_from_a_number_on(directory):
    (entry,) = read_entries(directory, after=6, limit=1, with_bodies=True)
    assert entry.submission_id == "e5" and entry.bodies == [bytes([5]) * 200]
    assert not list(read_entries(directory, after=22)) and find_head(directory) == 22


async def test_it_reads_beside_a_running_writer(memory_path):
    ledger = await start(RealDisk(memory_path), CONFIG)
    assert find_head(memory_path) == -1
    for number in range(12):
        await ledger.write(write(f"e{number}", body=bytes(400)))
        assert _numbers(memory_path) == list(range(number + 1)) and find_head(memory_path) == number
    await ledger.service.drain()


async def test_a_torn_tail_is_left_out_and_damage_is_said(directory, memory_path):
    path = max((directory / "segments").glob("*.seg"))
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[: end - 5] + bytes(5))
    with pytest.raises(LedgerError, match=r"entries 22\.\.22 are gone"):  # the index knows it, so it was acknowledged
        _numbers(directory)
    for file in directory.glob("index.sqlite*"):
        file.unlink()
    assert _numbers(directory) == list(range(22))
    path.write_bytes(content)
    first = directory / "segments" / name_segment(0)
    data = bytearray(first.read_bytes())
    data[200] ^= 1
    first.write_bytes(data)
    with pytest.raises(LedgerError, match="damaged"):
        _numbers(directory)
    assert _numbers(directory, newest_first=True, limit=3) == [22, 21, 20]


async def test_no_ledger_is_an_error_not_an_empty_list(memory_path):
    with pytest.raises(LedgerError, match="no ledger"):
        list(read_entries(memory_path / "elsewhere"))


@pytest.mark.slow
@pytest.mark.parametrize("index", ["whole", "behind", "damaged", "none"])
@pytest.mark.parametrize("newest_first", [False, True])
async def test_what_is_asked_for_is_the_same_with_the_index_and_without(directory, index, newest_first):
    """By each part of a filter, between two sequences, by ids; also where the index lags, is damaged, or is not there."""
    whole = list(read_entries(directory, with_bodies=True))
    path = directory / "index.sqlite"
    early = path.read_bytes()
    async with running(RealDisk(directory), CONFIG) as ledger:
        for number in range(20):
            about = Provenance(session_id=["abc", "abd", ""][number % 3], run_seq=number % 2)
            await ledger.write(write(f"f{number}", "ho2m", body=bytes(90), provenance=about))
    whole += list(read_entries(directory, after=22, with_bodies=True))
    assert len(whole) == 43
    match index:
        case "behind":
            path.write_bytes(early)
        case "damaged":
            path.write_bytes(path.read_bytes()[:8192] + bytes(8192) + path.read_bytes()[16384:])
        case "none":
            path.unlink()
        case _:
            assert all(entry.sequence < 43 for entry in whole)
    for wanted in (
        EntryFilter(), EntryFilter(stream="ho2m"), EntryFilter(event_type="TookOver"), EntryFilter(session="abc"),
        EntryFilter(session="ab"), EntryFilter(session="zz"), EntryFilter(session="abc", run=1), EntryFilter(stream="*"),
        EntryFilter(session="abd", stream="ho2m"),
    ):  # fmt: skip
        for after, before in ((-1, None), (7, 30), (24, 25)):
            found = list(
                read_entries(directory, wanted, after=after, before=before, newest_first=newest_first, with_bodies=True)
            )
            expected = [one for one in whole if wanted.accepts(one) and after < one.sequence < (before or 99)]
            assert found == expected[:: -1 if newest_first else 1], (wanted, after, before)
    assert [one.sequence for one in find_entries(directory, ["e5", "f19", "nobody"])] == [7, 42]


async def test_a_question_reads_only_what_it_asks_for(directory):
    """Where there is an index: damage elsewhere is for `verify`."""
    first = directory / "segments" / name_segment(0)
    data = bytearray(first.read_bytes())
    data[200] ^= 1
    first.write_bytes(data)
    assert _numbers(directory, EntryFilter(event_type="WO_FAILED")) == [22]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_entries_that_are_gone_are_said_wherever_they_were(directory, newest_first):
    """Without the first segment, one in the middle, the last one, any, or the end of one that the index knows."""
    paths = sorted((directory / "segments").glob("*.seg"))
    contents = {path: path.read_bytes() for path in paths}

    def read() -> list[int]:
        return _numbers(directory, EntryFilter(stream="ho2m"), newest_first=newest_first, by_index=False)

    for gone in (paths[:1], paths[1:2], paths[-1:], paths):
        for path in gone:
            path.unlink()
        with pytest.raises(LedgerError, match=r"entries \d+\.\.\d+ are gone"):
            read()
        for path in gone:
            path.write_bytes(contents[path])
    for path in (paths[0], paths[-1]):
        path.write_bytes(b"")
        with pytest.raises(LedgerError, match=r"entries \d+\.\.\d+ are gone"):
            read()
        path.write_bytes(contents[path])
    assert read() == sorted(range(3, 22, 2), reverse=newest_first)
