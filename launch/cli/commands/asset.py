"""`hobus asset`: a governed file as it was in force, by the digest that the record names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from hobus.bus.messages.base import unpack
from hobus.bus.messages.ids import iso_of_us
from hobus.config.secret_refs import redacted
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cli.provenance_view import configurations_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, next_here
from hobus.launch.console.output import as_json, counted, note, printable, say
from hobus.launch.sessions.provenance import Configuration, RecordedSnapshot, digests_in, held, meant, short_digest

_CANDIDATES = 8
_LEAST_CHARS = 4


@click.command()
@click.argument("digest", metavar="DIGEST")
@with_json
def asset(*, home: Home, digest: str) -> Output:
    """Print one version of a governed file, as it was in force; with and without a running cluster.

    DIGEST is the SHA-256 of its bytes, or the first digits of it, as `hobus why` shows them; that of a configuration
    prints all of its settings. What is not what its digest says is not printed: exit code 3.
    """
    demand_record(home)
    known = list(configurations_of(home).values())
    found = held(_meant(digest, known), known)
    where = ", ".join(dict.fromkeys(one.path for one in found.versions)) or "a configuration"
    if found.content is None:
        if faults := _faults(found.configurations):
            raise _tampered(f"{found.digest} cannot be printed", faults)
        raise CommandError(
            f"the record names {found.digest} ({where}) and does not have its bytes", hint=next_here("ledger verify")
        )
    text = _text_of(found, found.content)

    def show() -> None:
        first = found.configurations[0].sequence
        note(f"{found.digest}: {where}, {counted(len(found.content or b''), 'byte')}, in force from #{first} on")
        for line in text.splitlines():
            say(printable(line))

    document = {
        "digest": found.digest,
        "versions": [one._asdict() for one in found.versions],
        "configurations": [
            {"config_digest": one.digest, "sequence": one.sequence, "at": iso_of_us(one.at_us)}
            for one in found.configurations
        ],
        "text": text,
    }
    return Output(document, show)


def _faults(known: Sequence[Configuration]) -> list[str]:
    return [fault for one in known for fault in one.faults]


def _meant(given: str, known: Sequence[Configuration]) -> str:
    """Return the one digest that begins so. Raises UsageFault with candidates; integrity where one may be hidden."""
    found = meant(given, digests_in(known)) if given.strip() else []
    if len(found) == 1 and len(given.removeprefix("sha256:")) >= _LEAST_CHARS:
        return found[0]
    if not found and (faults := _faults(known)):
        raise _tampered(f"no version that can be read has the digest {printable(given[:80])}", faults)
    if not found:
        said = f"the record names no version with the digest {printable(given[:80])}"
        raise UsageFault(said, hint=next_here("why TURN"))
    names: dict[str, Any] = {version.digest: version.path for one in known for version in one.versions.values()}
    rows = [f"  {short_digest(one)}  {names.get(one, 'a configuration')}" for one in found[:_CANDIDATES]]
    said = f"{printable(given[:80])} is the beginning of {counted(len(found), 'digest')}"
    raise UsageFault("\n".join([f"{said}; give more of it, at least {_LEAST_CHARS} digits", *rows]))


def _tampered(said: str, faults: Sequence[str]) -> CommandError:
    told = "\n".join([said, *(f"- {fault}" for fault in faults)])
    return CommandError(told, hint=next_here("ledger verify"), exit_code=exit_codes.INTEGRITY)


def _text_of(found: RecordedSnapshot, content: bytes) -> str:
    """Return a configuration by its settings; a governed file as UTF-8."""
    return (
        content.decode("utf-8", "replace") if found.versions else as_json(redacted(unpack(content)["config"]), indent=1)
    )
