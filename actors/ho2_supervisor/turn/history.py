"""What was said before: the delivered turns of a session, and the segments that a prompt gets of them. Pure.

Newest turns stand verbatim, whole turns only, within a token budget and a count; older ones as one line each. Once the
whole ones are over either, they are cut to half of it at once; until then prompts only grow: what a message had beside
it, memory and context, stays there, of memory as long as it is in force. Where a prompt's history
begins follows from the sizes of its turns alone, so that every owner of a session, and every drive, cuts alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.limits import (
    FRAME_CHARS,
    HISTORY_BESIDE_SHARE,
    HISTORY_DIGEST_SHARE,
    HISTORY_RESULT_CHARS,
)
from hobus.actors.ho2_supervisor.turn.blocks import compile_unsafe, make_harmless
from hobus.bus.messages import given_history, transcript
from hobus.bus.messages.work_order import LEARNED, Exchange, Segment, ToolCall
from hobus.bus.record.text_parts import TextPart, merge

ERASED = "[erased]"
_GONE = TextPart(None, ERASED)
"""A mark without ref for what was erased, so that the record shows what the model saw."""
_CUT = TextPart(None, " … (cut; whole in its own turn)")
_ANSWER = " | assistant: "
_NO_PACKS: Mapping[str, str] = {}
_ANSWERED_BY = re.compile(r"-[0-9a-f]{12}-([0-9]+)[./]")
"""The run in the ref of what it answered: `RunCompleted:<session>-<n>/2`, `PROMPT_RECEIVED:WO-<session>-<n>.2.1…`."""


class HistoryLimits(Struct, frozen=True):
    """How much of the past a prompt may show and an owner keeps in memory; values come from the configuration."""

    budget_tokens: int
    turns_max: int
    digest_chars: int
    chars_per_token: int
    known_max: int
    """Inputs, and commands, whose outcome stays in memory."""


class DeliveredTurn(Struct, frozen=True, dict=True):
    """One answered input as the user saw it; a text is None until it is read from the record, and in snapshots."""

    input_id: str
    input_ref: str
    reply_ref: str
    input_text: str | None = None
    reply_text: str | None = None
    tool_ids: tuple[str, ...] = ()
    is_degraded: bool = False
    rounds: tuple[Exchange, ...] = ()
    """The calls of tools behind its answer with their results, and steers; texts that have refs are blank."""
    beside: tuple[Segment, ...] = ()
    """What its message had beside it: context, and lines of memory with their artifacts; texts with refs are blank."""
    texts: dict[str, str] | None = None
    """Those of both, by their refs, of long ones the beginning; None until they were read from the record."""

    @property
    def name(self) -> str:
        """Return what `hobus session show --turn` takes: `turn 12`; without a run, `input <its id>`."""
        answered = _ANSWERED_BY.search(self.reply_ref)
        return f"input {self.input_id}" if answered is None or self.is_degraded else f"turn {answered[1]}"

    def _make_text_part(self, segment: Segment) -> TextPart:
        text = segment.text if segment.ref is None else (self.texts or {}).get(segment.ref, ERASED)
        return TextPart(segment.ref, text)

    @cached_property
    def verbatim(self) -> tuple[TextPart, ...]:
        """Return the turn as the messages that it was: asked, calls with their results, answered."""
        return tuple(merge([*self._given, *self._messages]))

    @property
    def _given(self) -> list[TextPart]:
        return [] if self.input_text is None else list_given(self.input_ref, self.input_text)

    @cached_property
    def _messages(self) -> list[TextPart]:
        of, parts = self._make_text_part, _make_message("user", _cut_own_words(self.input_ref, self.input_text))
        for one in self.rounds:
            parts += _make_message("assistant", of(one.text), calls=one.tool_calls) if one.tool_calls else []
            for result in one.results:
                parts += _make_message("tool", *_cut_beginning(of(result)), call_id=result.name)
            for words in one.said:
                parts += _make_message("user", of(words))
        answer = _GONE if self.reply_text is None else TextPart(self.reply_ref, self.reply_text)
        return merge([*parts, *_make_message("assistant", answer)])

    @cached_property
    def chars(self) -> int:
        return sum([len(part.text) for part in self.verbatim])

    def missing_refs(self) -> tuple[str, ...]:
        pairs = ((self.input_ref, self.input_text), (self.reply_ref, self.reply_text))
        rounds = list_refs(self.rounds, self.beside) if self.texts is None else ()
        return (*(ref for ref, text in pairs if text is None), *rounds)

    @cached_property
    def beside_chars(self) -> int:
        """Return the characters of what stood beside the message, its frame included."""
        texts = [len(self._make_text_part(one).text) + 1 for one in self.beside]
        return sum(texts) + FRAME_CHARS * len({one.name for one in self.beside})

    def shown(self, blocks: Blocks) -> ShownTurn:
        """Render the turn whole, its message with what it had beside it.

        Of memory what is in force with the same words.

        Made once for blocks that stay as they are: a prompt shows nearly all that the one before did.
        """
        kept: tuple[Blocks, ShownTurn] | None = vars(self).get("shown_last")
        if kept is None or kept[0] != blocks:
            kept = vars(self)["shown_last"] = blocks, self._render(blocks)
        return kept[1]

    def _render(self, blocks: Blocks) -> ShownTurn:
        parts, lines = list[TextPart](), dict[str, str]()
        for name, around in blocks.around.items():
            had = [(one.artifact_id, self._make_text_part(one).text) for one in self.beside if one.name == name]
            lines |= {artifact: text for artifact, text in had if artifact and blocks.in_force.get(artifact) == text}
            text = "\n".join(lines.values()) if name == LEARNED else "".join([text for _, text in had])
            parts += _make_message("user", TextPart(None, text.join(around))) if text else []
        whole = tuple(merge([*self._given, *parts, *self._messages])) if parts else self.verbatim
        return ShownTurn(self.input_id, whole, tuple(lines))

    def filled(self, texts: Mapping[str, str]) -> DeliveredTurn:
        """Return the turn with its missing texts taken from `texts` by ref."""
        return replace(
            self,
            input_text=texts.get(self.input_ref) if self.input_text is None else self.input_text,
            reply_text=texts.get(self.reply_ref) if self.reply_text is None else self.reply_text,
            texts=self.texts or {},
        ).with_texts(texts)

    def with_texts(self, texts: Mapping[str, str]) -> DeliveredTurn:
        """Return the turn with what it has not read of its rounds, as much of each as later prompts show.

        One more character of a longer one tells that there is more.
        """
        if self.texts is None:
            return self
        known, refs = {**texts, **self.texts}, list_refs(self.rounds, self.beside)
        return replace(self, texts={ref: known[ref][: HISTORY_RESULT_CHARS + 1] for ref in refs if ref in known})


def _cut_own_words(ref: str, text: str | None) -> TextPart:
    """Return what somebody said now, without a conversation that goes on from elsewhere."""
    if text is None:
        return _GONE
    told = given_history.split_stretches(text)
    return TextPart(ref, text) if not told else _stretch(ref, text, told[-1])


def list_given(ref: str, text: str) -> list[TextPart]:
    """Return the messages that a client told of before a person's own words."""
    parts: list[TextPart] = []
    for one in given_history.split_stretches(text)[:-1]:
        said = [_stretch(ref, text, one)] if one.start < one.end else []
        if one.role == "system":  # of whoever holds the conversation: this agent's makers did not say it
            said = [TextPart(None, "<caller_instructions>\n"), *said, TextPart(None, "\n</caller_instructions>")]
        role = "user" if one.role == "system" else one.role
        parts += _make_message(role, *said, call_id=one.call_id, calls=one.calls)
    return parts


def _stretch(ref: str, text: str, one: given_history.Stretch) -> TextPart:
    return TextPart(ref, text[one.start : one.end], f"{one.start}:{one.end}")


def list_refs(rounds: Sequence[Exchange], beside: Sequence[Segment]) -> tuple[str, ...]:
    """Return the refs of what was said in these rounds and of what stood beside their message."""
    said = (one for exchange in rounds for one in (exchange.text, *exchange.results, *exchange.said))
    return tuple(one.ref for one in (*said, *beside) if one.ref is not None)


class ToldTurn(NamedTuple):
    """What is kept of each turn: enough to tell of it, and to cut prompts."""

    input_id: str
    text: str
    chars: int
    """Of the turn as a prompt shows it whole, its message alone."""
    beside_chars: int = 0
    """Of what its message had beside it, with what stands around that."""

    def size(self, beside_max: float) -> int:
        """Characters that it takes, shown whole; its message keeps up to so many beside it."""
        return self.chars + self.beside_chars if self.beside_chars <= beside_max else self.chars


def _compute_beside_max(budget_chars: int) -> float:
    """Bound what a message may have had beside it to keep that; more would crowd out what was said."""
    return min(budget_chars * HISTORY_BESIDE_SHARE, HISTORY_RESULT_CHARS)


class Blocks(NamedTuple):
    """How prompts show what stands beside a message."""

    around: Mapping[str, tuple[str, str]]
    """What stands before and behind it, by the input's name, in the prompt's order."""
    in_force: Mapping[str, str]
    """Words of the lines of memory that are in force, by artifact."""


NO_BLOCKS = Blocks({}, {})


class History(Struct, frozen=True, dict=True):
    """The delivered turns that a prompt can still tell of, oldest first."""

    turns: tuple[DeliveredTurn, ...] = ()
    """The newest, which can be shown whole."""
    lines: tuple[ToldTurn, ...] = ()
    """Of these and of those before them."""
    count: int = 0

    def missing_refs(self) -> tuple[str, ...]:
        """Return the refs of texts that are still to be read, in order."""
        return tuple(ref for turn in self.turns for ref in turn.missing_refs())

    def texts(self) -> dict[str, str]:
        """Return the texts of the newest turns by ref, as far as they are in memory."""
        pairs = (
            pair for one in self.turns for pair in ((one.input_ref, one.input_text), (one.reply_ref, one.reply_text))
        )
        return {ref: text for ref, text in pairs if text is not None}

    def reply_behind(self, ref: str) -> str | None:
        """Return the reply of a newest turn that this ref names, if its text is in memory."""
        return next((turn.reply_text for turn in self.turns if turn.reply_ref == ref), None)

    def filled(self, texts: Mapping[str, str], limits: HistoryLimits) -> History:
        """Return the history with missing texts taken from `texts` by ref."""
        turns = tuple([turn.filled(texts) for turn in self.turns])
        older = self.lines[: len(self.lines) - len(turns)]
        return replace(self, turns=turns, lines=(*older, *[make_line(turn, limits) for turn in turns]))


def remember(history: History, turn: DeliveredTurn, limits: HistoryLimits) -> History:
    """Return the history with this turn, in place of an earlier answer to the same input, else as the newest."""
    line = make_line(turn, limits)
    if turn.input_id in [known.input_id for known in history.lines]:
        turns = tuple(turn if known.input_id == turn.input_id else known for known in history.turns)
        lines = tuple(line if known.input_id == turn.input_id else known for known in history.lines)
        return replace(history, turns=turns, lines=lines)
    turns = (*history.turns, turn)[-limits.turns_max :]
    longer = History(turns, (*history.lines, line), history.count + 1)
    _keep_cuts(longer, _find_cuts(history, limits))
    return _without_untold(longer, limits)


def make_line(turn: DeliveredTurn, limits: HistoryLimits) -> ToldTurn:
    """Return what is kept of a turn for as long as prompts tell of it."""
    return ToldTurn(turn.input_id, digest_turn(turn, limits.digest_chars), turn.chars, turn.beside_chars)


def digest_turn(turn: DeliveredTurn, chars_max: int) -> str:
    """Return one line for a turn: how question and answer begin, its name, which tools answered, whether degraded."""
    notes = [
        turn.name,
        *([", ".join(turn.tool_ids)] if turn.tool_ids else []),
        *(["degraded"] if turn.is_degraded else []),
    ]
    tail = f" ({'; '.join(notes)})"
    text = ERASED if turn.input_text is None else given_history.find_own_words(turn.input_text)
    room = max(0, chars_max - len("- user: ") - len(_ANSWER) - len(tail))
    asked_of = make_one_line(text, room)
    answer = make_one_line(ERASED if turn.reply_text is None else turn.reply_text, max(room // 2, room - len(asked_of)))
    return make_one_line(f"- user: {make_one_line(asked_of, room - len(answer))}{_ANSWER}{answer}{tail}", chars_max)


def make_one_line(text: str, chars_max: int) -> str:
    """Return the text in one line, cut where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= chars_max else line[: max(0, chars_max - 1)] + "…"


class ShownTurn(Struct, frozen=True):
    """A turn as a prompt shows it, or the lines of all that stand before the first whole one."""

    source_id: str
    """Input id of the turn; of lines that of the newest."""
    parts: tuple[TextPart, ...]
    learned: tuple[str, ...] = ()
    """Artifacts whose lines stand beside its message."""


def show_history(history: History, limits: HistoryLimits, blocks: Blocks = NO_BLOCKS) -> list[ShownTurn]:
    """Return everything of the history that fits, oldest first; texts keep their refs. Empty for a first turn."""
    begin = _find_cuts(history, limits).begin
    in_memory = len(history.lines) - len(history.turns)
    whole = max(begin.whole, in_memory)  # a configuration that shows more turns holds for those from now on
    told = [line.text for line in history.lines[begin.line : whole]] if begin.is_told else []
    if begin.is_told and (untold := history.count - len(history.lines) + begin.line):
        told.insert(0, _describe_not_shown(untold))
    found: list[ShownTurn] = []
    if told:
        newest = history.lines[whole - 1].input_id if whole else ""
        found.append(ShownTurn(newest, (TextPart(None, "\n".join([*told, ""])),)))
    most = _compute_beside_max(limits.budget_tokens * limits.chars_per_token)
    for turn, line in zip(history.turns[whole - in_memory :], history.lines[whole:], strict=True):
        found.append(turn.shown(blocks if 0 < line.beside_chars <= most else NO_BLOCKS))
    return found


class _Begin(NamedTuple):
    """Where a prompt's history begins: places in `History.lines`."""

    line: int
    """Of the first turn that is told of by its line."""
    whole: int
    """Of the first that is shown whole."""
    is_told: bool = False
    """Whether there is room for what is said of older turns."""


class _Cuts(NamedTuple):
    """What follows from the sizes of these turns."""

    limits: HistoryLimits
    turns: int
    """So many of `History.lines`, from the first on."""
    begin: _Begin
    """Where the next prompt's history begins."""
    used: int
    """Characters of the whole turns."""
    at: tuple[int, ...]
    """Where whole turns began after each cut."""


def _find_cuts(history: History, limits: HistoryLimits) -> _Cuts:
    """Return the cuts of this history; those of the shorter one that it grew from were kept, and are gone on from."""
    lines, budget = history.lines, limits.budget_tokens * limits.chars_per_token
    forgotten = history.count - len(lines)
    digest_room = int(budget * HISTORY_DIGEST_SHARE)
    kept: _Cuts | None = vars(history).get("cuts")
    if kept is None or kept.limits != limits:
        kept = _Cuts(limits, 0, _fit_lines(lines, 0, digest_room, forgotten), 0, (0,) * bool(forgotten))
    _, walked, begin, used, cuts = kept
    beside_max = _compute_beside_max(budget)
    for newest in range(walked, len(lines)):
        used += lines[newest].size(beside_max)
        most = budget - digest_room if forgotten + begin.whole else budget
        if used <= most and newest - begin.whole < limits.turns_max:
            continue
        whole, used = _cut(lines, newest, budget, (budget - digest_room) // 2, (limits.turns_max + 1) // 2)
        begin = _fit_lines(lines, whole, min(digest_room, budget - used), forgotten)
        cuts = (*cuts, whole)
    return _keep_cuts(history, _Cuts(limits, len(lines), begin, used, cuts))


def _keep_cuts(history: History, cuts: _Cuts) -> _Cuts:
    vars(history)["cuts"] = cuts
    return cuts


def _cut(lines: Sequence[ToldTurn], newest: int, budget: int, chars: int, turns: int) -> tuple[int, int]:
    """Return the first turn that stays whole, and the characters from there; the newest stays wherever it fits."""
    whole, used, beside_max = newest + 1, 0, _compute_beside_max(budget)
    while whole and newest + 1 - whole < turns:
        if lines[whole - 1].size(beside_max) + used > (chars if used else budget):
            break
        whole -= 1
        used += lines[whole].size(beside_max)
    return whole, used


def _fit_lines(lines: Sequence[ToldTurn], whole: int, room: int, forgotten: int) -> _Begin:
    """Fit lines before the first whole turn into the room; one line counts the others."""
    first = whole
    while first and len(lines[first - 1].text) + 1 <= room:
        first -= 1
        room -= len(lines[first].text) + 1
    while forgotten + first and len(_describe_not_shown(forgotten + first)) + 1 > room:
        if first == whole:
            return _Begin(whole, whole)
        room += len(lines[first].text) + 1
        first += 1
    return _Begin(first, whole, is_told=True)


def _describe_not_shown(count: int) -> str:
    return f"- {count} earlier turn{'s are' if count > 1 else ' is'} not shown"


def _without_untold(history: History, limits: HistoryLimits) -> History:
    """Drop lines that no prompt tells once they are most, so that a long session costs no more than a short one.

    Only up to where a cut left the first whole turn: from there on all cuts are as they were.
    """
    _, _, begin, _, cuts = _find_cuts(history, limits)
    first = max([cut for cut in cuts if cut <= begin.line and cut < begin.whole], default=0)
    return replace(history, lines=history.lines[first:]) if 2 * first > len(history.lines) else history


def _make_message(role: str, *said: TextPart, call_id: str = "", calls: Sequence[ToolCall] = ()) -> list[TextPart]:
    """Build a message of the transcript; no text in it holds a mark of that."""
    gone = [_GONE if part.text == ERASED else part for part in said]
    safe = make_harmless(gone, compile_unsafe(_NO_PACKS))
    return [TextPart(None, transcript.write_head(role, call_id)), *safe, TextPart(None, transcript.ends(calls))]


def _cut_beginning(part: TextPart) -> tuple[TextPart, ...]:
    if len(part.text) <= HISTORY_RESULT_CHARS:
        return (part,)
    return part._replace(text=part.text[:HISTORY_RESULT_CHARS], stretch=f"0:{HISTORY_RESULT_CHARS}"), _CUT
