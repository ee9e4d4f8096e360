"""What was said before: the delivered turns of a session, and the segments that a prompt gets of them. Pure.

Newest turns stand verbatim, whole turns only, within a token budget and a count; older ones as one line each, newest
first, while the budget lasts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.limits import HISTORY_RESULT_CHARS
from hobus.actors.ho2_supervisor.turn.blocks import harmless, unsafe_in
from hobus.bus.messages import given_history, transcript
from hobus.bus.messages.work_order import Exchange, Segment, ToolCall
from hobus.bus.record.text_parts import TextPart, merged

ERASED = "[erased]"
_GONE = TextPart(None, ERASED)
"""A mark without ref for what was erased, so that the record shows what the model saw."""
_CUT = TextPart(None, " … (cut; whole in its own turn)")
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
    step_turns: int = 1
    """Turns by which the first one that is shown whole moves on at once; meanwhile prompts begin alike."""


class DeliveredTurn(Struct, frozen=True, dict=True):
    """One answered input as the user saw it; a text is None until it was read from the record, and in no snapshot."""

    input_id: str
    input_ref: str
    reply_ref: str
    input_text: str | None = None
    reply_text: str | None = None
    tool_ids: tuple[str, ...] = ()
    is_degraded: bool = False
    rounds: tuple[Exchange, ...] = ()
    """The calls of tools behind its answer with their results, and steers; texts that have refs are blank."""
    texts: dict[str, str] | None = None
    """Those, by their refs, of long ones the beginning; None until they were read from the record."""

    @property
    def name(self) -> str:
        """What `hobus session show --turn` takes: `turn 12`; of one that had no run, `input <its id>`."""
        answered = _ANSWERED_BY.search(self.reply_ref)
        return f"input {self.input_id}" if answered is None or self.is_degraded else f"turn {answered[1]}"

    @cached_property
    def verbatim(self) -> tuple[TextPart, ...]:
        """The turn as the messages that it was: asked, calls with their results, answered."""
        texts = self.texts or {}

        def of(segment: Segment) -> TextPart:
            return TextPart(segment.ref, segment.text if segment.ref is None else texts.get(segment.ref, ERASED))

        parts = asked(self.input_ref, self.input_text)
        for one in self.rounds:
            parts += _message("assistant", of(one.text), calls=one.tool_calls) if one.tool_calls else []
            for result in one.results:
                parts += _message("tool", *_beginning(of(result)), call_id=result.name)
            for words in one.said:
                parts += _message("user", of(words))
        answer = _GONE if self.reply_text is None else TextPart(self.reply_ref, self.reply_text)
        return tuple(merged([*parts, *_message("assistant", answer)]))

    @cached_property
    def chars(self) -> int:
        """Of that."""
        return sum([len(part.text) for part in self.verbatim])

    def missing_refs(self) -> tuple[str, ...]:
        """Refs of the texts that are still to be read."""
        pairs = ((self.input_ref, self.input_text), (self.reply_ref, self.reply_text))
        rounds = refs_in(self.rounds) if self.texts is None else ()
        return (*(ref for ref, text in pairs if text is None), *rounds)

    def filled(self, texts: Mapping[str, str]) -> DeliveredTurn:
        """The turn with its missing texts taken from `texts` by ref."""
        return replace(
            self,
            input_text=texts.get(self.input_ref) if self.input_text is None else self.input_text,
            reply_text=texts.get(self.reply_ref) if self.reply_text is None else self.reply_text,
            texts=beginnings(self.rounds, texts) if self.texts is None else self.texts,
        )


def asked(ref: str, text: str | None) -> list[TextPart]:
    """What somebody said, as a message; before it those of a conversation that goes on from elsewhere."""
    if text is None:
        return _message("user", _GONE)
    told = given_history.stretches(text)
    own = TextPart(ref, text) if not told else _stretch(ref, text, told[-1])
    return [*given(ref, text), *_message("user", own)]


def given(ref: str, text: str) -> list[TextPart]:
    """The messages that a client told of before a person's own words."""
    parts: list[TextPart] = []
    for one in given_history.stretches(text)[:-1]:
        said = [_stretch(ref, text, one)]
        if one.role == "system":  # of whoever holds the conversation: this agent's makers did not say it
            said = [TextPart(None, "<caller_instructions>\n"), *said, TextPart(None, "\n</caller_instructions>")]
        parts += _message("user" if one.role == "system" else one.role, *said)
    return parts


def _stretch(ref: str, text: str, one: given_history.Stretch) -> TextPart:
    return TextPart(ref, text[one.start : one.end], f"{one.start}:{one.end}")


def refs_in(rounds: Sequence[Exchange]) -> tuple[str, ...]:
    """Refs of all that was said in these rounds."""
    said = (one for exchange in rounds for one in (exchange.text, *exchange.results, *exchange.said))
    return tuple(one.ref for one in said if one.ref is not None)


def beginnings(rounds: Sequence[Exchange], texts: Mapping[str, str]) -> dict[str, str]:
    """Of what was said in these rounds as much as later prompts show, and a character by which a longer one is told."""
    return {ref: texts[ref][: HISTORY_RESULT_CHARS + 1] for ref in refs_in(rounds) if ref in texts}


class History(Struct, frozen=True):
    """The delivered turns that a prompt can still show: the newest whole, those before them as lines; oldest first."""

    turns: tuple[DeliveredTurn, ...] = ()
    digests: tuple[tuple[str, str], ...] = ()
    """(input id, line)"""
    count: int = 0

    def missing_refs(self) -> tuple[str, ...]:
        """Refs of the texts that are still to be read, in order."""
        return tuple(ref for turn in self.turns for ref in turn.missing_refs())

    def texts(self) -> dict[str, str]:
        """The texts of the newest turns by their refs, as far as they are at hand."""
        pairs = (
            pair for one in self.turns for pair in ((one.input_ref, one.input_text), (one.reply_ref, one.reply_text))
        )
        return {ref: text for ref, text in pairs if text is not None}

    def reply_behind(self, ref: str) -> str | None:
        """The reply of a newest turn that is named by this ref, if its text is at hand."""
        return next((turn.reply_text for turn in self.turns if turn.reply_ref == ref), None)

    def filled(self, texts: Mapping[str, str]) -> History:
        """The history with missing texts taken from `texts` by ref."""
        return replace(self, turns=tuple(turn.filled(texts) for turn in self.turns))


def remember(history: History, turn: DeliveredTurn, limits: HistoryLimits) -> History:
    """The history with this turn: in the place of an earlier answer to the same input, else as the newest one."""
    if turn.input_id in [known.input_id for known in history.turns]:
        turns = tuple(turn if known.input_id == turn.input_id else known for known in history.turns)
        return replace(history, turns=turns)
    if turn.input_id in [input_id for input_id, _ in history.digests]:
        line = digest(turn, limits.digest_chars)
        digests = tuple((known, line if known == turn.input_id else old) for known, old in history.digests)
        return replace(history, digests=digests)
    turns = (*history.turns, turn)
    digests = history.digests
    if len(turns) > limits.turns_max:
        digests = (*digests, (turns[0].input_id, digest(turns[0], limits.digest_chars)))
        turns = turns[1:]
    return History(turns, _shown_at_most(digests, limits), history.count + 1)


def digest(turn: DeliveredTurn, chars_max: int) -> str:
    """One line for a turn: what was asked, by which name it is opened, which tools answered, whether degraded."""
    text = ERASED if turn.input_text is None else given_history.own_words(turn.input_text)
    notes = [
        turn.name,
        *([", ".join(turn.tool_ids)] if turn.tool_ids else []),
        *(["degraded"] if turn.is_degraded else []),
    ]
    tail = f" ({'; '.join(notes)})"
    room = max(0, chars_max - len("- user: ") - len(tail))
    return one_line(f"- user: {one_line(text, room)}{tail}", chars_max)


def one_line(text: str, chars_max: int) -> str:
    """The text in one line, cut where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= chars_max else line[: max(0, chars_max - 1)] + "…"


class ShownTurn(Struct, frozen=True):
    """A turn as a prompt shows it, or the lines of all that stand before the first whole one."""

    source_id: str
    """Input id of the turn; of lines that of the newest."""
    parts: tuple[TextPart, ...]


def shown(history: History, limits: HistoryLimits) -> list[ShownTurn]:
    """Everything of the history that fits, oldest first; texts keep their refs. Empty for a first turn.

    What is shown whole, and which lines, moves on by steps of `step_turns`: in between a prompt begins as the one
    before did, and a provider that keeps beginnings of prompts has it.
    """
    tokens = [-(-turn.chars // limits.chars_per_token) for turn in history.turns]
    first = _first_whole(history, tokens, limits)
    left = limits.budget_tokens - sum(tokens[first:])
    lines = [line for _, line in history.digests]
    lines += [digest(turn, limits.digest_chars) for turn in history.turns[:first]]
    found: list[ShownTurn] = []
    if told := _lines_that_fit(lines, left, history.count - len(history.turns) + first, limits):
        newest = history.turns[first - 1].input_id if first else history.digests[-1][0]
        found.append(ShownTurn(newest, (TextPart(None, told),)))
    return found + [ShownTurn(turn.input_id, turn.verbatim) for turn in history.turns[first:]]


def _first_whole(history: History, tokens: Sequence[int], limits: HistoryLimits) -> int:
    """Place of the oldest turn that is shown whole: the oldest that fits, and from there the next that begins a step.

    Where no step begins behind it, as of a few large turns, it is the oldest that fits.
    """
    left, fits = limits.budget_tokens, len(history.turns)
    while fits and tokens[fits - 1] <= left:
        fits -= 1
        left -= tokens[fits]
    before = history.count - len(history.turns)
    if before + fits == 0:
        return fits
    first = fits + -(before + fits) % limits.step_turns
    return first if first < len(history.turns) else fits


def _message(role: str, *said: TextPart, call_id: str = "", calls: Sequence[ToolCall] = ()) -> list[TextPart]:
    """A message of the transcript; no text in it holds a mark of that."""
    gone = [_GONE if part.text == ERASED else part for part in said]
    safe = harmless(gone, unsafe_in(_NO_PACKS))
    return [TextPart(None, transcript.begins(role, call_id)), *safe, TextPart(None, transcript.ends(calls))]


def _beginning(part: TextPart) -> tuple[TextPart, ...]:
    if len(part.text) <= HISTORY_RESULT_CHARS:
        return (part,)
    return part._replace(text=part.text[:HISTORY_RESULT_CHARS], stretch=f"0:{HISTORY_RESULT_CHARS}"), _CUT


def newest_lines(history: History, limits: HistoryLimits) -> list[tuple[str, str]]:
    """(input id, line) of the newest turn: enough to tell a first message from a later one."""
    return [(turn.input_id, digest(turn, limits.digest_chars)) for turn in history.turns[-1:]]


def _lines_that_fit(lines: Sequence[str], budget_tokens: int, count: int, limits: HistoryLimits) -> str:
    """The newest lines within the budget; `count`: of all turns up to the newest of these. Lines go by steps, too."""
    room = budget_tokens * limits.chars_per_token
    start = len(lines)
    while start and len(lines[start - 1]) < room:
        room -= len(lines[start - 1]) + 1
        start -= 1
    if start:
        stepped = start + -(count - len(lines) + start) % limits.step_turns
        start = stepped if stepped < len(lines) else start
    return "\n".join([*lines[start:], ""]) if start < len(lines) else ""


def _shown_at_most(digests: tuple[tuple[str, str], ...], limits: HistoryLimits) -> tuple[tuple[str, str], ...]:
    """Lines that no prompt could ever show are let go, so that a long session costs no more than a short one."""
    room = limits.budget_tokens * limits.chars_per_token
    used = sum([len(line) + 1 for _, line in digests])
    start = 0
    while used > room + limits.digest_chars:
        used -= len(digests[start][1]) + 1
        start += 1
    return digests[start:]
