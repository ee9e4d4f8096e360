"""The texts of one run's orders: each is recorded with the order that shows it first, and named by ref from then on."""

from __future__ import annotations

from collections.abc import Sequence

from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.turn import text_parts, work_orders
from hobus.actors.ho2_supervisor.turn.text_parts import Shown
from hobus.bus.messages.ids import body_ref
from hobus.bus.messages.work_order import Segment, WorkOrder


class OrderTexts:
    """What the orders of a run have brought so far, at one attempt to drive it."""

    def __init__(self, session: OwnedSession) -> None:
        self._session = session
        self._refs: dict[str, str] = {}  # text -> where it stands
        self._composed: dict[str, Sequence[Shown]] = {}  # text -> its parts

    def one_segment(self, name: str, parts: Sequence[Shown]) -> list[Segment]:
        """The parts as one text, which the order that shows it first records by naming them; none for no parts."""
        if len(parts) <= 1:
            return [Segment(name=name, ref=part.ref, text=part.text) for part in parts]
        segment = text_parts.whole(name, parts)
        self._composed[segment.text] = parts
        return [segment]

    def owned(self, planned: WorkOrder, submission_id: str) -> tuple[WorkOrder, list[bytes]]:
        """The order whose longer texts have refs, and the bodies that it brings for those that are new.

        A composed text is brought as its parts; older lines only when much has been added.
        """
        order, brought = work_orders.with_own_texts(planned, submission_id, self._refs, self._composed)
        self._refs |= brought
        bodies: list[bytes] = []
        fresh: list[bytes] = []
        for text in brought:
            parts = self._composed.get(text)
            if parts is None:
                bodies.append(text.encode())
                continue
            new_ref = body_ref(submission_id, len(brought) + len(fresh) + 1)
            body, kept = text_parts.shared(parts, self._session.older_lines, new_ref)
            bodies.append(body)
            if kept is not None:
                self._session.older_lines = kept
                fresh.append(kept.text.encode())
        return order, bodies + fresh
