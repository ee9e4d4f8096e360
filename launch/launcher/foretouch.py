"""Memory that the next process of a cluster will write to, made its own while it waits for its order.

A fork shares each page of its maker's until it writes to it, and the copying, page by page, is a good part of what a
restart takes. Which pages that will be its living siblings tell: a page that the kernel holds for one of them alone is
one that it wrote to. What three quarters of them wrote to is taken for what each will; that memory the waiting process
would take anyway as soon as it is anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hobus.launch.cluster.kernel import make_own, mappings

SIBLINGS_MAX = 16
"""More of them tell nothing new."""

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_WORD_BYTES = 8
"""Of `/proc/<pid>/pagemap`, for each page; its last byte has the two bits below."""
_IS_THERE_AND_ALONE = 0x81
_OWN = bytes(int(byte & _IS_THERE_AND_ALONE == _IS_THERE_AND_ALONE) for byte in range(256))


class Area(NamedTuple):
    """A piece of writable private memory: its first address, and how many pages it has."""

    begin: int
    pages: int


def foretouch(siblings: Iterable[int]) -> int:
    """So many pages that three quarters of these processes, forked from the same one, wrote to are its own now."""
    areas = writable()
    counts = [0] * len(areas)  # of each page a byte: how many of them have it for themselves
    asked = 0
    for pid in islice(siblings, SIBLINGS_MAX):
        with suppress(OSError):  # it is gone, or its memory is nobody's business
            counts = [before + own for before, own in zip(counts, own_pages(pid, areas), strict=True)]
            asked += 1
    if not asked:
        return 0
    is_wanted = bytes(int(count >= asked - asked // 4) for count in range(256))
    touched = 0
    for area, count in zip(areas, counts, strict=True):
        wanted = count.to_bytes(area.pages, "little").translate(is_wanted)
        for run in re.finditer(b"\x01+", wanted):
            pages = run.end() - run.start()
            make_own(area.begin + run.start() * _PAGE_BYTES, pages * _PAGE_BYTES)
            touched += pages
    return touched


def writable() -> list[Area]:
    """Of this process, in order. Empty where the system does not tell."""
    return [Area(one.begin, (one.end - one.begin) // _PAGE_BYTES) for one in mappings(b"rw-p")]


def own_pages(pid: int, areas: Iterable[Area]) -> list[int]:
    """For each of these areas a number whose byte n is 1 if that process alone has page n there. Raises OSError."""
    found: list[int] = []
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as file:
        for area in areas:
            file.seek(area.begin // _PAGE_BYTES * _WORD_BYTES)
            words = file.read(area.pages * _WORD_BYTES) or b""
            found.append(int.from_bytes(words[_WORD_BYTES - 1 :: _WORD_BYTES].translate(_OWN), "little"))
    return found
