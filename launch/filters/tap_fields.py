"""The fields of a tapped frame. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hobus.bus import catalog
from hobus.bus.broker.tap_record import BROKER, DIRECT, VERDICTS, TapRecord
from hobus.bus.catalog import ROLES
from hobus.bus.envelope import Kind
from hobus.bus.messages.ids import TurnRef
from hobus.launch.filters.meaning import Field, Filter, Matching, Number, Test, Texts, filter_of, of_role, one_of
from hobus.launch.filters.quantities import count_of, duration_of, size_of
from hobus.launch.filters.syntax import Value
from hobus.launch.filters.turns import session_matches, turn_matches

EXAMPLE = "tap 'turn=SES-1a2b3c4d-2 & kind=wo.* & !actor=ho3 & size>10k'"


class Frame(NamedTuple):
    """A tapped frame as filters see it."""

    record: TapRecord
    turn: TurnRef
    now: float  # wall clock of the reader, for ages


def ids_of(record: TapRecord) -> tuple[str, ...]:
    """Return the ids that a frame carries; what names a turn first stands first."""
    return (record.trace, record.message_id, record.correlation_id, record.causation_id, record.key)


def _ends(frame: Frame) -> tuple[str, ...]:
    record = frame.record
    ends = (record.sender, record.destination, record.worker)
    return tuple(form for end in ends if end for form in forms(end))


def _match_session(value: Value) -> Test[Frame]:
    fits = session_matches(value)
    return lambda frame: fits(frame.turn.session_id)


def _match_turn(value: Value) -> Test[Frame]:
    fits = turn_matches(value)
    return lambda frame: fits(frame.turn, ids_of(frame.record))


_KINDS = [kind.name.lower() for kind in Kind]
_ANYBODY = of_role(ROLES, may_be_none=True)

FIELDS: dict[str, Field[Frame]] = {
    "actor": Texts(_ends, of_role(ROLES)),
    "sender": Texts(lambda frame: forms(frame.record.sender), _ANYBODY),
    "destination": Texts(lambda frame: forms(frame.record.destination), _ANYBODY),
    "worker": Texts(lambda frame: forms(frame.record.worker), _ANYBODY),
    "type": Texts(lambda frame: (frame.record.type,), one_of(lambda: catalog.CLASSES, "type")),
    "kind": Texts(
        lambda frame: (frame.record.kind, frame.record.type), one_of(lambda: (*_KINDS, *catalog.CLASSES), "kind")
    ),
    "session": Matching(_match_session),
    "turn": Matching(_match_turn),
    "run": Matching(_match_turn),
    "verdict": Texts(lambda frame: (frame.record.verdict,), one_of(VERDICTS, "verdict")),
    "code": Texts(lambda frame: (frame.record.code,)),
    "lane": Texts(lambda frame: (frame.record.lane,), one_of((BROKER, DIRECT), "lane")),
    "key": Texts(lambda frame: (frame.record.key,)),
    "trace": Texts(lambda frame: (frame.record.trace,)),
    "id": Texts(lambda frame: (frame.record.message_id, frame.record.correlation_id)),
    "epoch": Texts(lambda frame: (frame.record.epoch,)),
    "sequence": Number(lambda frame: frame.record.sequence, count_of),
    "attempt": Number(lambda frame: frame.record.attempt, count_of),
    "size": Number(lambda frame: frame.record.size, size_of),
    "deadline": Number(
        lambda frame: frame.record.deadline_ms / 1000 if frame.record.deadline_ms else None, duration_of
    ),
    "age": Number(lambda frame: max(0.0, frame.now - frame.record.at), duration_of),
}
"""Name -> what is compared. `kind` is the envelope's kind or, as types have a dot and kinds have none, the type."""


def tap_filter(texts: tuple[str, ...]) -> Filter[Frame]:
    """Return the filter behind the arguments of `hobus tap`. Raises FilterError."""
    return filter_of(texts, FIELDS)


def is_routine(record: TapRecord) -> bool:
    """Return whether a frame is a beat or the launcher's regular look: they come whether anything happens or not."""
    if record.kind == "beat":
        return True
    asks = record.type == "broker.read_peers" and record.sender.startswith("launcher/")
    return asks or (record.type == "broker.peers" and record.destination.startswith("launcher/"))


def forms(instance: str) -> tuple[str, ...]:
    """Return everything that an instance (or a service) answers to: `ho1` all, `ho1/2` one, with `@…` one life."""
    name = instance.partition("@")[0]
    return (instance, name, name.partition("/")[0])


def short(instance: str) -> str:
    """Return `<role>/<n>`, or the service."""
    return instance.partition("@")[0]
