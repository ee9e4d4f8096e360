"""The exact bytes of each session event's payload, and what reading them gives back.

`journal_bytes.txt` holds them, one sample a line. A difference means that homes of earlier versions no longer read: the
record's format number rises with it (`python -m tests.bus.record.test_journal_bytes` writes the file anew).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.record.journal import recorded
from tests.bus.record.journal_samples import ALL_KINDS, SAMPLES, entry, enveloped

FILE = Path(__file__).parent / "journal_bytes.txt"


def known() -> dict[str, bytes]:
    """Name of a sample -> its payload."""
    lines = (line.rsplit(" ", 1) for line in FILE.read_text("ascii").splitlines())
    return {name: bytes.fromhex(packed) for name, packed in lines}


def test_every_kind_of_event_has_its_bytes() -> None:
    """No event is written whose bytes nobody has looked at."""
    assert {event.kind for event in SAMPLES.values()} == ALL_KINDS
    assert list(known()) == list(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_event_has_the_bytes_that_it_always_had(name: str) -> None:
    """Whatever is done to the code: a record that was written before still reads."""
    assert entry(name).bodies[0].hex() == known()[name].hex()


@pytest.mark.parametrize("name", SAMPLES)
def test_its_bytes_give_the_event_back(name: str) -> None:
    """With the correlation fields of its moment."""
    taken = recorded(entry(name)._replace(bodies=[known()[name], b"text"]))
    assert taken is not None
    assert (taken.event, taken.bodies[1]) == (enveloped(name), b"text")


if __name__ == "__main__":
    FILE.write_text("".join(f"{name} {entry(name).bodies[0].hex()}\n" for name in SAMPLES), "ascii")
