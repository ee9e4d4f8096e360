"""Why a turn was answered as it was, in words and tables: printed by `hobus why`, told by `/why` in the chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from hobus.bus.messages.ids import is_beside
from hobus.bus.text import shortened
from hobus.launch.cli.provenance_view import MADE_UNDER, rows_of
from hobus.launch.cli.turn_why import ExplainedTurn
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import counted, note, printable, say, styled, table, table_lines, thousands
from hobus.launch.sessions.why import ContextSeen, Explanation, Span
from hobus.launch.sessions.why_failed import FailureSeen, WaitSeen
from hobus.launch.sessions.why_memory import MemoryShown
from hobus.launch.sessions.why_prompts import PromptShown, ShownStretch


class Heading(NamedTuple):
    """A heading above what follows, a blank line before it."""

    text: str


class Said(NamedTuple):
    """A line."""

    text: str
    colour: str | None = None
    bold: bool = False


class Aside(NamedTuple):
    """What a program that reads standard output must not see."""

    text: str


class Rows(NamedTuple):
    """A table, whose cells command no terminal."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


Part = Heading | Said | Aside | Rows


def show(parts: Iterator[Part]) -> None:
    for part in parts:
        match part:
            case Heading(text):
                say()
                say(styled(text, None, bold=True))
            case Said(text, colour, bold):
                say(styled(text, colour, bold=bold) if colour or bold else text)
            case Aside(text):
                note(text)
            case Rows(headings, rows):
                table(headings, rows)


def lines_of(parts: Iterator[Part]) -> Iterator[str]:
    """Yield the parts as lines; tables as wide as the terminal."""
    for part in parts:
        if isinstance(part, Rows):
            yield from table_lines(part.headings, part.rows, is_styled=False)
        else:
            yield part.text


_LINE_CHARS = 60
_BAR_CELLS = 24
_ENTRIES = 3
"""Of those behind one text that are named."""
_ROWS = 40
"""Of one list, as people read it; programs get all of it."""
_US_PER_MS = 1000


def parts_of(found: ExplainedTurn, *, in_full: bool = False) -> Iterator[Part]:
    """Yield everything that people read of the turn; `in_full`: every prompt whole."""
    turn, explained = found.account.turn, found.why
    yield Said(f"{found.name}: {printable(turn.ended)}", bold=True)
    yield Said(f"  < {_line(turn.text) if turn.text is not None else '(not in the record)'}")
    is_whole = turn.outcome == "failed"  # what it failed of ends with what to do
    yield Said(f"  > {printable(turn.reply or '') if is_whole else _line(turn.reply)}")
    yield from map(Said, opening(found))
    if explained.called_by:
        yield Said(f"  An agent of turn {explained.called_by} called it.")
    for turn_id in explained.calls:
        yield Said(f"  It called an agent, which answered in turn {turn_id}.")
    yield from map(Aside, explained.missing)
    yield from _failures(explained.failures)
    if explained.waits:
        yield Heading("calls that need an approval")
        waits = [
            (one.order, printable(one.tool_id), one.since, _verdict(one), _entries(one.sequences))
            for one in explained.waits
        ]
        yield from _rows(("ORDER", "TOOL", "SINCE", "VERDICT", "ENTRIES"), waits)
    yield from _spans(explained.spans, explained.late_ms)
    yield from _classification(explained)
    for context in explained.contexts:
        yield from _context(context)
    for prompt in explained.prompts:
        yield from _prompt(prompt, in_full=in_full)
    if explained.memory is not None:
        yield from _memory(explained.memory)
    if explained.gates:
        yield Heading("what this turn adds to memory; `hobus memory gate SIGNAL` says what a closed gate lacks")
        rows = [
            (printable(one.signal_id), "crossed" if one.crossed else "closed", one.reason, f"#{one.sequence}")
            for one in explained.gates
        ]
        yield from _rows(("SIGNAL", "GATE", "WHY", "ENTRY"), rows)
    yield from _facts(explained)
    if explained.config_digest:
        yield Heading(f"ran under {explained.config_digest}")
        yield Rows(MADE_UNDER, rows_of(explained.made_of))
    if turn.outcome == "running":
        yield Aside("the turn is not over yet")


def opening(found: ExplainedTurn) -> list[str]:
    """Tell the turn in at most five sentences, each only where there is something to say."""
    turn, why, prompts = found.account.turn, found.why, found.why.prompts
    said = why.classification or {}
    act = said.get("speech_act")
    labels = ", ".join(f"{kind} {value_in_words(name)}" for kind, name in (said.get("labels") or {}).items() if name)
    is_late = any(is_beside(one.order) and one.answered is None and one.failed is None for one in prompts)
    unknown = "still being classified" if is_late else "not classified"
    taken = f"taken as a {act}{f' ({labels})' if labels else ''}" if act else unknown
    models = ", ".join(dict.fromkeys(f"{one.provider_id}/{one.model_id}" for one in prompts)) or "no model"
    chosen, _, named_by = why.model.partition(",")
    if prompts and why.model and chosen not in models.split(", "):
        named_by = f"in place of {why.model}"
    told = [
        printable(f"The message was {taken}; the turn's end: {turn.ended}."),
        printable(f"It asked {models}{f' ({named_by.strip()})' if named_by else ''}: {found.account.taken}."),
    ]
    if prompts:
        tokens: Counter[str] = Counter()
        for one in prompts[-1].shown:
            tokens[one.name] += one.tokens
        texts = ", ".join(f"{name} {thousands(count)}" for name, count in tokens.items() if count)
        told.append(printable(f"Its last prompt showed, in tokens: {texts}."))
    if why.failures:
        first = why.failures[0]
        told.append(printable(f"{counted(len(why.failures), 'failure')}, the first: {first.code} (#{first.sequence})."))
    elif why.memory is not None or why.gates:
        shown = 0 if why.memory is None else len(why.memory.shown)
        crossed = [one.signal_id for one in why.gates if one.crossed]
        learned = f"; crossed their gate: {', '.join(crossed)}" if crossed else ""
        told.append(printable(f"Memory showed {counted(shown, 'line')}{learned}."))
    if prompts:
        checked = sum(one.as_sent is True for one in prompts)
        told.append(f"Word for word as sent, by the recorded SHA-256: {checked} of {counted(len(prompts), 'prompt')}.")
    return [f"  {one}" for one in told]


def _failures(failures: Sequence[FailureSeen]) -> Iterator[Part]:
    """Yield the words of each whole, as they say what to mend; repeated ones are named by their entry."""
    if failures:
        yield Heading("what failed")
    said: dict[str, int] = {}
    for one in failures[:_ROWS]:
        about = f" ({printable(one.about)})" if one.about else ""
        whose = f"{_FAILED[one.event]} {_whose(one.order) if one.order else ''}".rstrip() + about
        attempt = f", attempt {one.attempt}" if one.attempt else ""
        first = said.setdefault(one.words, one.sequence) if one.words else None
        words = "" if first is None else f": {printable(one.words)}" if first == one.sequence else f", as #{first} says"
        yield Said(f"  {whose}{attempt}: {printable(one.code)}{words} (#{one.sequence})")
    yield from _further(len(failures), "failure")


def _verdict(wait: WaitSeen) -> str:
    words = f": {_line(wait.words)}" if wait.words else ""
    by = f" by {printable(wait.by)}" if wait.by else ""
    return f"{_VERDICTS.get(wait.verdict, wait.verdict)}{by}{words}"


_VERDICTS = {"": "waits for a person", "undecided": "the run was over first"}


_FAILED = {
    "PROMPT_FAILED": "prompt",
    "PROMPT_REJECTED": "prompt, never sent,",
    "WO_FAILED": "the end",
    "RunFailed": "the run",
    "DEGRADATION": "the supervisor: the host answers in its place",
}


def _spans(spans: Sequence[Span], late_ms: int) -> Iterator[Part]:
    """Yield a waterfall: each bar begins and ends where its work did, in the time of the whole turn."""
    if not spans:
        return
    begin = min(one.begin_us for one in spans)
    end = max(one.end_us or one.begin_us for one in spans)
    whole = max(1, end - begin)
    late = f", and {thousands(late_ms)} ms behind the answer" if late_ms else ""
    yield Heading(f"where {thousands(max(0, round(whole / _US_PER_MS) - late_ms))} ms went{late}")
    rows: list[tuple[str, ...]] = []
    for one in spans:
        until = end if one.end_us is None else one.end_us
        first = (one.begin_us - begin) * _BAR_CELLS // whole
        cells = max(1, round((until - one.begin_us) * _BAR_CELLS / whole))
        bar = (" " * min(first, _BAR_CELLS - 1) + "#" * cells)[:_BAR_CELLS]
        took = "not ended" if one.end_us is None else f"{thousands(round((until - one.begin_us) / _US_PER_MS))} ms"
        rows.append((one.what, one.order, bar, took, _entries(one.sequences)))
    yield from _rows(("WHAT", "ORDER", "WHEN", "TOOK", "ENTRIES"), rows)


def _classification(explained: Explanation) -> Iterator[Part]:
    if explained.classified is None:
        return
    yield Heading(f"the message was taken as (#{explained.classified})")
    for name, value in (explained.classification or {"nothing": "the classification failed"}).items():
        yield Said(f"  {printable(name)}: {value_in_words(value)}")


def _context(context: ContextSeen) -> Iterator[Part]:
    if context.shown_by:
        yield Heading(
            f"context of order {context.shown_by}, shown again: {context.tokens} tokens (#{context.sequence})"
        )
        return
    whose = "context" if context.what == "answer" else f"context of the {context.what}"
    named = f"{whose} by {context.template_id} {context.template_version}".rstrip()
    yield Heading(f"{named}, {_CHOSEN.get(context.chosen_by, context.chosen_by)} (#{context.sequence})")
    used = f"{thousands(context.tokens)} of {counted(context.max_tokens, 'token')}"
    asked = counted(context.queries, "question")
    fallback = f", fallback {context.fallback}" if context.fallback else ""
    again = ", as it was assembled before" if context.is_cached else ""
    yield Said(f"  {used}, {asked}, {thousands(context.elapsed_ms)} ms; ended by {context.stopped_by}{fallback}{again}")
    yield from (Said(f"  warning: {printable(one)}", "yellow") for one in islice(context.warnings, _ROWS))
    rows = [
        (
            one.stage,
            one.type,
            thousands(one.fragments),
            thousands(one.tokens),
            f"{thousands(one.duration_ms)} ms",
            one.status,
        )
        for one in context.stages
    ]
    yield from _rows(("STAGE", "TYPE", "PIECES", "TOKENS", "TOOK", "STATUS"), rows)
    found = [
        (one.source, printable(one.source_id), thousands(one.tokens), _score(one.relevance_score))
        for one in context.fragments
    ]
    if found:
        yield from _rows(("SOURCE", "WHICH", "TOKENS", "SCORE"), found)


_CHOSEN = {
    "selectors": "chosen by its selectors",
    "agent": "of its agent's own list",
    "override": "asked for by name",
    "default": "as no template applies",
}


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"


def _prompt(prompt: PromptShown, *, in_full: bool) -> Iterator[Part]:
    whose = _whose(prompt.order)
    model = f"{prompt.provider_id}/{prompt.model_id}"
    again = f", attempt {prompt.attempt}," if prompt.attempt and prompt.attempt > 1 else ""
    yield Heading(f"prompt {whose}{again} to {model} under {prompt.contract_id} (#{prompt.sequence})")
    if prompt.answered is None:
        why = (
            "" if prompt.failed is None else f": {printable(prompt.code)}: {printable(prompt.words)} (#{prompt.failed})"
        )
        yield Said(f"  not answered{why}")
    else:
        price = "price unknown" if prompt.cost_usd is None else f"${prompt.cost_usd:.4f}"
        remaining = prompt.budget_remaining
        left = "" if remaining is None else f", {thousands(remaining)} tokens left in the session"
        yield Said(
            f"  {thousands(prompt.input_tokens or 0)} + {counted(prompt.output_tokens or 0, 'token')} "
            f"({thousands(prompt.cached_tokens or 0)} cached), {price}, {thousands(prompt.latency_ms or 0)} ms; "
            f"{thousands(prompt.reserved_tokens)} reserved{left} (#{prompt.answered})"
        )
    if prompt.as_sent is False:
        yield Said("  these texts are not what was sent: their SHA-256 is not the recorded one", "yellow")
    if prompt.tools:
        yield Said(f"  tools: {', '.join(map(printable, prompt.tools))}")
    if in_full:
        for one in prompt.shown:
            yield Said(f"  --- {one.role}: {one.name}, {one.source} {_entries(one.sequences)}".rstrip(), "cyan")
            yield from (Said(f"  | {printable(line)}") for line in one.text.splitlines())
        return
    rows = [
        (one.role, printable(one.name), thousands(one.tokens), _source(one), _line(one.text)) for one in prompt.shown
    ]
    yield from _rows(("ROLE", "STRETCH", "TOKENS", "FROM", "TEXT"), rows)


def _whose(order: str) -> str:
    return order if order.startswith("of ") else f"of order {order}"


def _source(one: ShownStretch) -> str:
    return f"{one.source} {_entries(one.sequences)}".rstrip()


def _memory(memory: MemoryShown) -> Iterator[Part]:
    if memory.state in ("off", "unasked"):
        why = "is off" if memory.state == "off" else "was not asked: the turn's template has no stage for it"
        yield Heading(f"memory {why} (#{memory.sequence})")
        return
    read = f"as of {memory.as_of_ts}, {_up_to(memory.as_of_seq)}"
    if memory.state != "read":
        read = f"as order {memory.shown_by} showed them" if memory.state == "shown_again" else "it did not answer"
    used = f"{thousands(memory.tokens_used)} of {counted(memory.budget, 'token')}"
    yield Heading(f"memory: {counted(len(memory.shown), 'line')} shown, {used}; {read} (#{memory.sequence})")
    for line in memory.shown:
        score = "" if line.score is None else f", score {line.score:.3f}"
        yield Said(f"  shown     {line.artifact_id}{score}: {printable(line.line)}{_made(line.sequence)}")
        behind = [one["sequence"] for one in line.events if one["sequence"] is not None]
        if line.signals:
            events = f"{counted(len(line.events), 'event')}{_made(*behind)}"
            yield Said(f"            rests on {', '.join(map(printable, line.signals))}: {events}")
    for left in memory.left_out[:_ROWS]:
        words = "" if left.line is None else f" {printable(left.line)};"
        yield Said(f"  not shown {left.artifact_id}:{words} {left.reason}")
    yield from _further(len(memory.left_out), "line")


def _up_to(sequence: int | None) -> str:
    return f"#{sequence}" if sequence is not None and sequence >= 0 else "before its first entry"


def _facts(explained: Explanation) -> Iterator[Part]:
    for one in (*explained.beside, *explained.quality):
        yield Heading(f"{one.event}{f': {one.decision.lower()}' if one.decision else ''} (#{one.sequence})")
        for name, value in one.says.items():
            if value not in ("", None, [], {}):
                yield Said(f"  {name}: {value_in_words(value)}")


def _rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Part]:
    """Yield the first rows, and how many there are beside."""
    if rows:
        yield Rows(headings, rows[:_ROWS])
        yield from _further(len(rows), "row")


def _further(count: int, noun: str) -> Iterator[Part]:
    if count > _ROWS:
        yield Said(f"  and {counted(count - _ROWS, f'further {noun}')}: --json has all", "bright_black")


def value_in_words(value: Any) -> str:
    """Return a text as it is, anything else as JSON, in one line."""
    return printable(value if isinstance(value, str) else json_text(value)) or "nothing"


def _entries(sequences: Sequence[int]) -> str:
    """Return the numbers of at most three entries; more are counted."""
    shown = " ".join(f"#{one}" for one in sequences[:_ENTRIES])
    return shown if len(sequences) <= _ENTRIES else f"{shown} and {counted(len(sequences) - _ENTRIES, 'other')}"


def _made(*sequences: int | None) -> str:
    known = [one for one in sequences if one is not None]
    return f" ({_entries(known)})" if known else ""


def _line(text: str | None) -> str:
    return printable(shortened(" ".join((text or "").split()), _LINE_CHARS))
