"""What the launcher records."""

from bench.builders import shipped_snapshot
from hobus.bus.messages.base import unpack
from hobus.config.snapshot import Snapshot
from hobus.launch.launcher.recording import snapshot_entry


def test_the_entry_of_a_snapshot_is_named_by_its_digest_and_holds_it():
    """A worker elsewhere can fetch the body and has the same snapshot."""
    snapshot = shipped_snapshot()
    entry = snapshot_entry(snapshot, 1.5)
    assert entry.submission_id == f"CONFIG_SNAPSHOT:{snapshot.digest}"
    assert (entry.stream, entry.event_type, entry.at_us) == ("governance", "CONFIG_SNAPSHOT", 1_500_000)
    assert Snapshot.from_bytes(entry.bodies[0]).digest == snapshot.digest
    assert isinstance(unpack(entry.bodies[0]), dict)
