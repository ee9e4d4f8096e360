"""What stays in RAM and what goes out: the longest unused first, written once, read back as it was."""

import pytest

from hobus.actors.ho3_memory.residence import Residence, Spillable, Values
from hobus.actors.ho3_memory.spill_file import FILE, SpillFile, SpillUnreadable
from hobus.bus.disk import RealDisk
from tests.actors.ho3_memory.spilling import Spilling


class Text(Spillable):
    """A value of so many bytes."""

    def __init__(self, text):
        super().__init__()
        self.text = text

    @property
    def size_bytes(self):
        """Its length."""
        return len(self.text)

    def packed(self):
        """Itself."""
        return self.text.encode()


def values(residence, *texts):
    """Values of these texts."""
    found = Values(residence, lambda data: Text(data.decode()))
    for text in texts:
        found.add(Text(text))
    return found


def test_without_a_file_everything_stays():
    """Whatever it is."""
    residence = Residence()
    kept = values(residence, "a" * 1000, "b" * 1000)
    assert residence.resident_bytes == 2000 and kept[0].text == "a" * 1000


def test_the_longest_unused_goes_out_and_comes_back():
    """Within the budget; what comes back pushes another one out, which is written once as long as nothing changes it."""
    residence = Spilling(bytes_max=20)
    kept = values(residence, "a" * 10, "b" * 10)
    assert kept[0].text == "a" * 10  # used now, so that b is the older one
    kept.add(Text("c" * 10))
    assert residence.resident_bytes == 20 and residence.here_count == 2
    assert [kept[number].text[0] for number in (1, 2, 0, 1, 2, 0)] == list("bcabca")
    assert residence.resident_bytes == 20
    size_bytes = residence.spilled_bytes
    for number in (0, 1, 2) * 5:
        assert len(kept[number].text) == 10
    assert residence.spilled_bytes == size_bytes == 3 * 64


def test_a_change_goes_out_with_it():
    """The larger one too; its old place is used again."""
    residence = Spilling()
    kept = values(residence, "a" * 100, "b" * 100)
    value = kept[0]
    value.text += "!" * 400
    kept.changed(0, value)
    assert kept[1].text == "b" * 100 and kept[0].text == "a" * 100 + "!" * 400
    before = residence.spilled_bytes
    kept.add(Text("c" * 90))
    assert kept[0].text[-1] == "!" and kept[2].text == "c" * 90 and residence.spilled_bytes == before


def test_a_change_of_what_has_gone_out_meanwhile_is_a_defect():
    """It would be lost, so it is not taken."""
    kept = values(Spilling(), "a", "b")
    value = kept[0]
    assert kept[1].text == "b"
    with pytest.raises(AssertionError, match="gone out"):
        kept.changed(0, value)


def test_what_cannot_be_written_stays_and_is_tried_again_later():
    """Each failure is counted, and the next try waits for an eighth of the budget; with room again all of it goes out."""
    residence = Spilling(bytes_max=80, capacity_bytes=0)
    kept = values(residence, *("x" * 10 for _ in range(20)))
    assert residence.resident_bytes == 200 and 1 <= residence.failed_writes <= 12
    residence.medium.capacity_bytes = 1 << 20
    kept.add(Text("y" * 20))
    assert residence.resident_bytes <= 80
    assert [len(kept[number].text) for number in range(21)] == [10] * 20 + [20]


@pytest.mark.parametrize("place", range(12))
def test_no_changed_byte_comes_back(place):
    """In the checksum or behind it."""
    residence = Spilling()
    kept = values(residence, "a" * 8, "b" * 8)
    residence.content[place] ^= 0x20
    with pytest.raises(SpillUnreadable, match="not what was written"):
        assert kept[0].text
    assert residence.fault is not None and residence.faults == [residence.fault]


def test_a_piece_of_another_value_or_another_incarnation_is_none_of_this_one():
    """A whole piece in a wrong place has its checksum, and is not believed."""
    residence, other = Spilling(), Spilling()
    kept, _ = values(residence, "a" * 8, "b" * 8, "c" * 8), values(other, "a" * 8, "b" * 8)
    residence.content[0:64] = residence.content[64:128].ljust(64, b"\0")
    with pytest.raises(SpillUnreadable):
        assert kept[0].text
    later = Spilling()
    again = values(later, "a" * 8, "b" * 8)
    later.file._seed += 1
    with pytest.raises(SpillUnreadable):
        assert again[0].text


def test_a_start_finds_nothing_of_before():
    """The file is empty at its first use."""
    residence = Spilling()
    residence.disk.open("memory.spill", create=True).append(b"old" * 100)
    values(residence, "a", "b")
    assert len(residence.content) == 5


def test_a_link_in_its_place_is_replaced_and_what_it_leads_to_left_alone(tmp_path):
    """Memory's lines are written nowhere else, and nothing of somebody else's is emptied."""
    (tmp_path / "precious").write_bytes(b"of somebody else")
    (tmp_path / FILE).symlink_to(tmp_path / "precious")
    file = SpillFile(RealDisk(tmp_path), "ho3/1@test", lambda _: None)
    assert file.read(0, file.write(0, b"a line"), 6) == b"a line"
    assert (tmp_path / "precious").read_bytes() == b"of somebody else" and not (tmp_path / FILE).is_symlink()


def test_cleared_it_holds_nothing():
    """Neither here nor in the file; what joins later begins anew."""
    residence = Spilling()
    values(residence, "a" * 100, "b" * 100)
    residence.clear()
    assert (residence.resident_bytes, residence.here_count, residence.spilled_bytes) == (0, 0, 0)
    kept = values(residence, "c", "d")
    assert [kept[number].text for number in (0, 1)] == ["c", "d"]
