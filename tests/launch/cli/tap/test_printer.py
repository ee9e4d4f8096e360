"""What stands between frames: reach, losses, restarts; bodies where they are asked for."""

from __future__ import annotations

import json

from hobus.bus.codec import encode
from hobus.bus.messages.control import ReadPeer
from hobus.launch.cli.tap.choice import Chooser
from hobus.launch.cli.tap.printer import Printer
from hobus.launch.cli.tap.table import Table
from hobus.launch.cli.tap.turns import TurnBook
from hobus.launch.filters.tap_fields import tap_filter
from tests.launch.cli.tap.batches import batch


def printed(capsys, *batches, table: bool = True, **options) -> list[str]:
    """The lines for these batches."""
    shown = Printer(
        Table(width=None, utc=True, with_latency=False) if table else None,
        **({"with_bodies": False, "now_s": 160.0} | options),
    )
    chooser = Chooser(tap_filter(()), TurnBook(None), lambda: 160.0, with_routine=False)
    for one in batches:
        shown.print(chooser.choose(one))
    return capsys.readouterr().out.splitlines()


def test_reach_loss_and_restart_are_said_in_words(capsys):
    """With numbers; the heading comes once."""
    lines = printed(
        capsys,
        batch([1], reaches_at=100.0),
        batch([5], first=2, lost=3),
        batch([3], epoch="f", first=1, lost=2, restarted=True),
        asked_since_s=600.0,
    )
    assert lines[0] == "the ring reaches back to 00:01:40.000, 60 s ago, less than what was asked for"
    assert sum("VERDICT" in line for line in lines) == 1
    assert lines[3].startswith("!!! lost 3 frames before #5: this tap was too slow")
    assert lines[5] == "the broker restarted as f: what the one before tapped last is unknown"
    assert lines[6].startswith("!!! lost 2 frames before #3: tapped by the new broker before this tap")
    assert len(lines) == 8


def test_the_same_for_programs(capsys):
    """One object per line; a note is told by its key."""
    lines = printed(
        capsys,
        batch([1], reaches_at=100.0),
        batch([5], first=2, lost=3),
        batch([3], epoch="f", first=1, lost=2, restarted=True),
        table=False,
    )
    documents = [json.loads(line) for line in lines]
    assert [document.get("note", document.get("sequence")) for document in documents] == [
        "ring", 1, "lost", 5, "restarted", "lost", 3,
    ]  # fmt: skip
    assert documents[2] == {"note": "lost", "count": 3, "epoch": "e", "before": 5}


def test_an_empty_ring_is_said(capsys):
    """Nothing kept, nothing shown."""
    empty = batch([1], reaches_at=0.0)._replace(records=[], next=1)
    assert printed(capsys, empty) == ["the ring is empty"]


def test_bodies_are_decoded_by_type_and_otherwise_hexadecimal(capsys):
    """Below their frame; in JSON under `body`."""
    body = encode(ReadPeer(instance="ho1/1@a"), 1000)
    known = batch([1], type="broker.read_peer", body=body)
    unknown = batch([2], type="no.type", body=b"\x01\xff")
    lines = printed(capsys, known, unknown, with_bodies=True)
    assert [lines[2].strip(), lines[4].strip()] == ['{"instance": "ho1/1@a"}', '"01ff"']
    (line,) = printed(capsys, known, with_bodies=True, table=False)
    assert json.loads(line)["body"] == {"instance": "ho1/1@a"}
    (line,) = printed(capsys, known, table=False)
    assert "body" not in json.loads(line)
