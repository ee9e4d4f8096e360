"""Which artifact supersedes which: of each signal and each rule the newest that has ever held, where it holds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.overlay_log import Standing

_NEVER = PointInTime(0, -1)


class Superseding:
    """Grows by `note`."""

    def __init__(self) -> None:
        self._everywhere: dict[str, PointInTime] = {}  # signal or rule -> when the newest artifact of it was made
        self._in_session: dict[str, dict[str, PointInTime]] = {}  # the same of artifacts of one session, by session

    def note(self, standing: Standing, only: Collection[str] | None = None) -> None:
        """An artifact that stands like this, if it has ever held; `only`: of its signals and its rule these."""
        if not standing.has_held:
            return
        session_id = standing.artifact.session_id or None
        for subject in standing.artifact.subjects:
            if only is None or subject in only:
                held = self._everywhere if session_id is None else self._in_session.setdefault(subject, {})
                key = subject if session_id is None else session_id
                held[key] = max(standing.made, held.get(key, _NEVER))

    def forget(self, subjects: Iterable[str]) -> None:
        """Nothing is known of these signals and rules."""
        for subject in subjects:
            self._everywhere.pop(subject, None)
            self._in_session.pop(subject, None)

    def leaves(self, standing: Standing) -> bool:
        """Whether one of its signals at least has no newer artifact where it reaches, nor its rule a newer one."""
        artifact = standing.artifact

        def is_newest(subject: str) -> bool:
            if self._everywhere.get(subject, _NEVER) > standing.made:
                return False
            there = self._in_session.get(subject, {})
            return not artifact.session_id or there.get(artifact.session_id, _NEVER) <= standing.made

        return any(map(is_newest, artifact.source_signal_ids)) and (not artifact.rule or is_newest(artifact.rule))
