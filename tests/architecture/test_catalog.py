"""The catalogue of messages is whole."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from typing import Any, get_args, get_type_hints

import pytest

from hobus.bus import messages
from hobus.bus.catalog import CLASSES, EVERY_ROLE, ROWS, find_row
from hobus.bus.dispatch import Actor, Call
from hobus.bus.messages.base import Message, Record, find_metas
from tests.architecture.source import modules

MESSAGE_MODULES = [
    importlib.import_module(f"hobus.bus.messages.{info.name}") for info in pkgutil.iter_modules(messages.__path__)
]
RECORDS = sorted(
    {
        cls
        for module in MESSAGE_MODULES
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Record) and cls.__module__ == module.__name__ and cls not in (Record, Message)
    },
    key=lambda cls: (cls.__module__, cls.__name__),
)
MESSAGES = [cls for cls in RECORDS if issubclass(cls, Message)]


def test_every_message_has_a_name_of_its_own() -> None:
    """A type on the wire means one class."""
    assert [name for name, count in Counter(cls.TYPE for cls in MESSAGES).items() if count > 1 or not name] == []


def test_every_route_stands_once() -> None:
    """One row answers who takes a type at a service."""
    assert all(find_row(row.service, row.cls.TYPE) == row for row in ROWS)


def test_every_routed_type_is_a_class_of_bus_messages() -> None:
    """Wire types live in bus/messages and nowhere else."""
    assert set(CLASSES.values()) <= set(MESSAGES)
    assert all(CLASSES[cls.TYPE] is cls for cls in CLASSES.values())


def test_every_sender_is_a_known_role_and_somebody_may_send() -> None:
    """A row that nobody may use is dead, one with an unknown role protects nothing."""
    assert [row.cls.TYPE for row in ROWS if not row.senders or not row.senders <= EVERY_ROLE] == []


def test_what_holds_prompt_or_record_text_is_sensitive() -> None:
    """Bodies with text of users are shown on the tap only to readers with that right."""
    types = {(row.service, row.cls.TYPE) for row in ROWS if not row.sensitive}
    carriers = {"host.process_turn", "ho2.turn", "wo.execute", "gateway.prompt", "gateway.degraded_prompt"}
    assert {name for _, name in types} & carriers == set()


def test_every_record_is_strict_and_frozen() -> None:
    """Nothing on the wire is coerced, guessed or changed."""
    forms = {cls: cls.__struct_config__ for cls in RECORDS}
    assert [cls for cls, form in forms.items() if not (form.frozen and form.forbid_unknown_fields)] == []


def hints_of(cls: type[Record]) -> dict[str, Any]:
    """The type of each field, with what is said of it."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in cls.__struct_fields__}


def is_documented(hint: Any) -> bool:
    """True for a line of its own, or a type, at any depth, that is documented where it is defined."""
    is_own = isinstance(hint, type) and hint.__module__.startswith("hobus.") and bool(hint.__doc__)
    return is_own or any(meta.description for meta in find_metas(hint)) or any(map(is_documented, get_args(hint)))


def test_every_record_and_each_of_its_fields_is_documented() -> None:
    """That text is what bus/PROTOCOL.md shows to somebody who writes the other side."""
    assert [cls for cls in RECORDS if not vars(cls).get("__doc__")] == []
    fields = ((cls, name, hint) for cls in RECORDS for name, hint in hints_of(cls).items())
    assert [(cls, name) for cls, name, hint in fields if not is_documented(hint)] == []


def actors_by_service() -> dict[str, type[Actor]]:
    """Service -> the actor that answers for it, from every actor.py and service.py."""
    homes = [name for name in modules() if name.rpartition(".")[2] in ("actor", "service")]
    found: dict[str, type[Actor]] = {}
    for name in homes:
        for _, cls in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if issubclass(cls, Actor) and cls.service and cls.__module__ == name:
                assert cls.service not in found, f"two actors answer for {cls.service}"
                found[cls.service] = cls
    return found


def handled(actor: type[Actor]) -> set[str]:
    """Types that an actor class has a handler for, found as the dispatcher finds them."""
    found: set[str] = set()
    for _, method in inspect.getmembers(actor, inspect.isfunction):
        if not method.__name__.startswith("on_") and not inspect.iscoroutinefunction(method):
            continue
        hints = list(inspect.get_annotations(method, eval_str=True).values())
        if len(hints) >= 2 and hints[1] is Call and issubclass(hints[0], Message):
            found.add(hints[0].TYPE)
    return found


@pytest.mark.parametrize("service", ["host", "ho2", "ho1", "ho3", "gateway", "ledger"])
def test_every_row_has_its_handler_and_every_handler_its_row(service: str) -> None:
    """What may be sent is answered, and nothing is answered that the policy does not know."""
    rows = {row.cls.TYPE for row in ROWS if row.service == service}
    assert handled(actors_by_service()[service]) == rows
