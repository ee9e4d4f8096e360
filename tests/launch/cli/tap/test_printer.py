"""What stands between frames: reach, losses, restarts; bodies where they are asked for."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path

import pytest

from hobus.bus.codec import encode
from hobus.bus.messages.control import ReadPeer
from hobus.bus.messages.ids import TurnRef
from hobus.launch.cli.tap.choice import Chooser, SeenLives, TurnBook
from hobus.launch.cli.tap.printer import Printer, make_frame_document
from hobus.launch.cli.tap.table import TapTable
from hobus.launch.filters.tap_fields import tap_filter
from tests.launch.cli.tap.batches import batch, is_exact
from tests.launch.filters.frames import SESSION, frame


def printed(capsys, *batches, table: bool = True, **options) -> list[str]:
    shown = Printer(
        TapTable(width=None, utc=True, with_latency=False) if table else None,
        **({"with_bodies": False, "now_s": 160.0} | options),
    )
    chooser = Chooser(tap_filter(()), TurnBook(None), lambda: 160.0, with_routine=False)
    for one in batches:
        shown.print(chooser.choose(one))
    return capsys.readouterr().out.splitlines()


def test_reach_loss_and_restart_are_said_in_words(capsys):
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


def described() -> list[str]:
    """The keys in the list of docs/tap.md, in order."""
    text = Path("docs/tap.md").read_text(encoding="utf-8")
    part = text[text.index("## JSON") : text.index("## Notes between frames")]
    rows = re.findall(r"^- (`.+?`): ", part, re.MULTILINE)
    return [key for row in rows for key in re.findall(r"`(\w+)`", row)]


def test_a_frame_has_the_documented_keys_in_their_order():
    """Whoever changes one changes the page; `body` and `latency_ms` are there only where they apply."""
    turn = TurnRef(SESSION, 2, "in-7")
    document = make_frame_document(frame(), turn, body={"a": 1}, has_body=True, latency_ms=1.5)
    assert list(document) == described()
    plain = make_frame_document(frame(), turn)
    assert set(document) - set(plain) == {"body", "latency_ms"}
    assert (plain["session"], plain["turn"], plain["input"]) == (SESSION, f"{SESSION}-2", "in-7")
    assert (plain["at"], plain["time"]) == (100.0, "1970-01-01T00:01:40.000000Z")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_what_a_full_disk_did_not_take_was_not_written():
    """None of the lines counts, and the failure is kept."""
    printer = Printer(None, with_bodies=False)
    chooser = Chooser(tap_filter(()), TurnBook(None), lambda: 160.0, with_routine=False)
    with suppress(OSError), open("/dev/full", "w") as full, redirect_stdout(full):  # noqa: PTH123 - a device
        assert printer.print(chooser.choose(batch([1]))) == 0
    assert printer.failure is not None and "No space" in str(printer.failure)


def test_frames_that_could_not_be_written_count_as_lost():
    account = SeenLives()
    account.begin(batch([1, 2, 3]))
    for shown in (True, False, True):
        account.one(shown=shown)
    account.count_unshown(1)
    account.count_unshown(0)
    assert account.lines() == ["1 frame shown, 1 filtered out, 1 lost (#1 to #3 of broker e)"]
    assert is_exact(account.epochs[0])
