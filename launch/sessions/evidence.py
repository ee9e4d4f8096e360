"""What was read of the record to explain a turn, and how one entry of it is read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hobus.bus.messages.base import unpack
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import Receipt
from hobus.bus.record.catalog import read_body
from hobus.bus.record.ends import order_receipt
from hobus.launch.sessions.provenance import Configuration

ERASED = "(erased, or not in this record)"


class Rules(NamedTuple):
    """What an account needs of the configuration that a turn ran under, of any version of the program."""

    chars_per_token: int
    has_memory: bool
    prompt_packs: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: bytes) -> Rules | None:
        """Read the canonical bytes of a snapshot; None where that is not to be found in them."""
        try:
            found = unpack(snapshot)
            config, ho3 = found["config"], found["config"].get("ho3") or {}
            return cls(max(1, config["attention"]["chars_per_token"]), bool(ho3.get("enabled")), found["prompt_packs"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read of the record."""

    turn: Sequence[Entry]
    """The turn's own entries, with their bodies."""
    session: Sequence[Entry]
    """Those of its session, in which its texts stand."""
    elsewhere: Sequence[Entry] = ()
    """Others that its prompts quote, or that lines of memory were made of."""
    memory: Sequence[Entry]
    """Streams `signals` and `overlays`, of all agents."""
    of_signals: int | None = None
    """Only so many signals were read, the newest ones up to the turn; None: all of them."""
    rules: Rules | None = None
    """What the turn ran under."""
    configurations: Mapping[str, Configuration] = field(default_factory=dict[str, Configuration])
    """Configuration digest -> the files of it, of any version of the program."""


def body_of(entry: Entry, number: int = 0) -> Any:
    """Return the typed body, the payload first; None for what has none, was erased, or is of another version."""
    try:
        return read_body(entry, number) if len(entry.bodies) > number else None
    except ValueError:
        return None


def receipt_of(entry: Entry) -> Receipt | None:
    """Return the receipt with which an order ended; None for another entry, or where it was erased."""
    try:
        return order_receipt(entry)
    except ValueError:
        return None


def text_in(entry: Entry, number: int = 1) -> str | None:
    """Return a text beside the payload; None where it was erased, or there is none."""
    body = entry.bodies[number] if len(entry.bodies) > number else None
    return None if body is None else body.decode("utf-8", "replace")
