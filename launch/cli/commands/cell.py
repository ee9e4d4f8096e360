"""`hobus cell`: several clusters among which people are sharded; who is where, and the way from one to another."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import click

from hobus.bus import disk
from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import KEY_PREFIX, format_iso
from hobus.launch.cells import CellMembership, find_path, membership
from hobus.launch.cells.carrying import CellSide
from hobus.launch.cells.far import connect_far, serve
from hobus.launch.cells.map import Cell, CellMap, choose_cell
from hobus.launch.cells.moving import move as made
from hobus.launch.cli.commands.access import parse_seconds
from hobus.launch.cli.commands.options import Family, Output, with_home, with_json
from hobus.launch.cluster.client import connect_bus, find_cluster
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.console.errors import RefusedFault, UsageFault, format_next_command, format_next_here, make_os_fault
from hobus.launch.console.output import note, say
from hobus.launch.console.view import print_rows
from hobus.launch.http import keys
from hobus.launch.limits import COMMAND_POLL_MS

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_URL = re.compile(r"https?://[^/?#\s]+/?")
_HOST = re.compile(r"([\w.-]+@)?[A-Za-z0-9][\w.-]*")
_WAIT_LONGER = "the same command with a longer --wait"
_FRONT = "front"
"""Whose key the other cells' doors have."""


@click.group(cls=Family)
def cell() -> None:
    """Shard people over several clusters (cells), and move them. Each HTTP door serves everybody."""


@contextmanager
def _alone(where: str) -> Generator[CellMap]:
    """Open the map for a command that changes cells or moves people, of which one is at work at a time."""
    with closing(CellMap(where)) as cells:
        if (release := cells.hold()) is None:
            note("another `hobus cell` is at work: this one waits until it ends")
        while release is None:
            time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - waits for another process, without a loop or a bus
            release = cells.hold()
        try:
            yield cells
        finally:
            release()


def _require_own(home: Home) -> CellMembership:
    """Which cell this home is. Raises UsageFault where it is none."""
    if (found := membership(home.root)) is None:
        raise UsageFault(f"{home.root} is no cell", hint=format_next_command("cell add NAME --url URL", home.root))
    return found


def _find_cell(cells: CellMap, name: str, home: Home) -> Cell:
    found = cells.cells()
    if name not in found:
        said = f"there is no cell {name[:40]!r}; there are: {', '.join(found) or 'none'}"
        raise UsageFault(said, hint=format_next_command("cell list", home.root))
    return found[name]


@cell.command()
@click.argument("name")
@click.option("--url", required=True, metavar="URL", help="This cell's door for the others: http://10.0.0.8:8420.")
@click.option(
    "--map", "where", metavar="MAP",
    help="The map of cells: the first cell's home, or postgresql://HOST/DB (password: ~/.pgpass).  [here]",
)  # fmt: skip
@click.option("--ssh", "host", metavar="[USER@]HOST", help="How other machines reach this one, to move people.")
@with_home
def add(*, home: Home, name: str, url: str, where: str | None, host: str | None) -> None:
    """Add this home's cluster as cell NAME, or change its address. It gets a share of new people.

    First add the home that holds the clients' keys, then the others, each before it has keys.
    """  # fmt: skip
    for given, pattern, what in (
        (name, _NAME, "NAME: a-z, 0-9 and -"),
        (url, _URL, "--url: http://HOST:PORT"),
        (host or "h", _HOST, "--ssh: [USER@]HOST"),
    ):
        if not pattern.fullmatch(given):
            raise UsageFault(f"{given[:80]!r}: expected {what}", hint=format_next_here("cell add --help"))
    if not home.ledger.is_dir():
        raise UsageFault(f"no cluster has run in {home.root}", hint=format_next_command("up --detach", home.root))
    mine = membership(home.root)
    if mine is None and any(key.principal == _FRONT and key.may != "cell" for key in keys.list_keys(home)):
        said = f"{home.root} has a key named {_FRONT}, as the other cells' doors will have"
        raise UsageFault(said, hint=format_next_command("keys list", home.root))
    where = mine.map if mine and where is None else _map_at(home, where)
    listing = format_next_command("cell list", home.root)
    if mine and mine != CellMembership(name=name, map=where):
        raise UsageFault(f"this home is already cell {mine.name} of a map", hint=listing)
    at = f"{host}:{home.root}" if host else str(home.root)
    try:
        if mine is None and "://" not in where:
            Path(where).touch(mode=0o600)  # or the one that is there
        with _alone(where) as cells:
            taken = [one.name for one in cells.cells().values() if url.rstrip("/") == one.url or one.name == name]
            if taken and (mine is None or taken != [name]):
                raise UsageFault(f"that is the cell {taken[0]} already", hint=listing)
            key = _make_key(home, cells, is_new=mine is None)
            disk.write_private(find_path(home.root), CellMembership(name=name, map=where).model_dump_json().encode())
            cells.put(Cell(name, url.rstrip("/"), at, key))
    except OSError as error:
        raise make_os_fault(error, doing="the cell cannot be added") from error
    say(f"cell {name} at {url.rstrip('/')}")
    note("restart each of its doors, which then route: ", format_next_command("restart http/1", home.root))


def _map_at(home: Home, where: str | None) -> str:
    if where and "://" in where:
        if not where.startswith(("postgresql://", "postgres://")):
            said = "--map: expected the first cell's home, or postgresql://HOST/DB"
            raise UsageFault(said, hint=format_next_here("cell add --help"))
        return where
    path = Path(where or home.root).expanduser().absolute() / "cells.sqlite"
    if where and not path.exists():
        hint = format_next_command("cell add NAME --url URL", path.parent)
        raise UsageFault(f"--map: there is no map of cells in {path.parent}", hint=f"the first one makes it: {hint}")
    return str(path)


def _make_key(home: Home, cells: CellMap, *, is_new: bool) -> str:
    """Make a key of this home's door for the others', in place of one before; all of them sign sessions alike."""
    secret = cells.secret()
    if is_new and secret and any(key.may == "use" for key in keys.list_keys(home)):
        said = f"{home.root} has clients' keys, whose sessions are signed with its own secret"
        raise UsageFault(f"{said}: add a cell before it has keys", hint=format_next_command("keys list", home.root))
    if is_new and secret:
        (home.keys / "http.secret").unlink(missing_ok=True)
    own = keys.read_owner_secret(home, new_id=SystemClock().new_id, given=secret.encode())
    cells.secret(own.decode())
    keys.revoke(home, _FRONT, now_us=_read_clock_us())
    return keys.create(home, _FRONT, new_id=SystemClock().new_id, now_us=_read_clock_us(), ttl_s=None, may="cell")


def _read_clock_us() -> int:
    return round(SystemClock().now() * 1_000_000)


@cell.command(name="list")
@with_json
def list_cells(*, home: Home) -> Output:
    """List cells with their numbers of people, and unfinished moves."""
    own = _require_own(home)
    with closing(CellMap(own.map)) as cells:
        rows: list[dict[str, Any]] = [
            {"cell": one.name, "url": one.url, "home": one.home, "people": len(cells.people(one.name)),
             "takes_new": bool(one.is_open)}
            for one in cells.cells().values()
        ]  # fmt: skip
        moves = [
            {"person": one.person, "from": one.source, "to": one.target, "step": one.step,
             "began_at": format_iso(one.began_at_us / 1_000_000)}
            for one in cells.moves()
        ]  # fmt: skip

    def show() -> None:
        print_rows(rows, {
            "CELL": "cell", "PEOPLE": "people", "NEW ONES": "takes_new", "DOOR": "url", "HOME": "home",
        })  # fmt: skip
        for one in moves:
            go_on = format_next_command(f"cell move {one['person']} {one['to']}", home.root)
            note(f"{one['person']} is on the way from {one['from']} to {one['to']} ({one['step']}): ", go_on)

    return Output({"cells": rows, "moves": moves}, show)


with_wait = click.option(
    "--wait", metavar="DURATION", default="60s", show_default=True,
    help="How long to wait for running turns; after that the move is undone.",
)  # fmt: skip


@cell.command()
@click.argument("person")
@click.argument("name", metavar="CELL")
@with_wait
@with_home
def move(*, home: Home, person: str, name: str, wait: str) -> None:
    """Move a person to CELL, with all sessions and memory. Repeat the command after a kill.

    PERSON: the name of a key, or NAME/USER of a user behind it. Until the move ends, doors answer this person 503,
    retry.
    """
    who = person.removeprefix(KEY_PREFIX)
    own, wait_s = _require_own(home), parse_seconds(wait, "--wait")
    with _alone(own.map) as cells:
        target = _find_cell(cells, name, home).name
        if cells.find_cell(who) is None:
            unlisted = (one for one in cells.cells().values() if not cells.is_listed(one.name))
            asyncio.run(_list_people(home, own, cells, *unlisted))
        if cells.find_cell(who) is None:
            raise UsageFault(f"no cell knows {who[:80]!r}", hint=format_next_command("keys list", home.root))
        asyncio.run(_move(home, own, cells, who, target, wait_s))


@cell.command()
@click.argument("name", metavar="CELL")
@with_wait
@with_home
def remove(*, home: Home, name: str, wait: str) -> None:
    """Remove a cell: accept nobody new, move its people to the others, delete it from the map.

    Repeat the command after a kill; `cell add` in that home keeps the cell instead.
    """
    own, wait_s = _require_own(home), parse_seconds(wait, "--wait")
    with _alone(own.map) as cells:
        leaving = _find_cell(cells, name, home)
        others = [one.name for one in cells.cells().values() if one.is_open and one.name != name]
        if not others:
            hint = "add another one in its own home: hobus cell add NAME --url URL --map MAP"
            raise UsageFault(f"no other cell accepts new people: {name} is the last one", hint=hint)
        if cells.people(name) or not cells.is_listed(name):  # else nobody's cluster need run
            asyncio.run(_list_people(home, own, cells, leaving, *(cells.cells()[one] for one in others)))
        cells.put(leaving._replace(is_open=False))
        for who in cells.people(name):
            asyncio.run(_move(home, own, cells, who, choose_cell(who, others), wait_s))
        if not cells.drop(name):
            said = f"{name} got people again, or some are still moving"
            raise RefusedFault(said, hint=format_next_command("cell list", home.root))
    say(f"cell {name} is removed; its home is as it was")


@cell.command(name="serve", hidden=True)
@with_home
def serve_command(*, home: Home) -> None:
    """Serve a move of another machine, on standard input and output."""
    asyncio.run(serve(find_cluster(home)))


async def _list_people(home: Home, own: CellMembership, cells: CellMap, *asked: Cell) -> None:
    """Enter people who were in these homes before each was a cell, which no door may have done yet."""
    for one in asked:
        async with AsyncExitStack() as stack:
            side = await _connect_side(home, own, one, stack)
            cells.list_people(one.name, list(await side.people()))


async def _move(  # noqa: PLR0913, PLR0917 - who, from where, to where
    home: Home, own: CellMembership, cells: CellMap, who: str, target: str, wait_s: float
) -> None:
    """Move a person; a move that was not brought to its end is before."""
    found = cells.cells()
    while True:
        on_way = cells.move_of(who)
        ends = sorted({on_way.source, on_way.target} if on_way else {target, cells.find_cell(who) or target})
        async with AsyncExitStack() as stack:
            sides = {name: await _connect_side(home, own, found[name], stack) for name in ends}
            for side in sides.values():
                await side.people()  # may take a while, in which the door refuses nobody
            try:
                one = await made(
                    cells, cells.begin(who, target, _read_clock_us()), sides, wait_s=wait_s, now_us=_read_clock_us,
                    said=lambda step: note(f"{who}: {step.source} to {step.target}, {step.step}"),
                )  # fmt: skip
            except RuntimeFault as fault:
                if fault.code != "run_active":
                    raise
                raise RefusedFault(str(fault), hint=_WAIT_LONGER, code=fault.code) from fault
        if cells.find_cell(who) == target:
            return say(f"{who} is in cell {one.target}")


async def _connect_side(home: Home, own: CellMembership, one: Cell, stack: AsyncExitStack) -> CellSide:
    """Connect to one side of a move.

    Raises CommandError where its cluster does not run, BusError where its machine is not reached.
    """
    host, slash, path = one.home.partition("/")
    there = home if one.name == own.name else make_home(Path(slash + path))
    if there is not home and host:
        bus, timeout_s = await stack.enter_async_context(connect_far(host.removesuffix(":"), slash + path))
        return CellSide(bus, timeout_s=timeout_s)
    if not there.ledger.is_dir():
        hint = f"where it is: {format_next_command(f'cell add {one.name} --url {one.url} --ssh HOST', there.root)}"
        raise UsageFault(f"the home of cell {one.name}, {there.root}, is not on this machine", hint=hint)
    place = find_cluster(there)
    return CellSide(await stack.enter_async_context(connect_bus(place, "operator")), timeout_s=place.client_timeout_s)
