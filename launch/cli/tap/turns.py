"""Which turn a frame belongs to, from its ids alone and from what earlier frames said. Pure.

An input gets its run when HO2 takes it: the first order of the run names both, the run in its own id and the input in
its cause. From then on every frame of that input has its run; of the frames before it a reader of the ring or of a
capture knows it too, since those are learnt from before they are shown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.messages.ids import TurnRef, turn_in
from hobus.launch.filters.tap_fields import ids_of


@dataclass(slots=True)
class TurnBook:
    """Runs of inputs, as far as frames told; the oldest are forgotten beyond `inputs_max`."""

    inputs_max: int | None
    _runs: OrderedDict[tuple[str, str], int] = field(default_factory=OrderedDict[tuple[str, str], int])

    def learn(self, records: Iterable[TapRecord]) -> None:
        """What these frames say about runs is known."""
        for record in records:
            turn = turn_in(ids_of(record))
            if turn.run_seq and turn.input_id:
                self._runs[turn.session_id, turn.input_id] = turn.run_seq
                if self.inputs_max is not None and len(self._runs) > self.inputs_max:
                    self._runs.popitem(last=False)

    def turn_of(self, record: TapRecord) -> TurnRef:
        """The turn of a frame."""
        turn = turn_in(ids_of(record))
        if turn.input_id and not turn.run_seq:
            return turn._replace(run_seq=self._runs.get((turn.session_id, turn.input_id), 0))
        return turn
