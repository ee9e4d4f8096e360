"""What is left out of a prompt that its model could not read, before it is asked once more.

By what earlier rounds showed alone: a run that is driven again leaves out the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from hobus.actors.ho2_supervisor.limits import RESULT_MIN_CHARS
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.transcript import find_newer_half
from hobus.bus.messages.work_order import LOOKED_UP, Exchange, Segment
from hobus.bus.record.text_parts import TextPart

_NOT_SHOWN = "- older turns are not shown: the model's window has no room for them\n"
_CUT = " … (cut: the model's window has no room for more)"


def shorten(run: Run, inputs: list[Segment], exchanges: list[Exchange]) -> bool:
    """Leave out what was looked up; then older turns' half, or what results have beyond half of the longest one.

    Whichever is longer; later turns of the session show less from the start. Return False where nothing is left to cut.
    """
    run.note_too_long([*inputs, *(one for each in exchanges for one in (each.text, *each.results, *each.said))])
    results = [len(one.text) for each in exchanges for one in each.results if len(one.text) > RESULT_MIN_CHARS]
    said, longest = [one for one in inputs if one.name == HISTORY], max(results, default=0)
    if any(one.name == LOOKED_UP for one in inputs):
        inputs[:] = [one for one in inputs if one.name != LOOKED_UP]
        return True
    if said and len(said[0].text) >= longest:
        start, end = find_newer_half(said[0].text), len(said[0].text)
        newer = [run.effects.show_stretch(said[0], start, end)] if start < end else []
        shorter = _join(run, said[0], [TextPart(None, _NOT_SHOWN), *newer])
        kept = [shorter] if newer and len(shorter.text) < end else []
        inputs[:] = [each for one in inputs for each in (kept if one is said[0] else [one])]
    elif longest:
        most = max(RESULT_MIN_CHARS - len(_CUT), longest // 2)
        cut = [[_cut_end(run, one, most) for one in each.results] for each in exchanges]
        exchanges[:] = [each.model_copy(update={"results": of}) for each, of in zip(exchanges, cut, strict=True)]
    return bool(said or longest)


def _cut_end(run: Run, result: Segment, most: int) -> Segment:
    if len(result.text) <= most + len(_CUT):
        return result
    return _join(run, result, [run.effects.show_stretch(result, 0, most), TextPart(None, _CUT)])


def _join(run: Run, shown: Segment, parts: Sequence[TextPart]) -> Segment:
    [made] = run.effects.make_one_segment(shown.name, parts)
    return shown.model_copy(update={"text": made.text, "ref": made.ref})
