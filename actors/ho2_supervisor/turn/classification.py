"""What a classification may say: the closed label vocabulary is enforced, the rest is taken as checked by its contract.

Pure. A label outside the vocabulary is dropped; the receipt of its order has the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from hobus.config.sections.turns import ClassifyLabels


class Stated(Struct, frozen=True):
    """A lasting wish that a model reads in a message."""

    statement: str
    is_constraint: bool = False
    about: str = ""
    """Of several about the same the newest counts; empty: its words alone say what it is about."""
    domain: str = ""
    """Where it holds, of the vocabulary; empty: everywhere."""


class Classification(Struct, frozen=True):
    """A turn's labels; empty everywhere when the classification failed."""

    speech_act: str = ""
    ambiguity: str = ""
    action: str = ""
    objective: str = ""
    domain: tuple[str, ...] = ()
    task: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Return what the synthesize prompt is told: one JSON object, keys in a fixed order; empty if unknown."""
        if not self.speech_act:
            return ""
        known = {name: value for name, value in asdict(self).items() if value}
        return json.dumps(known, ensure_ascii=False)


def read_classification(
    parsed: Mapping[str, Any] | None, vocabulary: ClassifyLabels, *, is_first: bool
) -> Classification:
    """Read a checked answer. The first message of a session always declares a new intent."""
    if not parsed:
        return Classification()
    domain, task, _ = read_labels(parsed, vocabulary)
    signal = _read_mapping(parsed.get("intent_signal"))
    return Classification(
        speech_act=_read_text(parsed.get("speech_act")),
        ambiguity=_read_text(parsed.get("ambiguity")),
        action="new" if is_first else _read_text(signal.get("action")),
        objective=_read_text(signal.get("candidate_objective")),
        domain=domain,
        task=task,
    )


def read_stated(parsed: Mapping[str, Any] | None, vocabulary: ClassifyLabels) -> Stated | None:
    """Return the wish that a checked answer reads in the message; an unknown scope means everywhere."""
    given = _read_mapping((parsed or {}).get("explicit_preference"))
    statement = " ".join(_read_text(given.get("statement")).split())
    if not statement:
        return None
    scope = _read_text(given.get("scope"))
    domain = scope if scope in vocabulary.domain else ""
    is_constraint = given.get("kind") == "constraint"
    return Stated(statement, is_constraint=is_constraint, about=_read_text(given.get("about")), domain=domain)


def read_labels(
    parsed: Mapping[str, Any], vocabulary: ClassifyLabels
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return domain and task labels inside the vocabulary, and one mark per label outside it."""
    labels = _read_mapping(parsed.get("labels"))
    domain, domain_dropped = select_known_labels(labels.get("domain"), vocabulary.domain, "domain")
    task, task_dropped = select_known_labels(labels.get("task"), vocabulary.task, "task")
    return domain, task, (*domain_dropped, *task_dropped)


def select_known_labels(value: Any, allowed: Sequence[str], kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return labels inside the vocabulary, each once, in the order given, and one mark per label outside it."""
    given: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    kept = dict.fromkeys([label for label in given if label in allowed])
    dropped = [kind for label in given if label not in allowed]
    return tuple(kept), tuple(dropped)


def _read_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
