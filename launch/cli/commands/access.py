"""`hobus token|keys`: join tokens and keys of workers on other hosts, and keys for HTTP; made, listed, taken back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.join_token import JoinToken
from hobus.bus.limits import JOIN_TTL_MAX_S
from hobus.bus.messages.control import CreateToken, Done, RevokeKey, RotateKey, TokenCreated
from hobus.bus.messages.ids import format_iso, parse_iso
from hobus.bus.zeromq import curve, key_book
from hobus.bus.zeromq.key_book import KeyFiles, WorkerFile, enrolled_in, read_tokens, read_workers
from hobus.launch.cli.commands.cluster_options import ask
from hobus.launch.cli.commands.options import Family, Output, with_home, with_json
from hobus.launch.cluster.client import find_cluster
from hobus.launch.cluster.endpoints import is_every_host, split_address
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.console.errors import UsageFault, format_next_command, format_next_here, make_os_fault
from hobus.launch.console.output import format_duration, format_minute, format_zone, note, say
from hobus.launch.console.view import Columns, print_rows
from hobus.launch.filters.quantities import parse_duration
from hobus.launch.http import keys as http_keys


@click.group(cls=Family)
def token() -> None:
    """Create, list and revoke tokens for workers on other hosts and keys for HTTP clients."""


def parse_seconds(text: str, option: str = "--ttl") -> int:
    """Return `90s`, `10m`, `1h30m`, `2d` as seconds, at least one. Raises UsageFault."""
    try:
        seconds = int(parse_duration(text))
    except ValueError as error:
        raise UsageFault(f"{option} {text[:40]}: {error}") from None
    if not seconds:
        raise UsageFault(f"{option} {text[:40]}: expected at least 1s")
    return seconds


def _check_role(_ctx: click.Context, _parameter: click.Parameter, given: str) -> str:
    """Says of roles that cannot be elsewhere why not."""
    if given in ("ho2", "gateway"):
        raise UsageFault(
            f"--role {given}: only executors (ho1) run on other hosts; a supervisor may write any session's "
            "journal and speak for anybody, a gateway holds the providers' keys, and no order bounds that",
            hint=format_next_here("scale ho2=4") if given == "ho2" else "",
        )
    if given not in ("ho1", "http"):
        raise UsageFault(f"--role {given[:40]!r}: expected ho1 or http", hint=format_next_here("token create --help"))
    return given


@token.command()
@click.option(
    "--role",
    metavar="ho1|http",
    callback=_check_role,
    default="ho1",
    show_default=True,
    help="Who it is for: a worker (ho1), or a client over HTTP.",
)
@click.option("--ttl", metavar="DURATION", help="How long it is valid: 30m, 2d.  [ho1: 1h; http: until it is revoked]")
@click.option("--uses", type=click.IntRange(min=1), default=1, show_default=True, help="How many workers may join.")
@click.option(
    "--ephemeral",
    metavar="DURATION",
    help="Revoke a worker's key after it is gone for this long; --uses then counts workers at once.",
)
@click.option("--name", metavar="NAME", help="http: the key's name, which owns its sessions.")
@click.option(
    "--may",
    type=click.Choice(["use", "approve", "metrics"]),
    help="http: use: everything of its own (default); approve: see and decide all waiting calls; metrics: "
    "read /metrics.",
)
@click.option("--address", metavar="HOST[:PORT]", help="Address that the other host uses, if not the one listened at.")
@with_json
def create(  # noqa: PLR0913 - one per option
    *, home: Home, role: str, ttl: str | None, uses: int, ephemeral: str | None, name: str | None,
    may: http_keys.May | None, address: str | None,
) -> Output:  # fmt: skip
    """Create a token and print the whole line to run on the other host.

    Treat that line as a password: whoever has it before it is used can join as a worker.

    With `--role http`, print a bearer key for the HTTP door, once; `hobus keys revoke NAME` revokes it.
    """
    if role == "http":
        if ephemeral is not None:
            raise UsageFault("--ephemeral: only for workers' tokens (--role ho1)")
        return _create_http_key(home, name, ttl, may or "use")
    if name is not None:
        raise UsageFault("--name: a worker's name is made when it joins")
    if may is not None:
        raise UsageFault("--may: only for HTTP keys (--role http)")
    ttl = ttl or "1h"
    gone_s = parse_seconds(ephemeral, "--ephemeral") if ephemeral is not None else 0
    document = create_worker_token(home, parse_seconds(ttl), uses, gone_s, address)
    at_once = " at once" * bool(gone_s)
    good_for = f"{'one worker' if uses == 1 else f'{uses} workers'}{at_once} within {ttl}, at {document['address']}"
    about = f"{document['token_id']}: valid for {good_for}.  {format_next_command('ps', home.root)}"
    return _print_secret(document, str(document["command"]), about)


def create_worker_token(home: Home, ttl_s: int, uses: int, gone_s: int, address: str | None) -> dict[str, object]:
    """Return a new token for workers, with what is told of it. Raises CommandError, BusError.

    `gone_s`: a worker's key is revoked once it was gone for so long; 0: never. `address`: where the workers reach this
    cluster, if not where it listens.
    """
    place = find_cluster(home)
    if beyond := key_book.find_excess_bound(ttl_s, uses):
        raise UsageFault(beyond)
    if bound := home.bound():
        _choose_address(bound, address)  # refused before anything is made
    pair = curve.draw_pair()
    wanted = {"public_key": pair.public.decode(), "role": "ho1", "ttl_s": ttl_s, "uses": uses, "gone_s": gone_s}
    created = ask(place, "broker", CreateToken.model_validate(wanted), TokenCreated)
    reached_at = _choose_address(created.address, address)
    word = JoinToken(reached_at, curve.decode_key(created.broker_key.encode()), curve.decode_key(pair.secret)).encode()
    return {
        "token_id": created.token_id, "token": word, "command": f"hobus worker join {word}", "address": reached_at,
        "role": "ho1", "uses": uses, "ephemeral_s": gone_s, "expires_at": format_iso(created.expires_at_us / 1_000_000),
    }  # fmt: skip


def _create_http_key(home: Home, name: str | None, ttl: str | None, may: http_keys.May) -> Output:
    principal = name or "default"
    if not http_keys.PRINCIPAL.fullmatch(principal):
        raise UsageFault(
            f"--name {principal[:60]!r}: up to 40 of a-z, 0-9, `_` and `-`, the first one a letter or digit"
        )
    clock = SystemClock()
    ttl_s = None if ttl is None else parse_seconds(ttl)
    try:
        word = http_keys.create(
            home, principal, new_id=clock.new_id, now_us=round(clock.now() * 1e6), ttl_s=ttl_s, may=may
        )
    except FileExistsError:
        rotate = format_next_command(f"keys rotate {principal}", home.root)
        revoke = format_next_command(f"keys revoke {principal}", home.root)
        hint = f"{rotate} replaces it, with the same rights; with others: {revoke}, then the same command again"
        raise UsageFault(f"{principal} has a key", hint=hint) from None
    except OSError as error:
        raise make_os_fault(error, doing="no key can be written") from error
    document = {"key": word, "principal": principal, "role": "http", "may": may, "expires_in_s": ttl_s}
    return _print_secret(document, word, f"the key of {principal}: Authorization: Bearer <key>; it is shown this once")


def _print_secret(document: Mapping[str, object], line: str, about: str) -> Output:
    """Print the secret alone on stdout, what it is on stderr."""

    def show() -> None:
        say(line)
        note(about)

    return Output(document, show, indent=None)


def _choose_address(bound: str, given: str | None) -> str:
    """Return the address that stands in the token. Raises UsageFault."""
    if given is not None:
        with_port = (
            given if re.search(r":\d+$", given) and not given.endswith("]") else f"{given}:{split_address(bound)[1]}"
        )
        split_address(with_port, option="--address")
        return with_port
    if is_every_host(bound):
        raise UsageFault(
            f"the cluster listens at {bound}, on every address of this machine: say which one the other host reaches",
            hint="the same command with --address HOST",
        )
    return bound


@token.command(name="list")
@with_json
def list_tokens(*, home: Home) -> Output:
    """List tokens and how often they were used; secrets are not shown."""
    now, enrolled = SystemClock().now(), enrolled_in(home.keys)
    rows: list[dict[str, Any]] = [
        {
            "token_id": known.token_id, "role": known.role, "uses": known.uses,
            "used": key_book.count_used(known, enrolled), "ephemeral_s": known.gone_s,
            "expires_at": format_iso(known.expires_at_us / 1_000_000),
            "expires_in_s": round(known.expires_at_us / 1_000_000 - now, 3),
        }
        for known in read_tokens(home.keys)
    ]  # fmt: skip
    columns: Columns = {
        "TOKEN": "token_id", "ROLE": "role",
        "USED": lambda row: f"{row['used']} of {row['uses']}{' at once' * bool(row['ephemeral_s'])}",
        "EXPIRES": lambda row: f"in {format_duration(left)}" if (left := row["expires_in_s"]) > 0 else "expired",
    }  # fmt: skip
    return Output({"tokens": rows}, lambda: print_rows(rows, columns, empty="no token is open"), indent=None)


@token.command(name="revoke")
@click.argument("token_id", metavar="TOKEN")
@with_home
def revoke_token(*, home: Home, token_id: str) -> None:
    """Revoke tokens for good and at once: nobody can join with them; workers that joined stay.

    TOKEN: as `hobus token list` shows it, or a pattern.
    """
    found = [one.token_id for one in read_tokens(home.keys) if fnmatchcase(one.token_id, token_id)]
    if not found:
        hint = format_next_command("token list", home.root)
        raise UsageFault(f"there is no token {token_id[:80]!r}", hint=hint)
    for name in found:
        _revoke(home, name)
        say(f"the token {name} is revoked")


@click.group(cls=Family)
def keys() -> None:
    """List, rotate and revoke keys of workers on other hosts and of HTTP clients."""


@keys.command(name="list")
@with_json
def list_keys(*, home: Home) -> Output:
    """List enrolled workers, connected or not, and HTTP keys."""
    rows, now = read_keys(home), SystemClock().now()
    columns: Columns = {
        "NAME": "name", "KEY": lambda row: f"{row['key']}{_ends(row['ends_at'], now)}", "HOST": "host",
        "TOKEN": "token_id", f"SINCE {format_zone(now)}": lambda row: format_minute(parse_iso(row["enrolled_at"])),
    }  # fmt: skip
    empty = "nobody has a key: no worker has joined, no key for HTTP was created"
    show = partial(print_rows, rows, columns, empty=empty, spare=("HOST", "TOKEN"))
    return Output({"keys": rows}, show, indent=None)


def _ends(at: str, now: float) -> str:
    return f", ends in {format_duration(max(0.0, parse_iso(at) - now))}" if at else ""


def read_keys(home: Home) -> list[dict[str, str]]:
    """Return enrolled workers, then keys for HTTP; `ends_at`: of one that is rotated."""
    names = ("name", "key", "host", "token_id", "version", "enrolled_at", "ends_at")
    rows: list[tuple[str, str, str, str, str, int, int | None]] = [
        (one.name, one.fingerprint, one.host, one.token_id, one.version, one.enrolled_at_us, one.ends_at_us)
        for one in read_workers(home.keys)
    ]
    now_us = round(SystemClock().now() * 1_000_000)
    rows += [
        (one.principal, f"key:{one.fingerprint}", "", f"http {one.may}", "", one.created_at_us, one.ends_at_us)
        for one in http_keys.list_keys(home)
        if one.ends_at_us is None or one.ends_at_us > now_us
    ]
    return [dict(zip(names, (*row[:5], *map(_format_time, row[5:])), strict=True)) for row in rows]


def _format_time(us: int | None) -> str:
    return format_iso(us / 1_000_000) if us else ""


@keys.command(name="rotate")
@click.argument("name")
@click.option("--grace", metavar="DURATION", default="1h", show_default=True, help="How long the old key works.")
@with_json
def rotate_key(*, home: Home, name: str, grace: str) -> Output:
    """Replace a key by a new one; an old HTTP key works for --grace.

    NAME: as `hobus keys list` shows it; for workers also a pattern, e.g. 'ho1/remote-*'. A worker finishes its orders
    and returns with its new key; after --grace it must join anew. A new HTTP key is shown once.
    """
    grace_s, clock = parse_seconds(grace, "--grace"), SystemClock()
    if grace_s > JOIN_TTL_MAX_S:
        raise UsageFault(f"--grace {grace[:40]}: at most {JOIN_TTL_MAX_S // 86_400} days")
    ends_at_us = round((clock.now() + grace_s) * 1_000_000)
    try:
        word = http_keys.rotate(
            home, name, new_id=clock.new_id, now_us=ends_at_us - grace_s * 1_000_000, grace_s=grace_s
        )
        if word is not None:
            document = {"key": word, "principal": name, "role": "http", "old_ends_at": _format_time(ends_at_us)}
            about = f"the key of {name} from now on, shown this once; the one before it is good for {grace}"
            return _print_secret(document, word, about)
        workers = _select_workers(home, name)
        for worker in workers:
            ask(find_cluster(home), "broker", RotateKey(name=worker.name, grace_s=grace_s), Done)
    except OSError as error:
        raise make_os_fault(error, doing="no key can be written") from error
    rows = [{"name": one.name, "key": one.fingerprint, "ends_at": _format_time(ends_at_us)} for one in workers]

    def show() -> None:
        for row in rows:
            say(f"{row['name']} gets a new key; {row['key']} ends then, at the latest in {grace}")
        note(format_next_command("keys list", home.root))

    return Output({"workers": rows}, show, indent=None)


def _select_workers(home: Home, pattern: str) -> list[WorkerFile]:
    """Return workers of this name, or whose names match. Raises UsageFault if there is none."""
    if found := [worker for worker in read_workers(home.keys) if fnmatchcase(worker.name, pattern)]:
        return found
    raise UsageFault(
        f"no worker {pattern[:80]!r} is enrolled, and there is no HTTP key of that name",
        hint=format_next_command("keys list", home.root),
    )


def _revoke(home: Home, name: str) -> None:
    """Revoke a worker's key or a token, by its broker if there is one: it alone may change what it runs with."""
    if home.bound() and find_holder(home) is not None:
        ask(find_cluster(home), "broker", RevokeKey(name=name), Done)
    else:
        KeyFiles(home.keys, version="", config_digest="").revoke(name)


@keys.command(name="revoke")
@click.argument("name")
@with_home
def revoke_key(*, home: Home, name: str) -> None:
    """Revoke a key, for good and at once.

    NAME: as `hobus keys list` shows it; for workers also a pattern. A worker is disconnected, others get its orders,
    and its name is not reused. An HTTP key is refused from then on.
    """
    if http_keys.revoke(home, name, now_us=round(SystemClock().now() * 1_000_000)):
        return say(f"the HTTP key of {name} is revoked")
    for worker in _select_workers(home, name):
        _revoke(home, worker.name)
        say(f"the key {worker.fingerprint} of {worker.name} is revoked")
    return None
