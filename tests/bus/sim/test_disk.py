"""What a power cut leaves: everything synced, nothing else. The port's own contract is in tests/conformance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.sim.disk import SimDisk, SimMedium


def medium() -> SimMedium:
    return SimMedium(capacity_bytes=1000)


def test_unsynced_bytes_are_lost_with_the_power() -> None:
    cut = medium()
    disk = SimDisk(cut)
    file = disk.open("a", create=True)
    file.append(b"0123456789")
    file.sync()
    disk.sync_dir()
    file.write_at(2, b"xx")
    file.append(b"tail")
    file.truncate(3)
    file.write_at(20, b"far")
    cut.crash()
    assert SimDisk(cut).open("a").read_at(0, 99) == b"0123456789"


def test_unsynced_names_are_lost_with_the_power() -> None:
    cut = medium()
    disk = SimDisk(cut)
    for name in ("kept", "gone"):
        disk.open(name, create=True).append(name.encode())
        disk.open(name).sync()
    disk.sync_dir()
    disk.open("new", create=True)
    disk.rename("kept", "renamed")
    disk.remove("gone")
    cut.crash()
    after = SimDisk(cut)
    assert after.list() == ["gone", "kept"]
    assert after.open("kept").read_at(0, 9) == b"kept"


Write = st.tuples(st.sampled_from(["write", "truncate", "sync"]), st.integers(0, 30), st.binary(max_size=8))


@given(steps=st.lists(Write, max_size=30))
def test_after_a_crash_the_file_is_what_it_was_at_its_last_sync(steps: list[tuple[str, int, bytes]]) -> None:
    cut = medium()
    disk = SimDisk(cut)
    file = disk.open("a", create=True)
    disk.sync_dir()
    synced = b""
    for what, at, data in steps:
        if what == "write":
            file.write_at(at, data)
        elif what == "truncate":
            file.truncate(at)
        else:
            file.sync()
            synced = file.read_at(0, 999)
    cut.crash()
    assert SimDisk(cut).open("a").read_at(0, 999) == synced
