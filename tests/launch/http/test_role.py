"""What the HTTP door may do on the bus: a role of its own with what it needs, and nothing for the command line's clients."""

from __future__ import annotations

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.catalog import ROWS
from hobus.bus.errors import BusError
from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import EVERY_SESSION, Entries, Tail, Write, WriteEntry, Written
from hobus.launch.http.transcript import EVENT, TranscriptMessage, derive_transcript_id
from tests.simulated import SimulatedCluster

TURNS = {"session.start", "host.process_turn", "session.end", "session.command"}
MEMORY = {"memory.read_overlays"} | {
    f"memory.{change}"
    for change in ("deactivate_overlay", "activate_overlay", "confirm_overlay", "update_overlay_weight")
}
RECORD = {row.cls.TYPE for row in ROWS if row.service == "ledger"} - {"ledger.search", "ledger.import"}
"""Words are searched across principals: for the operator, and for supervisors in a session of their own."""


def sendable(role):
    """Types that a role may send."""
    return {row.cls.TYPE for row in ROWS if role in row.senders}


def test_it_may_send_what_it_needs_and_a_client_no_more_than_before():
    """Turns, commands, the record; views of sessions, peers and a key's memory, and vectors, for the HTTP door alone."""
    assert sendable("http") == TURNS | RECORD | MEMORY | {
        "session.read",
        "broker.read_peers",
        "broker.read_queues",
        "gateway.embed",
    }
    assert sendable("door") == TURNS | RECORD


def test_of_the_record_it_sees_journals_and_writes_transcripts_under_their_own_ids():
    """A forged id, another kind of entry, a page of all streams: refused; nothing of it to a plain client."""
    good = derive_transcript_id("alice", [TranscriptMessage("user", "hello"), TranscriptMessage("assistant", "hello")])
    forged = [
        WriteEntry(submission_id=name, stream="governance", event_type=kind, at_us=0, bodies=[pack({})])
        for name, kind in (
            (f"{EVENT}:alice/short", EVENT),
            (f"{EVENT}:../{good.partition('/')[2]}", EVENT),
            ("KEY_ENROLLED:1", "KEY_ENROLLED"),
            ("CONFIG_SNAPSHOT:sha256:1", "CONFIG_SNAPSHOT"),
        )
    ]
    kept = WriteEntry(submission_id=good, stream="governance", event_type=EVENT, at_us=0, bodies=[pack({})])
    with SimulatedCluster(shipped_snapshot()) as cluster:
        said = cluster.ask("is the ledger intact?", input_id="in-1")
        http, door = cluster.world.client("http"), cluster.world.client("door")

        def asked(client, question, expect):
            return cluster.world.run(client.request("ledger", question, expect=expect, timeout_s=5))

        acks = asked(http, Write(entries=[*forged, kept]), Written).acks
        assert [ack.outcome for ack in acks] == ["refused"] * 4 + ["committed"]
        assert [ack.outcome for ack in asked(door, Write(entries=[kept]), Written).acks] == ["refused"]
        journals = asked(http, Tail(stream=EVERY_SESSION, after=-1, limit=100), Entries).entries
        assert {entry.stream for entry in journals} == {f"session/{said.session_id}"}
        for client, stream in ((http, None), (http, "prompts"), (door, EVERY_SESSION)):
            with pytest.raises(BusError, match="may not read"):
                asked(client, Tail(stream=stream, after=-1, limit=100), Entries)
