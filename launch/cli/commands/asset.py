"""`hobus asset`: a governed file as it was in force, by the digest that the record names."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hobus.bus.messages.base import unpack
from hobus.bus.messages.ids import format_iso_us
from hobus.config.secret_refs import redact
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cli.provenance_view import read_configurations
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, format_next_here
from hobus.launch.console.output import as_json, format_count, make_printable, note, say
from hobus.launch.sessions.provenance import Configuration, Copy, copies_in, shorten_digest

_CANDIDATES = 8
_LEAST_CHARS = 4


@click.command()
@click.argument("digest", metavar="DIGEST")
@with_json
def asset(*, home: Home, digest: str) -> Output:
    """Print one version of a governed file. It needs no running cluster.

    DIGEST is the SHA-256 of its bytes, or its first digits, as `hobus why` shows them. The digest of a configuration
    prints all its settings. Exit code 3 if the bytes do not match the digest.
    """
    demand_record(home)
    known = list(read_configurations(home).values())
    copies = _resolve_digest(digest, known)
    versions = list(dict.fromkeys(one.version for one in copies if one.version is not None))
    where = ", ".join(dict.fromkeys(one.path for one in versions)) or "a configuration"
    full, having = copies[0].digest, list({one.configuration.digest: one.configuration for one in copies}.values())
    content = next((one.content for one in copies if one.content is not None), None)
    if content is None:
        if faults := _list_faults(having):
            raise _make_tampered(f"{full} cannot be printed", faults)
        said = f"the record names {full} ({where}) but does not have its bytes"
        raise CommandError(said, hint=format_next_here("ledger verify"))
    text = content.decode("utf-8", "replace") if versions else as_json(redact(unpack(content)["config"]), indent=1)

    def show() -> None:
        note(f"{full}: {where}, {format_count(len(content), 'byte')}, in force from #{having[0].sequence} on")
        for line in text.splitlines():
            say(make_printable(line))

    document = {
        "digest": full,
        "versions": [one._asdict() for one in versions],
        "configurations": [
            {"config_digest": one.digest, "sequence": one.sequence, "at": format_iso_us(one.at_us)} for one in having
        ],
        "text": text,
    }
    return Output(document, show)


def _list_faults(known: Sequence[Configuration]) -> list[str]:
    return [fault for one in known for fault in one.faults]


def _resolve_digest(given: str, known: Sequence[Configuration]) -> list[Copy]:
    """Return the one digest that begins so. Raises UsageFault with candidates; integrity where one may be hidden."""
    wanted, shown = given.strip().lower().removeprefix("sha256:"), make_printable(given[:80])
    found: dict[str, list[Copy]] = {}
    for one in copies_in(known):
        if given.strip() and one.digest.removeprefix("sha256:").startswith(wanted):
            found.setdefault(one.digest, []).append(one)
    if len(found) == 1 and len(wanted) >= _LEAST_CHARS:
        return next(iter(found.values()))
    if not found and (faults := _list_faults(known)):
        raise _make_tampered(f"no version that can be read has the digest {shown}", faults)
    if not found:
        raise UsageFault(f"the record names no version with the digest {shown}", hint=format_next_here("why TURN"))
    rows = [
        f"  {shorten_digest(digest)}  {first.version.path if first.version else 'a configuration'}"
        for digest, (first, *_) in list(found.items())[:_CANDIDATES]
    ]
    said = f"{shown} is the beginning of {format_count(len(found), 'digest')}"
    raise UsageFault("\n".join([f"{said}; give more of it, at least {_LEAST_CHARS} digits", *rows]))


def _make_tampered(said: str, faults: Sequence[str]) -> CommandError:
    told = "\n".join([said, *(f"- {fault}" for fault in faults)])
    return CommandError(told, hint=format_next_here("ledger verify"), exit_code=exit_codes.INTEGRITY)
