"""What is left out of a prompt that its model could not read, before it is asked once more.

By what earlier rounds showed alone: a run that is driven again leaves out the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from hobus.actors.ho2_supervisor.limits import RESULT_MIN_CHARS
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.transcript import find_newer_half
from hobus.bus.messages.work_order import Exchange, Segment
from hobus.bus.record.text_parts import TextPart

_NOT_SHOWN = "- older turns are not shown: the model's window has no room for them\n"
_CUT = " … (cut: the model's window has no room for more)"


def shorten(run: Run, inputs: list[Segment], exchanges: list[Exchange]) -> bool:
    """Leave out the older half of the earlier turns, or what results have beyond half of the longest one.

    Whichever is longer; later turns of the session show less from the start. Return False where nothing is left to cut.
    """
    said = [one for one in inputs if one.name == HISTORY and one.text != _NOT_SHOWN]
    results = [one for each in exchanges for one in each.results if len(one.text) > RESULT_MIN_CHARS]
    run.note_too_long([*inputs, *(one for each in exchanges for one in (each.text, *each.results, *each.said))])
    if not said and not results:
        return False
    longest = max(len(one.text) for one in results) if results else 0
    if said and len(said[0].text) >= longest:
        inputs[:] = [_drop_older(run, one) if one is said[0] else one for one in inputs]
        return True
    most = max(RESULT_MIN_CHARS - len(_CUT), longest // 2)
    exchanges[:] = [
        each.model_copy(update={"results": [_cut_end(run, one, most) for one in each.results]}) for each in exchanges
    ]
    return True


def _drop_older(run: Run, said: Segment) -> Segment:
    start, end = find_newer_half(said.text), len(said.text)
    newer = [run.effects.show_stretch(said, start, end)] if start < end else []
    return _join(run, said, [TextPart(None, _NOT_SHOWN), *newer])


def _cut_end(run: Run, result: Segment, most: int) -> Segment:
    if len(result.text) <= most + len(_CUT):
        return result
    return _join(run, result, [run.effects.show_stretch(result, 0, most), TextPart(None, _CUT)])


def _join(run: Run, shown: Segment, parts: Sequence[TextPart]) -> Segment:
    [made] = run.effects.make_one_segment(shown.name, parts)
    return shown.model_copy(update={"text": made.text, "ref": made.ref})
