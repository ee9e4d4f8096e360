"""The fields of a tapped frame. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hobus.bus import catalog
from hobus.bus.broker.tap_record import BROKER, DIRECT, VERDICTS, TapRecord
from hobus.bus.catalog import ROLES
from hobus.bus.envelope import Kind
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import TurnRef
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
from hobus.launch.filters.turns import make_session_matcher, make_turn_matcher

EXAMPLE = "tap 'turn=SES-1a2b3c4d-2 & kind=wo.* & !actor=ho3 & size>10k'"


class Frame(NamedTuple):
    """A tapped frame as filters see it."""

    record: TapRecord
    turn: TurnRef
    now: float  # wall clock of the reader, for ages


def list_ids(record: TapRecord) -> tuple[str, ...]:
    """Return the ids that a frame carries; what names a turn first stands first."""
    return (record.trace, record.message_id, record.correlation_id, record.causation_id, record.key)


def _ends(frame: Frame) -> tuple[str, ...]:
    record = frame.record
    ends = (record.sender, record.destination, record.worker)
    return tuple(form for end in ends if end for form in list_forms(end))


def _match_session(value: Value) -> Test[Frame]:
    fits = make_session_matcher(value)
    return lambda frame: fits(frame.turn.session_id)


def _match_turn(value: Value) -> Test[Frame]:
    fits = make_turn_matcher(value)
    return lambda frame: fits(frame.turn, list_ids(frame.record))


_KINDS = [kind.name.lower() for kind in Kind]


def _list_types() -> list[str]:
    """Return what is routed, and what a connection itself says."""
    return [*catalog.CLASSES, *(cls.TYPE for cls in Message.__subclasses__() if cls.TYPE.startswith("bus."))]


_ANYBODY = require_role(ROLES, may_be_none=True)

FIELDS: dict[str, Field[Frame]] = {
    "actor": Texts(_ends, require_role(ROLES)),
    "sender": Texts(lambda frame: list_forms(frame.record.sender), _ANYBODY),
    "destination": Texts(lambda frame: list_forms(frame.record.destination), _ANYBODY),
    "worker": Texts(lambda frame: list_forms(frame.record.worker), _ANYBODY),
    "type": Texts(lambda frame: (frame.record.type,), require_one_of(_list_types, "type")),
    "kind": Texts(
        lambda frame: (frame.record.kind, frame.record.type),
        require_one_of(lambda: (*_KINDS, *_list_types()), "kind"),
    ),
    "session": Matching(_match_session),
    "turn": Matching(_match_turn),
    "run": Matching(_match_turn),
    "verdict": Texts(lambda frame: (frame.record.verdict,), require_one_of(VERDICTS, "verdict")),
    "code": Texts(lambda frame: (frame.record.code,)),
    "lane": Texts(lambda frame: (frame.record.lane,), require_one_of((BROKER, DIRECT), "lane")),
    "key": Texts(lambda frame: (frame.record.key,)),
    "trace": Texts(lambda frame: (frame.record.trace,)),
    "id": Texts(lambda frame: (frame.record.message_id, frame.record.correlation_id)),
    "epoch": Texts(lambda frame: (frame.record.epoch,)),
    "sequence": Number(lambda frame: frame.record.sequence, count_of),
    "attempt": Number(lambda frame: frame.record.attempt, count_of),
    "size": Number(lambda frame: frame.record.size, parse_size),
    "deadline": Number(
        lambda frame: frame.record.deadline_ms / 1000 if frame.record.deadline_ms else None, parse_duration
    ),
    "age": Number(lambda frame: max(0.0, frame.now - frame.record.at), parse_duration),
}
"""Name -> what is compared. `kind` is the envelope's kind or, as types have a dot and kinds have none, the type."""


def tap_filter(texts: tuple[str, ...]) -> Test[Frame]:
    """Return the filter behind the arguments of `hobus tap`. Raises FilterError."""
    return filter_of(texts, FIELDS)


def is_routine(record: TapRecord) -> bool:
    """Return whether a frame is a beat or the launcher's regular look: they come whether anything happens or not."""
    if record.kind == "beat":
        return True
    asks = record.type == "broker.read_peers" and record.sender.startswith("launcher/")
    return asks or (record.type == "broker.peers" and record.destination.startswith("launcher/"))


def list_forms(instance: str) -> tuple[str, ...]:
    """Return everything that an instance (or a service) answers to: `ho1` all, `ho1/2` one, with `@…` one life."""
    name = instance.partition("@")[0]
    return (instance, name, name.partition("/")[0])


def shorten_instance(instance: str) -> str:
    """Return `<role>/<n>`, or the service."""
    return instance.partition("@")[0]
