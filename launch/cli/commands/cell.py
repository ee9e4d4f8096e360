"""`hobus cell`: several clusters behind this home's HTTP door; who is where, and the way from one to another."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import KEY_PREFIX, iso
from hobus.launch.cells import path_of
from hobus.launch.cells.carrying import CellSide
from hobus.launch.cells.map import Cell, CellMap, Move
from hobus.launch.cells.moving import move as made
from hobus.launch.cells.placement import cell_for
from hobus.launch.cli.commands.access import seconds_of
from hobus.launch.cli.commands.options import Family, Output, with_home, with_json
from hobus.launch.cluster.client import cluster_of, connected
from hobus.launch.cluster.home import Home, home_of
from hobus.launch.console.errors import CommandError, UsageFault, next_command, of_os_error
from hobus.launch.console.output import note, say, table
from hobus.launch.http import keys

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_OWN = "here"
"""The cluster of the home itself, until it is removed."""
_PERSON = re.compile(rf"{keys.PRINCIPAL.pattern}(/{keys.PRINCIPAL.pattern})?")


@click.group(cls=Family)
def cell() -> None:
    """Shard people over several clusters (cells) behind this home's HTTP door, and move them between these."""


def _map_of(home: Home) -> CellMap:
    """Raises UsageFault where there is none."""
    if not path_of(home.root).exists():
        raise UsageFault("there is no other cell", hint=next_command("cell add NAME --url URL --at DIR", home.root))
    return CellMap(path_of(home.root))


def _cell_in(cells: CellMap, name: str) -> Cell:
    found = cells.cells()
    if name not in found:
        raise UsageFault(f"there is no cell {name[:40]!r}; there are {', '.join(found)}")
    return found[name]


@cell.command()
@click.argument("name")
@click.option("--url", metavar="URL", help="Where the door of that cell answers: http://10.0.0.8:8420.")
@click.option(
    "--at",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Its home, on this machine: it gets a key for this door, and the secret that sessions are signed with.",
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Of a cell elsewhere: its key for this door (there: hobus token create --role http --name front --may cell).",
)
@with_home
def add(*, home: Home, name: str, url: str | None, directory: Path | None, key_file: Path | None) -> None:
    """Add a cell, or change its address; people who are new begin there from now on, in their share.

    Of a cell elsewhere copy keys/http.secret of this home to that one before its door opens. `hobus cell add here`
    takes this home's own cluster back, once it was removed.
    """  # fmt: skip
    if name == _OWN and not (url or directory or key_file):
        with closing(_map_of(home)) as cells:
            cells.put(Cell(_OWN, "", "", ""))
        say("cell here: this home's own cluster")
        return
    if not _NAME.fullmatch(name) or name == _OWN:
        raise UsageFault(f"{name[:80]!r}: expected a name of a-z, 0-9 and -, which is not `here`")
    if url is None or not re.fullmatch(r"https?://[^/?#]+/?", url):
        raise UsageFault(f"--url: expected http://HOST:PORT, not {(url or 'nothing')[:80]!r}")
    if (directory is None) == (key_file is None):
        raise UsageFault("--at DIR of a cell on this machine, or --key-file FILE of one elsewhere")
    if directory and home_of(directory).root == home.root:
        raise UsageFault("--at: that is this home itself, which is the cell `here`")
    if directory and directory.exists() and not directory.is_dir():
        raise UsageFault(f"--at: {directory} is no directory")
    url = url.rstrip("/")
    _demand_new(home, name, url, None if directory is None else home_of(directory))
    clock = SystemClock()
    try:
        key = _key_at(home, home_of(directory), clock) if directory else _text(key_file)
        is_first = not path_of(home.root).exists()
        with closing(CellMap(path_of(home.root))) as cells:
            if is_first:
                cells.put(Cell(_OWN, "", "", ""))
            cells.put(Cell(name, url, str(home_of(directory).root) if directory else "", key))
    except OSError as error:
        raise of_os_error(error, doing="the cell cannot be added") from error
    say(f"cell {name} at {url}")
    if is_first:
        note("doors route once they have started anew: ", next_command("restart http/1", home.root))


def _demand_new(home: Home, name: str, url: str, at: Home | None) -> None:
    """Raises UsageFault for a cell that has another name already, or people where it would not be any more."""
    if not path_of(home.root).exists():
        return
    with closing(CellMap(path_of(home.root))) as cells:
        known = cells.cells()
        same = next((one for one in known.values() if one.url == url or (at and one.home == str(at.root))), None)
        if same is not None and same.name != name:
            raise UsageFault(f"that is the cell {same.name} already", hint=next_command("cell list", home.root))
        people = len(cells.people(name)) if name in known else 0
    if people and at is not None and str(at.root) != known[name].home and not at.ledger.is_dir():
        there = known[name].home or known[name].url
        raise UsageFault(
            f"--at: {at.root} has no record, and the sessions of the {people} people of {name} are in {there}"
        )


def _text(path: Path | None) -> str:
    return "" if path is None else path.read_text(encoding="ascii").strip()


def _key_at(home: Home, other: Home, clock: SystemClock) -> str:
    """A key of the other home's door for this one's, in place of one before; both sign sessions alike from now on."""
    secret = keys.owner_secret(home, new_id=clock.new_id)
    if keys.owner_secret(other, new_id=clock.new_id, given=secret) != secret:
        raise UsageFault(
            f"{other.root} signs sessions with a secret of its own: its door was open before. Where none of its keys "
            f"has a session, stop it, remove {other.keys / 'http.secret'}, and add it again"
        )
    keys.revoke(other, "front", now_us=round(clock.now() * 1_000_000))
    now_us = round(clock.now() * 1_000_000)
    return keys.create(other, "front", new_id=clock.new_id, now_us=now_us, ttl_s=None, may="cell")


@cell.command(name="list")
@with_json
def list_cells(*, home: Home) -> Output:
    """List cells, how many people each has, and moves that are not done."""
    with closing(_map_of(home)) as cells:
        rows = [
            {
                "cell": one.name, "url": one.url, "home": one.home, "people": len(cells.people(one.name)),
                "takes_new": one.is_open,
            }
            for one in cells.cells().values()
        ]  # fmt: skip
        moves = [
            {"person": one.person, "from": one.source, "to": one.target, "step": one.step,
             "began_at": iso(one.began_at_us / 1_000_000)}
            for one in cells.moves()
        ]  # fmt: skip

    def show() -> None:
        table(
            ["CELL", "PEOPLE", "NEW ONES", "DOOR", "HOME"],
            [
                [row["cell"], row["people"], "yes" if row["takes_new"] else "no", row["url"] or "this one", row["home"]]
                for row in rows
            ],
        )
        for one in moves:
            note(f"{one['person']} is on the way from {one['from']} to {one['to']} ({one['step']}): ",
                 next_command(f"cell move {one['person']} {one['to']}", home.root))  # fmt: skip

    return Output({"cells": rows, "moves": moves}, show)


with_wait = click.option(
    "--wait", metavar="DURATION", default="60s", show_default=True,
    help="How long runs that are not over are waited for; then the person stays.",
)  # fmt: skip


@cell.command()
@click.argument("person")
@click.argument("name", metavar="CELL")
@with_wait
@with_home
def move(*, home: Home, person: str, name: str, wait: str) -> None:
    """Move a person with all sessions and what was learned of them to CELL; again after a kill, it goes on.

    PERSON: the name of a key, or NAME/USER of a user behind it. Until it is done doors answer them 503, ask again.
    """
    who = person.removeprefix(KEY_PREFIX)
    if not _PERSON.fullmatch(who):
        raise UsageFault(f"{person[:80]!r}: expected the name of a key, or NAME/USER")
    with closing(_map_of(home)) as cells:
        target = _cell_in(cells, name).name
        asyncio.run(_moved(home, cells, who, lambda: target, seconds_of(wait, "--wait")))


@cell.command()
@click.argument("name", metavar="CELL")
@with_wait
@with_home
def remove(*, home: Home, name: str, wait: str) -> None:
    """Remove a cell: nobody new begins there, whoever is there moves to the others, then it is gone from the map."""
    with closing(_map_of(home)) as cells:
        leaving = _cell_in(cells, name)
        others = [one.name for one in cells.cells().values() if one.is_open and one.name != name]
        if not others:
            raise UsageFault(
                f"no other cell takes people who are new: {name} is the last one",
                hint=next_command("cell add NAME --url URL --at DIR", home.root),
            )
        cells.put(leaving._replace(is_open=False))
        for who in cells.people(name):
            asyncio.run(_moved(home, cells, who, lambda who=who: cell_for(who, others), seconds_of(wait, "--wait")))
        if not cells.drop(name):
            raise CommandError(f"{name} has people again, or on their way", hint=next_command("cell list", home.root))
    say(f"cell {name} is removed; its home is as it was")


async def _moved(home: Home, cells: CellMap, who: str, target: Callable[[], str], wait_s: float) -> None:
    """They are there. A move that they are on is brought to its end before."""
    clock = SystemClock()

    def now_us() -> int:
        return round(clock.now() * 1_000_000)

    def told(one: Move) -> None:
        note(f"{who}: {one.source} to {one.target}, {one.step}")

    found = cells.cells()
    while True:
        if cells.move_of(who) is None and cells.cell_of(who) is None:
            raise UsageFault(f"nobody has seen {who}: no door of this home placed them")
        ends = {one.name: one for one in (found[target()], *_ends(cells, who, found))}
        async with AsyncExitStack() as stack:
            sides = {name: await _side(home, one, stack) for name, one in ends.items()}
            for side in sides.values():
                await side.people()  # may take a while, in which the door refuses nobody
            one = await made(
                cells, cells.begin(who, target(), now_us()), sides, wait_s=wait_s, now_us=now_us, said=told
            )
        if cells.cell_of(who) == target():
            return say(f"{who} is in cell {one.target}")


def _ends(cells: CellMap, who: str, found: dict[str, Cell]) -> list[Cell]:
    """Where they may come from, or be on the way to."""
    on_way = cells.move_of(who)
    names = {cells.cell_of(who), cells.came_from(who)} | ({on_way.source, on_way.target} if on_way else set())
    return [found[name] for name in names if name in found]


async def _side(home: Home, one: Cell, stack: AsyncExitStack) -> CellSide:
    """Raises CommandError where its cluster does not run, or is on another machine."""
    if one.url and not one.home:
        raise CommandError(
            f"cell {one.name} is on another machine: people are moved where both homes are (docs/scaling.md, Cells)"
        )
    place = cluster_of(home if not one.url else home_of(Path(one.home)))
    return CellSide(await stack.enter_async_context(connected(place, "operator")), timeout_s=place.client_timeout_s)
