"""An artifact as it is kept: what the rules look at, and the whole of it packed, which few questions need."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from sys import intern
from typing import Any, get_args

from hobus.actors.ho3_memory.records import packed_artifact, unpacked_artifact
from hobus.bus.messages.ids import words_of
from hobus.bus.messages.memory import Artifact, ArtifactScope, ArtifactType

_LEVEL = 1
"""Ids of one habit's events have most of their characters in common; more effort finds little more."""
_TYPES: dict[str, ArtifactType] = {kind: kind for kind in get_args(ArtifactType)}
_SCOPES: dict[str, ArtifactScope] = {scope: scope for scope in get_args(ArtifactScope)}
_KEPT_BYTES = 400
"""What one takes in RAM beside what is packed; as measured."""


class KeptArtifact:
    """Immutable; its fields are those of the artifact."""

    __slots__ = (
        "_packed", "artifact_type", "enabled", "expires_at_event_ts", "is_stated", "principal", "rule", "scope",
        "session_id", "source_signal_ids", "weight",
    )  # fmt: skip

    def __init__(self, artifact: Artifact) -> None:
        self._packed = zlib.compress(packed_artifact(artifact), _LEVEL)
        self.principal = artifact.principal if artifact.principal is None else intern(artifact.principal)
        self.artifact_type: ArtifactType = artifact.artifact_type
        self.scope: ArtifactScope = artifact.scope
        self.session_id = artifact.session_id
        self.source_signal_ids = tuple(intern(signal_id) for signal_id in artifact.source_signal_ids)
        self.rule = _rule(artifact)
        """Of a constraint its words and where it holds; empty of any other artifact."""
        self.expires_at_event_ts = artifact.expires_at_event_ts
        self.is_stated = artifact.gate_snapshot is None
        self.weight = artifact.weight
        self.enabled = artifact.enabled

    @property
    def size_bytes(self) -> int:
        """What it takes in RAM, about."""
        return _KEPT_BYTES + len(self._packed)

    def columns(self) -> list[Any]:
        """All of it, for `restored`."""
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def restored(cls, columns: Sequence[Any]) -> KeptArtifact:
        """The artifact behind these columns."""
        found = object.__new__(cls)
        (
            found._packed, kind, found.enabled, found.expires_at_event_ts, found.is_stated, principal, rule, scope,
            found.session_id, signal_ids, found.weight,
        ) = columns  # fmt: skip
        found.artifact_type, found.scope, found.rule = _TYPES[kind], _SCOPES[scope], intern(rule)
        found.principal = principal if principal is None else intern(principal)
        found.source_signal_ids = tuple(map(intern, signal_ids))
        return found

    @property
    def subjects(self) -> tuple[str, ...]:
        """What a newer artifact supersedes it by."""
        return (*self.source_signal_ids, self.rule) if self.rule else self.source_signal_ids

    def whole(self) -> Artifact:
        """The artifact with everything that it rests on."""
        logged = unpacked_artifact(zlib.decompress(self._packed))
        return logged.model_copy(update={"weight": self.weight, "enabled": self.enabled})

    def changed(self, *, weight: float | None = None, enabled: bool | None = None) -> KeptArtifact:
        """The same with another weight, or switched."""
        found = object.__new__(KeptArtifact)
        for name in self.__slots__:
            setattr(found, name, getattr(self, name))
        found.weight = self.weight if weight is None else weight
        found.enabled = self.enabled if enabled is None else enabled
        return found

    def is_same(self, other: KeptArtifact) -> bool:
        """Whether that one is this one, read back perhaps."""
        if self is other:
            return True
        return (self.weight, self.enabled, self._packed) == (other.weight, other.enabled, other._packed)

    def is_as_logged(self, artifact: Artifact) -> bool:
        """Whether this is exactly that one; of what is kept of a logging."""
        return self.source_signal_ids == tuple(artifact.source_signal_ids) and self.whole() == artifact


def _rule(artifact: Artifact) -> str:
    """No signal's id begins like it."""
    if artifact.artifact_type != "constraint":
        return ""
    labels = artifact.labels
    return intern(f"={artifact.scope} {sorted(labels.domain)} {sorted(labels.task)} {words_of(artifact.context_line)}")
