"""Harm from around the record: clocks, other openers, files that cannot be written, the same ids again and again."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import shutil
import signal
from pathlib import Path
from typing import Any

from bench.ledger_drills import rig
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.ledger_service.opening import discard_index, open_ledger
from hobus.ledger_service.reader import read_entries

_YEAR_S = 365.25 * 86_400
_LEAPS_S = (-10 * _YEAR_S, -3_600.0, -0.001, 0.0, 0.0, 0.001, 1.0, 10 * _YEAR_S)
OPENERS = 6


def clocks(folder: Path, *, full: bool) -> rig.Row:
    """Back, frozen, far ahead, between any two writes and over restarts: order and ledger time never go back."""
    row = rig.Row("clock back, frozen, far ahead", "whole")
    for seed in range(200 if full else 4):
        path = folder / str(seed)
        acked = asyncio.run(_under(path, random.Random(seed)))
        times = [entry.ledger_at_us for entry in read_entries(path)]
        verdict = rig.on_disk(path, acked) if times == sorted(times) else "invented"
        row.count(verdict, ("whole",), f"seed {seed}")
        shutil.rmtree(path)
    return row


async def _under(path: Path, draw: random.Random) -> rig.Acked:
    acked = rig.Acked()
    clock = rig.SteppedClock()
    for incarnation in range(1, 4):
        ledger = await rig.start(RealDisk(path), rig.SMALL, rig.SmallBus(clock, instance=f"ledger/1@{incarnation}"))
        for number in range(6 * incarnation, 6 * incarnation + 6):
            clock.at = max(0.0, clock.at + draw.choice(_LEAPS_S))
            name = f"e{number}"
            (ack,) = await ledger.write(rig.write(name, body=rig.body_of(name), once=f"k:{name}"))
            acked[name] = ack.sequence
            if draw.random() < 0.3:
                await ledger.bus.release()
        await _leave(ledger, politely=draw.random() < 0.5)
    return acked


def openers(folder: Path, *, full: bool) -> rig.Row:
    """Six processes open one record at the same moment: one has it, five are refused; then that one is killed."""
    row = rig.Row(f"{OPENERS} processes open it at once, the one that has it is killed", "whole")
    path = folder / "contested"
    acked = asyncio.run(rig.made(RealDisk(path), 4))
    for number in range(200 if full else 5):
        said = _contest(path)
        is_right = sorted(said) == ["has", *["refused"] * (OPENERS - 1)]
        verdict = rig.on_disk(path, acked) if is_right else "invented"
        row.count(verdict, ("whole",), f"round {number}: {said}")
    return row


def _contest(path: Path) -> list[str]:
    """What each of the openers said; all have ended when this returns."""
    context = multiprocessing.get_context("fork")
    gate = context.Event()
    openers = []
    for _ in range(OPENERS):
        hears, says = context.Pipe(duplex=False)
        process = context.Process(target=_open_and_stay, args=(path, gate, says))
        process.start()
        openers.append((process, hears))
    gate.set()  # for all at once
    said = [hears.recv() for _, hears in openers]
    for process, _ in openers:
        process.kill()
        process.join()
    return said


def _open_and_stay(path: Path, gate: Any, says: Any) -> None:
    gate.wait()
    word = "broken"
    try:
        held = open_ledger(RealDisk(path), rig.SMALL)  # as long as it has a name
        word = "has" if held else word
    except LedgerError as error:
        word = "refused" if error.code == "rejected" else error.code
    finally:
        says.send(word)
        signal.pause()


def duplicates(folder: Path, *, full: bool) -> rig.Row:
    """Ids again at once, later, after a kill, after the loss of the index, with other content: the first one stands."""
    row = rig.Row("the same ids again: at once, later, after restarts, with other content", "whole; lost at random")
    draw, path = random.Random(9), folder / "again"
    first: dict[str, tuple[int, bytes]] = {}
    for incarnation in range(1, 41 if full else 4):
        answers = asyncio.run(_again(path, incarnation, draw, first))
        for what, is_right in answers:
            row.count("whole" if is_right else "invented", ("whole",), f"incarnation {incarnation}, {what}")
        if draw.random() < 0.4:
            discard_index(RealDisk(path))
    found = {entry.submission_id: (entry.sequence, *entry.bodies) for entry in read_entries(path, with_bodies=True)}
    for name, stands in first.items():
        row.count("whole" if found.get(name) == stands else "lost", ("whole",), f"{name} in the record")
    return row


async def _again(
    path: Path, incarnation: int, draw: random.Random, first: dict[str, tuple[int, bytes]]
) -> list[tuple[str, bool]]:
    """Twenty times five writes of few ids, one in ten with other content; each answer, and whether it is right."""
    ledger = await rig.start(RealDisk(path), rig.SMALL, rig.SmallBus(instance=f"ledger/1@{incarnation}"))
    answers: list[tuple[str, bool]] = []
    for _ in range(20):
        names = [f"e{draw.randrange(incarnation * 12)}" for _ in range(5)]
        bodies = [b"other" if draw.random() < 0.1 else rig.body_of(name) for name in names]
        acks = await ledger.write(*(rig.write(name, body=body) for name, body in zip(names, bodies, strict=True)))
        for name, body, ack in zip(names, bodies, acks, strict=True):
            sequence, known = first.setdefault(name, (ack.sequence, body))
            if ack.outcome == "committed":
                is_right = sequence == ack.sequence
            elif known == body:
                is_right = (ack.outcome, ack.sequence) == ("known", sequence)
            else:
                is_right = (ack.outcome, ack.code) == ("refused", "conflict")
            answers.append((f"{name}: {ack.outcome} {ack.code} {ack.sequence}", is_right))
        if draw.random() < 0.2:
            await ledger.bus.release()
    await _leave(ledger, politely=draw.random() < 0.5)
    return answers


async def _leave(ledger: rig.Ledger, *, politely: bool) -> None:
    if politely:
        await ledger.service.drain()
    else:
        ledger.service.stop()
