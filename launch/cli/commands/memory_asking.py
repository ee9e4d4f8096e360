"""What commands of `hobus memory` are given, checked, and how the memory process is asked."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from hobus.bus.clock import SystemClock
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import Message, NonBlank
from hobus.bus.messages.ids import LOCAL, iso
from hobus.launch.cli.commands import cluster_options
from hobus.launch.cluster.client import cluster_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import RefusedFault, UsageFault, next_command, next_here
from hobus.launch.console.output import note

R = TypeVar("R", bound=Message)
P = TypeVar("P", m.Signals, m.Overlays)

_SECONDS = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?Z?", re.ASCII)


def place(home: Home) -> Place:
    """The running cluster. Raises CommandError (refused) when memory is off in it."""
    found = cluster_of(home)
    config = found.snapshot.config
    if config.memory is not None:
        return found
    own = home.config / "admin_config.json"
    why = "section ho3 of its configuration is null" if config.ho3 is None else "ho3.enabled is false"
    fix = f'remove `"ho3": null` from {own}'
    if config.ho3 is not None:
        fix = f"set ho3.enabled to true in {own}"
    copied = "" if own.exists() else f"{next_command('init admin_config.json', home.root)} copies that file there; "
    raise RefusedFault(
        f"memory is off in the cluster of {home.root}: {why}",
        hint=f"{copied}{fix}, then: {next_command('down', home.root)} && {next_command('up', home.root)}",
    )


def ask(there: Place, question: Message, expect: type[R]) -> R:
    """The memory process's answer. Raises RuntimeFault, CommandError."""
    return cluster_options.ask(there, "ho3", question, expect)


def all_pages(there: Place, question: m.ReadSignals | m.ReadOverlays, expect: type[P], rows: str) -> P:
    """The whole answer, of one moment."""
    found = ask(there, question, expect)
    whole: list[Any] = [*getattr(found, rows)]
    while after := found.next:
        as_of = found.as_of
        further = {"after": after, "as_of_ts": as_of.as_of_ts, "as_of_seq": as_of.as_of_seq}
        found = ask(there, question.model_copy(update=further), expect)
        whole += getattr(found, rows)
    return found.model_copy(update={rows: whole})


def principal(there: Place, name: str | None) -> str | None:
    """One that is named, and a word where it is none that there ever was. Raises CommandError (usage) for no name."""
    if name is None or name == LOCAL:
        return name
    if _is(m.Principal, name):
        from hobus.launch.http.keys import keys_in, revoked_in  # noqa: PLC0415 - for who names one

        key_name = name.split("/")[1]
        if key_name not in {key.principal for key in (*keys_in(there.home), *revoked_in(there.home))}:
            note(f"no key {key_name} was ever made here: {next_here('keys list')}")
        return name
    raise UsageFault(f"--principal {name[:80]!r}: expected local or key/NAME[/USER]", hint=next_here("keys list"))


def agent(there: Place, agent_id: str | None) -> str:
    """An agent of the configuration. Raises CommandError (usage) for another one."""
    chosen = agent_id or there.snapshot.config.host.agent_id
    cluster_options.known_agent(chosen, there.snapshot, running_in=there.home)
    return chosen


def signal(signal_id: str | None) -> str | None:
    """A signal's name, if one is given. Raises CommandError (usage) for what is none."""
    if signal_id is None or _is(m.SignalId, signal_id):
        return signal_id
    raise UsageFault(
        f"{signal_id[:80]!r} is not a signal: expected <kind>:<label>, e.g. tool:list_packages",
        hint=next_here("memory signals"),
    )


def artifact(artifact_id: str) -> str:
    """An artifact's id. Raises CommandError (usage) for what is none."""
    if _is(m.ArtifactId, artifact_id):
        return artifact_id
    raise UsageFault(f"{artifact_id[:80]!r} is not an artifact: expected ART-<hash>", hint=next_here("memory overlays"))


def weight(new_weight: float) -> float:
    """A share. Raises CommandError (usage) for another number."""
    if _is(m.Weight, new_weight):  # not nan either, which no comparison of a range's ends refuses
        return new_weight
    raise UsageFault(f"WEIGHT {new_weight:g}: expected a number from 0 to 1")


def reason(words: str) -> str:
    """Why something is changed. Raises CommandError (usage) for nothing, or for too much."""
    if _is(NonBlank, words) and len(words) <= 200:  # noqa: PLR2004 - as ho3.reason_max_chars is shipped
        return words
    raise UsageFault("--reason: expected 1 to 200 characters of UTF-8")


def _is(kind: Any, given: object) -> bool:
    """Whether messages to memory take this for such a thing; bytes that are not UTF-8 are none."""
    try:
        TypeAdapter(kind).validate_python(given)
    except ValidationError:
        return False
    return True


def time(as_of: str | None) -> str | None:
    """A person's time as a timestamp. Raises CommandError (usage) for what is none."""
    if as_of is None:
        return None
    try:
        if _SECONDS.fullmatch(as_of) is None:
            raise ValueError
        at = datetime.fromisoformat(as_of.removesuffix("Z"))
    except ValueError:
        raise UsageFault(
            f"--as-of {as_of[:40]}: expected a time in UTC, e.g. 2026-01-31 or 2026-01-31T12:00:00"
        ) from None
    return at.isoformat(timespec="microseconds") + "Z"


def now() -> str:
    """The clock's time as a timestamp."""
    return iso(SystemClock().now())
