"""The filter of known ids: alone, and in front of the index of a running ledger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.disk import RealDisk
from hobus.ledger_service import index as index_module
from hobus.ledger_service import limits
from hobus.ledger_service.index import Index, hash_key
from hobus.ledger_service.tables import Known
from tests.ledger_service.rig import SESSION, append, ledger_config, running, take_over, write

HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50)


@given(HASHES, st.integers(1, 64))
def test_what_was_added_is_never_new(hashes, size_bytes):
    known = Known(size_bytes)
    known.add(hashes)
    assert not any(map(known.is_new, hashes))


def test_nearly_all_new_keys_are_new_at_the_size_that_the_configuration_advises():
    known = Known(2 * 10_000)
    known.add(hash_key(f"a{number}") for number in range(16_000))
    assert sum(known.is_new(hash_key(f"b{number}")) for number in range(10_000)) > 9_500


@pytest.fixture
def questions(monkeypatch):
    """What is asked of the index by id, once key or stream."""
    asked = []
    for name in ("find_by_submission", "find_by_once", "head"):
        real = getattr(Index, name)
        monkeypatch.setattr(
            Index, name, lambda index, key, name=name, real=real: (asked.append((name, key)), real(index, key))[1]
        )
    return asked


async def _settled(ledger):
    """The index holds everything, and what it holds was read."""
    await ledger.bus.release()
    for _ in range(200):
        await ledger.bus.sleep(0)


async def test_a_new_entry_asks_the_index_nothing(memory_path, questions):
    """Neither for its id nor its once key nor, after the first one, its session's head; not after a restart either."""
    disk = RealDisk(memory_path)
    for life in range(2):
        async with running(disk) as ledger:
            await _settled(ledger)
            took = take_over(life + 1, f"s0-{life - 1}" if life else "")
            assert [ack.outcome for ack in await ledger.write(took)] == ["committed"]
            await _settled(ledger)
            questions.clear()
            entries = [write(f"e{life}-{number}", once=f"k{life}-{number}") for number in range(20)]
            follows = append(f"s0-{life}", took.submission_id, life + 1)
            assert {ack.outcome for ack in await ledger.write(*entries, follows)} == {"committed"}
            assert questions == []


@pytest.mark.parametrize("size_bytes", [1, 4096])
async def test_what_is_known_stays_known_before_and_after_the_index_was_read(
    memory_path, monkeypatch, questions, size_bytes
):
    """From the first write of a start on, with what came since, and with a filter that is full."""
    monkeypatch.setattr(index_module, "_HASHES_AT_ONCE", 7)
    monkeypatch.setattr(limits, "KNOWN_FILTER_BYTES", size_bytes)
    disk, config = RealDisk(memory_path), ledger_config()
    old = [write(f"e{number}", once=f"k{number}") for number in range(40)]
    late = [write(f"f{number}", once=f"k{number}") for number in range(40)]
    async with running(disk, config) as ledger:
        await ledger.write(*old, take_over(1, ""))
    async with running(disk, config) as ledger:
        for number in range(40):  # the index is read between these
            since = write(f"g{number}", once=f"l{number}")
            acks = await ledger.write(old[number], late[number], since, since)
            assert [ack.outcome for ack in acks] == ["known", "lost", "committed", "known"]
        await _settled(ledger)
        questions.clear()
        acks = await ledger.write(*old, *late, *(write(f"g{number}", once=f"l{number}") for number in range(40)))
        assert [ack.outcome for ack in acks] == ["known"] * 40 + ["lost"] * 40 + ["known"] * 40
        assert ("find_by_submission", "e0") in questions
        assert [entry.sequence for entry in await ledger.lookup("e3", "g3", f"TookOver:{SESSION}/1")] == [3, 44, 40]
        assert await ledger.lookup("nothing", once=("neither",)) == [None, None]
