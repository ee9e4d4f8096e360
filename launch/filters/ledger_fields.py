"""The fields of an entry of the record. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from hobus.bus.catalog import ROLES
from hobus.bus.messages.ids import TurnRef
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.catalog import EVENT_TYPES
from hobus.launch.filters.meaning import (
    Field,
    Matching,
    Number,
    Test,
    Texts,
    filter_of,
    require_one_of,
    require_role,
)
from hobus.launch.filters.quantities import count_of, parse_duration, parse_size
from hobus.launch.filters.syntax import Value
from hobus.launch.filters.tap_fields import list_forms
from hobus.launch.filters.turns import make_session_matcher, make_turn_matcher

EXAMPLE = "ledger show 'turn=SES-1a2b3c4d-2 & type=WO_* & !actor=ho1'"
_SESSION_STREAM = "session/"
_NUMBER = re.compile(r"#?([0-9]+)")
"""An entry by its number alone, with or without the sign that stands before it wherever one is named."""


class LedgerRow(NamedTuple):
    """An entry as filters see it."""

    entry: Entry
    now: float  # wall clock of the reader, for ages


def _list_streams(row: LedgerRow) -> tuple[str, ...]:
    stream = row.entry.stream
    return (stream, "session") if stream.startswith(_SESSION_STREAM) else (stream,)


def find_session(entry: Entry) -> str:
    """Return the session that an entry is about: its provenance's, else its stream's."""
    if entry.provenance.session_id:
        return entry.provenance.session_id
    return entry.stream.removeprefix(_SESSION_STREAM) if entry.stream.startswith(_SESSION_STREAM) else ""


def _match_session(value: Value) -> Test[LedgerRow]:
    fits = make_session_matcher(value)
    return lambda row: fits(find_session(row.entry))


def _match_turn(value: Value) -> Test[LedgerRow]:
    fits = make_turn_matcher(value)

    def matches(row: LedgerRow) -> bool:
        entry = row.entry
        turn = TurnRef(find_session(entry), entry.provenance.run_seq)
        return fits(turn, (entry.submission_id, entry.trace, entry.provenance.work_order_id, *entry.parents))

    return matches


FIELDS: dict[str, Field[LedgerRow]] = {
    "stream": Texts(_list_streams),
    "type": Texts(lambda row: (row.entry.event_type,), require_one_of(EVENT_TYPES, "type of entry")),
    "event": Texts(lambda row: (row.entry.event_type,), require_one_of(EVENT_TYPES, "type of entry")),
    "session": Matching(_match_session),
    "turn": Matching(_match_turn),
    "run": Matching(_match_turn),
    "actor": Texts(lambda row: list_forms(row.entry.origin), require_role(ROLES)),
    "origin": Texts(lambda row: list_forms(row.entry.origin), require_role(ROLES)),
    "decision": Texts(lambda row: (row.entry.decision,)),
    "reason": Texts(lambda row: (row.entry.reason,)),
    "wo": Texts(lambda row: (row.entry.provenance.work_order_id,)),
    "agent": Texts(lambda row: (row.entry.provenance.agent_id,)),
    "id": Texts(lambda row: (row.entry.submission_id,)),
    "trace": Texts(lambda row: (row.entry.trace,)),
    "sequence": Number(lambda row: row.entry.sequence, count_of),
    "size": Number(lambda row: sum(row.entry.body_lengths), parse_size),
    "age": Number(lambda row: max(0.0, row.now - row.entry.ledger_at_us / 1_000_000), parse_duration),
}
"""Name -> what is compared; `event` is `type`, `run` is `turn`, `origin` is `actor`."""


def make_ledger_filter(texts: tuple[str, ...]) -> Test[LedgerRow]:
    """Return the filter of `hobus ledger show|tail`'s arguments; a number is that entry. Raises FilterError."""
    return filter_of([_NUMBER.sub(r"sequence=\1", text) if _NUMBER.fullmatch(text) else text for text in texts], FIELDS)
