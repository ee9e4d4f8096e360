"""What a turn teaches: its signals, by rules alone. Pure.

One event per signal and turn, its id derived from the run, so that a turn that is logged again counts once.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.actors.ho2_supervisor.turn.classification import read_classification
from hobus.bus.messages.ids import RunId, signal_event_id
from hobus.bus.messages.memory import Signal
from hobus.config.assets import names
from hobus.config.schema import ClassifyLabels

_IS_SIGNAL = re.compile(r"[a-z_]+:[!-~]{1,120}")


def signals_of(ended: EndedRun, session_id: str, *, tools: Collection[str], vocabulary: ClassifyLabels) -> list[Signal]:
    """The signals of a run that is over, in a fixed order; a fact that is missing gives none.

    `tools`: those that the agent has, wildcards among them; a name that a model made up is no signal.
    """
    labels = read_classification(ended.classified, vocabulary, is_first=False)
    run_id = RunId(session_id=session_id, run_seq=ended.run_seq)
    found = [
        *([f"intent:{labels.speech_act}"] if labels.speech_act else []),
        *(f"domain:{label}" for label in labels.domain),
        *(f"task:{label}" for label in labels.task),
        *(f"tool:{tool_id}" for tool_id in ended.tool_ids if names(tools, tool_id)),
        *([f"outcome:{ended.outcome}"] if ended.outcome else []),
    ]
    return [
        Signal(
            event_id=signal_event_id(run_id, signal_id),
            signal_id=signal_id,
            session_id=session_id,
            at=ended.requested_at,
        )
        for signal_id in dict.fromkeys(found)
        if _IS_SIGNAL.fullmatch(signal_id)
    ]
