"""`hobus asset`: the governed files that turns were made under, in every version that the record names."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from hobus.bus.messages.base import unpack
from hobus.bus.messages.ids import iso_of_us
from hobus.config.secret_refs import redacted
from hobus.launch.cli.commands.options import Family, Output, with_home, with_json
from hobus.launch.cli.provenance_view import NOT_KNOWN, configurations_of
from hobus.launch.cli.turn_account import entries_about, run_in, turn_account
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, next_here
from hobus.launch.console.output import as_json, counted, note, note_coloured, printable, say, table
from hobus.launch.sessions.journal import sessions_meant
from hobus.launch.sessions.provenance import (
    Configuration,
    RecordedSnapshot,
    Version,
    digests_in,
    held,
    meant,
    named_by_run,
    short_digest,
    used_in,
)

_CANDIDATES = 8
_LEAST_CHARS = 4


@click.group(cls=Family)
def asset() -> None:
    """List and print governed files by digest: every version that a record of this home names.

    Both work with and without a running cluster, and of what was upgraded or removed since.
    """


@asset.command("list")
@click.argument("turn", metavar="[TURN]", default="")
@with_json
def list_(*, home: Home, turn: str) -> Output:
    """List every version of every governed file, and since which entry it is in force; or those of one turn.

    TURN is SES-<8 hex digits>-<n>: all files of the configuration that it ran under, and which of them made it.
    """
    demand_record(home)
    known = configurations_of(home)
    rows = _of_turn(home, turn, known) if turn else _of_record(list(known.values()))
    for fault in _faults(known.values()):
        note_coloured(f"warning: {fault}", "yellow")

    def show() -> None:
        last = "MADE IT" if turn else "SINCE"
        cells = [
            (
                short_digest(row["digest"]) or NOT_KNOWN,
                row["version"] or "-",
                f"{row['package_id']} {row['package_version']}".strip() or "-",
                ("yes" if row["is_used"] else "-") if turn else f"#{row['sequence']}",
                row["path"],
            )
            for row in rows
        ]
        table(("DIGEST", "VERSION", "PACKAGE", last, "FILE"), cells, spare=("VERSION",))

    return Output({"assets": rows}, show)


@asset.command()
@click.argument("digest", metavar="DIGEST")
@click.option("--raw", is_flag=True, help="Its bytes alone, as they were.")
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def show(*, home: Home, digest: str, raw: bool, as_json_: bool) -> int:
    """Print one version of a governed file, exactly as it was in force.

    DIGEST is the SHA-256 of its bytes, or the first digits of it, as `hobus why` and `hobus asset list` show them; the
    digest of a configuration prints all of its settings. A version whose recorded bytes are not what their digest says
    is not printed: exit code 3.
    """
    demand_record(home)
    if raw and as_json_:
        raise UsageFault("--raw and --json exclude each other", hint="leave one of them out")
    known = list(configurations_of(home).values())
    found = held(_meant(digest, known), known)
    if found.content is None:
        raise _not_there(found)
    if raw:
        sys.stdout.buffer.write(found.content)
        sys.stdout.buffer.flush()
    elif as_json_:
        say(as_json(_document(found, found.content), indent=1))
    else:
        _show(found, found.content)
    return exit_codes.OK


# --- reading ----------------------------------------------------------------------------------------------------------


def _of_record(known: Sequence[Configuration]) -> list[dict[str, Any]]:
    """Each version once, under the first entry that has it."""
    found: dict[Version, Configuration] = {}
    for one in known:
        for version in one.versions.values():
            found.setdefault(version, one)
    rows = sorted(found.items(), key=lambda row: (row[0].path, row[1].sequence))
    return [version._asdict() | {"sequence": one.sequence, "config_digest": one.digest} for version, one in rows]


def _of_turn(home: Home, turn: str, known: dict[str, Configuration]) -> list[dict[str, Any]]:
    """Raises CommandError where there is no such turn, or the record lacks its configuration."""
    named = run_in(turn)
    if named is None:
        raise UsageFault(f"{turn[:80]} names no turn: SES-<8 hex digits>-<n>", hint=next_here("session list --all"))
    [session_id] = asyncio.run(sessions_meant(home, named[:1], called="TURN"))
    account = turn_account(entries_about(home, session_id, named[1]), session_id, named[1], called="TURN")
    digest = named_by_run(account.entries)
    if digest not in known:
        raise CommandError(
            f"the record does not have the configuration that {turn} ran under: {digest or 'none is named'}",
            hint=next_here(f"why {turn}"),
        )
    one, used = known[digest], {row.digest for row in used_in(account.entries, known)}
    return [
        version._asdict()
        | {"sequence": one.sequence, "config_digest": one.digest, "is_used": version.digest in used}
        for version in one.versions.values()
    ]  # fmt: skip


def _faults(known: Any) -> list[str]:
    return [fault for one in known for fault in one.faults]


def _meant(given: str, known: Sequence[Configuration]) -> str:
    """The one digest that begins so. Raises UsageFault with those that it may be; integrity where one may be hidden."""
    if not given.strip():
        raise UsageFault("DIGEST is empty: give the first digits of one", hint=next_here("asset list"))
    digests = digests_in(known)
    found = meant(given, digests)
    if len(found) == 1 and len(given.removeprefix("sha256:")) >= _LEAST_CHARS:
        return found[0]
    if not found and (faults := _faults(known)):
        raise _tampered(f"no version that can be read has the digest {printable(given[:80])}", faults)
    hint = next_here("asset list")
    if not found:
        raise UsageFault(f"the record names no version with the digest {printable(given[:80])}", hint=hint)
    names = {version.digest: version.path for one in known for version in one.versions.values()}
    rows = [f"  {short_digest(one)}  {names.get(one, 'a configuration')}" for one in found[:_CANDIDATES]]
    rows += [f"  and {counted(len(found) - _CANDIDATES, 'other')}"] if len(found) > _CANDIDATES else []
    said = f"{printable(given[:80])} is the beginning of {counted(len(found), 'digest')}"
    raise UsageFault("\n".join([f"{said}; give more of it, at least {_LEAST_CHARS} digits", *rows]), hint=hint)


def _not_there(found: RecordedSnapshot) -> CommandError:
    faults = _faults(found.configurations)
    if faults:
        return _tampered(f"{found.digest} cannot be printed", faults)
    return CommandError(
        f"the record names {found.digest} ({_places(found.versions)}) and does not have its bytes",
        hint=next_here("ledger verify"),
    )


def _tampered(said: str, faults: Sequence[str]) -> CommandError:
    told = "\n".join([said, *(f"- {fault}" for fault in faults)])
    return CommandError(told, hint=next_here("ledger verify"), exit_code=exit_codes.INTEGRITY)


# --- printing ---------------------------------------------------------------------------------------------------------


def _places(versions: Sequence[Version]) -> str:
    return ", ".join(dict.fromkeys(version.path for version in versions)) or "a configuration"


def _text_of(found: RecordedSnapshot, content: bytes) -> str | None:
    """A configuration by its settings; None for what is no text."""
    if not found.versions:
        return as_json(redacted(unpack(content)["config"]), indent=1)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _document(found: RecordedSnapshot, content: bytes) -> dict[str, Any]:
    text = _text_of(found, content)
    return {
        "digest": found.digest,
        "size_bytes": len(content),
        "versions": [version._asdict() for version in found.versions],
        "configurations": [
            {"config_digest": one.digest, "sequence": one.sequence, "at": iso_of_us(one.at_us)}
            for one in found.configurations
        ],
        "text": text,
        "hex": content.hex() if text is None else None,
    }


def _show(found: RecordedSnapshot, content: bytes) -> None:
    note(f"{found.digest}, {counted(len(content), 'byte')}")
    for version in found.versions:
        owner = f"{version.package_id} {version.package_version}".strip() or "no package"
        note(f"{version.path}, version {version.version or '-'}, of {owner}")
    if not found.versions:
        note("all settings of this configuration")
    numbers = [f"#{one.sequence}" for one in found.configurations]
    more = f" and {counted(len(numbers) - _CANDIDATES, 'other')}" if len(numbers) > _CANDIDATES else ""
    note(f"in force from {', '.join(numbers[:_CANDIDATES])}{more} on")
    text = _text_of(found, content)
    if text is None:
        raise UsageFault("it is no text", hint="the same command with --raw")
    for line in text.splitlines():
        say(printable(line))
