"""`hobus token`: join tokens for workers on other hosts, and keys for HTTP."""

from __future__ import annotations

import asyncio
import re

import click

from hobus.bus.clock import SystemClock
from hobus.bus.join_token import JoinToken
from hobus.bus.messages.control import CreateToken, TokenCreated
from hobus.bus.messages.ids import iso
from hobus.bus.settings import BusSettings
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.key_book import tokens_in, uses_in
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.addresses import is_every_host, parts_of
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command, of_os_error
from hobus.launch.console.output import as_json, duration, note, say, table
from hobus.launch.http import keys as http_keys

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@click.group()
def token() -> None:
    """Let workers on other hosts join, and clients come in over HTTP: make and list tokens and keys."""


def seconds_of(text: str) -> int:
    """`90s`, `10m`, `1h`, `2d` as seconds. Raises CommandError (usage)."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if match is None or int(match[1]) == 0:
        raise CommandError(
            f"--ttl {text[:40]}: expected a length of time like 30m, 1h or 2d", exit_code=exit_codes.USAGE
        )
    return int(match[1]) * _UNITS[match[2]]


@token.command()
@click.option(
    "--role",
    type=click.Choice(["ho1", "http"]),
    default="ho1",
    show_default=True,
    help="What joins: a worker, or a client over HTTP.",
)
@click.option("--ttl", metavar="TIME", help="How long it is good: 30m, 1h, 2d.  [ho1: 1h; http: until it is revoked]")
@click.option("--uses", type=click.IntRange(min=1), default=1, show_default=True, help="How many workers may join.")
@click.option("--name", metavar="NAME", help="http: whose key it is; sessions belong to that name.")
@click.option("--address", metavar="HOST[:PORT]", help="By which the other host reaches this one, if it is another.")
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def create(  # noqa: PLR0913 - one per option
    *, home: Home, role: str, ttl: str | None, uses: int, name: str | None, address: str | None, as_json_: bool
) -> int:
    """Make a token; what is printed is the whole line for the other host.

    Whoever has that line before it is used may join as a worker: hand it over as you would a password.

    With `--role http` it is a bearer key for the HTTP door, shown once; `hobus keys revoke NAME` takes it back.
    """
    if role == "http":
        return _http_key(home, name, ttl, as_json_=as_json_)
    if name is not None:
        raise CommandError("--name: a worker's name is made when it joins", exit_code=exit_codes.USAGE)
    ttl = ttl or "1h"
    ttl_s = seconds_of(ttl)
    place = place_of(home, running(home))
    check_bounds(ttl_s, uses, place.snapshot.config.bus)
    pair = curve.new_pair()
    created = asyncio.run(_created(place, CreateToken.model_validate(
        {"public_key": pair.public.decode(), "role": role, "ttl_s": ttl_s, "uses": uses}
    )))  # fmt: skip
    reached_at = _reached_at(created.address, address)
    word = JoinToken(reached_at, curve.raw(created.broker_key.encode()), curve.raw(pair.secret)).encode()
    line = f"hobus worker join {word}"
    expires_at = iso(created.expires_at_us / 1_000_000)
    if as_json_:
        document = {
            "token_id": created.token_id, "token": word, "command": line, "address": reached_at, "role": role,
            "uses": uses, "expires_at": expires_at,
        }  # fmt: skip
        say(as_json(document))
        return exit_codes.OK
    say(line)
    good_for = "one worker" if uses == 1 else f"{uses} workers"
    note(f"{created.token_id}: good for {good_for} within {ttl}, at {reached_at}.  {next_command('ps', home.root)}")
    return exit_codes.OK


def _http_key(home: Home, name: str | None, ttl: str | None, *, as_json_: bool) -> int:
    principal = name or "default"
    if not http_keys.PRINCIPAL.fullmatch(principal):
        raise CommandError(
            f"--name {principal[:60]!r}: up to 40 of a-z, 0-9, `_` and `-`, the first one no sign",
            exit_code=exit_codes.USAGE,
        )
    clock = SystemClock()
    ttl_s = None if ttl is None else seconds_of(ttl)
    try:
        word = http_keys.create(home, principal, new_id=clock.new_id, now_us=round(clock.now() * 1e6), ttl_s=ttl_s)
    except FileExistsError:
        raise CommandError(
            f"{principal} has a key",
            hint=next_command(f"keys revoke {principal}", home.root),
            exit_code=exit_codes.USAGE,
        ) from None
    except OSError as error:
        raise of_os_error(error, doing="no key can be written") from error
    if as_json_:
        say(as_json({"key": word, "principal": principal, "role": "http", "expires_in_s": ttl_s}))
        return exit_codes.OK
    say(word)
    note(f"the key of {principal}: Authorization: Bearer <key>; it is shown this once")
    return exit_codes.OK


def check_bounds(ttl_s: int, uses: int, settings: BusSettings) -> None:
    """Raises CommandError (usage) beyond what the running cluster's configuration allows."""
    for option, value, limit, setting in (
        ("--ttl", ttl_s, settings.join_ttl_max_s, "bus.join_ttl_max_s"),
        ("--uses", uses, settings.join_uses_max, "bus.join_uses_max"),
    ):
        if value > limit:
            unit = " seconds" if option == "--ttl" else ""
            raise CommandError(
                f"{option}: {str(value)[:40]}{unit} are too many, at most {limit}{unit} ({setting})",
                exit_code=exit_codes.USAGE,
            )


async def _created(place: Place, wanted: CreateToken) -> TokenCreated:
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    async with connected(place, "operator") as bus:
        return await bus.request("broker", wanted, expect=TokenCreated, timeout_s=timeout_s)


def _reached_at(bound: str, given: str | None) -> str:
    """The address that stands in the token. Raises CommandError (usage)."""
    if given is not None:
        with_port = given if re.search(r":\d+$", given) and not given.endswith("]") else f"{given}:{parts_of(bound)[1]}"
        parts_of(with_port)
        return with_port
    if is_every_host(bound):
        raise CommandError(
            f"the cluster listens at {bound}, on every address of this machine: say which one the other host reaches",
            hint="hobus token create --address HOST",
            exit_code=exit_codes.USAGE,
        )
    return bound


@token.command(name="list")
@click.option("--json", "as_json_", is_flag=True, help="One JSON array.")
@with_home
def list_tokens(*, home: Home, as_json_: bool) -> int:
    """List tokens and how often they were used; no secret is in there."""
    now, uses = SystemClock().now(), uses_in(home.keys)
    rows = [
        {
            "token_id": known.token_id,
            "role": known.role,
            "uses": known.uses,
            "used": sum(use.token_id == known.token_id for use in uses),
            "expires_at": iso(known.expires_at_us / 1_000_000),
            "expires_in_s": round(known.expires_at_us / 1_000_000 - now, 3),
        }
        for known in tokens_in(home.keys)
    ]
    if as_json_:
        say(as_json(rows))
        return exit_codes.OK
    shown = [
        (
            str(row["token_id"]),
            str(row["role"]),
            f"{row['used']} of {row['uses']}",
            f"in {duration(float(row['expires_in_s']))}" if float(row["expires_in_s"]) > 0 else "expired",
        )
        for row in rows
    ]
    table(("TOKEN", "ROLE", "USED", "EXPIRES"), shown)
    return exit_codes.OK
