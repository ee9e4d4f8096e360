"""The account of a turn in words and tables: each view is the list of the parts that it shows.

Printed by `hobus why` and `hobus session show --turn`, told by `/why` in the chat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hobus.bus.messages.ids import is_beside
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.text import shorten
from hobus.launch.cli.provenance_view import MADE_UNDER
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import format_count, format_money, format_thousands, make_printable
from hobus.launch.console.view import Line, Part, Shown, Table, entries, heading, in_cell
from hobus.launch.sessions.account import ContextSeen, TurnAccount
from hobus.launch.sessions.evidence import short
from hobus.launch.sessions.steps import Step, Totals
from hobus.launch.sessions.why_memory import LearnedLine, MemoryShown
from hobus.launch.sessions.why_prompts import PromptShown, ShownStretch

_LINE_CHARS = 60
_BAR_CELLS = 24
_WIDTH = 1000
"""Of the whole waterfall, in its own units."""
_THIN = 3
"""Of a bar that took no time, so that it is seen."""
_US_PER_MS = 1000


# --- what happened ----------------------------------------------------------------------------------------------------


def title(account: TurnAccount) -> Iterator[Shown]:
    yield Line(f"{account.name}: {account.turn.ended}, input {account.turn.input_id}", bold=True)


def question(account: TurnAccount) -> Iterator[Shown]:
    text = account.turn.text
    return (Line(one, begin="    < ") for one in ("(not in the record)" if text is None else text).splitlines())


def answer(account: TurnAccount) -> Iterator[Shown]:
    return (Line(one, begin="    > ") for one in (account.turn.reply or "").splitlines())


def in_short(account: TurnAccount) -> Iterator[Shown]:
    """Yield question and answer in a line each; what it failed of whole, as it ends with what to do."""
    turn = account.turn
    yield Line(_line(turn.text) if turn.text is not None else "(not in the record)", begin="  < ")
    if turn.reply:
        yield Line(turn.reply if turn.outcome == "failed" else _line(turn.reply), begin="  > ")


def opening(account: TurnAccount) -> Iterator[Line]:
    """Tell the turn in at most five sentences, each only where there is something to say."""
    said, prompts = account.classification or {}, account.prompts
    act = said.get("speech_act")
    labels = ", ".join(f"{kind} {in_words(name)}" for kind, name in (said.get("labels") or {}).items() if name)
    is_late = any(is_beside(one.step.order) and one.step.end_us is None for one in prompts)
    unknown = "still being classified" if is_late else "not classified"
    became = f"taken as a {act}{f' ({labels})' if labels else ''}" if act else unknown
    models = ", ".join(dict.fromkeys(_model(one) for one in prompts)) or "no model"
    chosen, _, named_by = account.model.partition(",")
    if prompts and account.model and chosen not in models.split(", "):
        named_by = f"in place of {account.model}"
    end = "the turn is not over yet" if account.turn.outcome == "running" else f"the turn's end: {account.turn.ended}"
    yield Line(f"The message was {became}; {end}.", begin="  ")
    yield Line(f"It asked {models}{named_by and f' ({named_by.strip()})'}: {taken(account.totals)}.", begin="  ")
    if account.asked is not None:
        tokens: Counter[str] = Counter()
        for one in account.asked.shown:
            tokens[one.name] += one.tokens
        texts = ", ".join(f"{name} {format_thousands(count)}" for name, count in tokens.items() if count)
        yield Line(f"Its last prompt showed, in tokens: {texts}.", begin="  ")
    if failures := account.failures:
        first, last = failures[0], next((one for one in failures[1:] if one.kind == "run"), None)
        ended = "" if last is None else f"; the turn's own: {last.code} (#{last.sequences[-1]})"
        told = f"{format_count(len(failures), 'failure')}, the first: {first.code} (#{first.sequences[-1]}){ended}."
        yield Line(told, begin="  ")
    elif account.memory is not None or account.signals:
        shown = [] if account.memory is None else account.memory.shown
        crossed = [one.signal_id for one in account.signals if one.crossed]
        learned = f"; crossed their gate: {', '.join(crossed)}" if crossed else ""
        yield Line(f"Memory showed {format_count(len(shown), 'line')}{learned}.", begin="  ")
    if prompts:
        checked = f"{sum(one.as_sent is True for one in prompts)} of {format_count(len(prompts), 'prompt')}"
        yield Line(f"Word for word as sent, by the recorded SHA-256: {checked}.", begin="  ")


def taken(totals: Totals) -> str:
    """Return what a turn took: `2 model calls, 1 tool call, 900 + 12 tokens, $0.25`."""
    again = f", begun {format_count(totals.tool_runs, 'time')}" if totals.tool_runs > totals.tool_calls else ""
    parts = (
        format_count(totals.model_calls, "model call"),
        f"{totals.model_calls_unknown} of them of unknown outcome" if totals.model_calls_unknown else "",
        format_count(totals.tool_calls, "tool call") + again,
        f"{totals.input_tokens:,} + {format_count(totals.output_tokens, 'token')}",
        format_money(totals.cost_usd),
    )
    return ", ".join(filter(None, parts))


def end(account: TurnAccount) -> Iterator[Shown]:
    yield Line(f"{account.turn.ended}; {taken(account.totals)}", begin="  ")


def beside(account: TurnAccount) -> Iterator[Shown]:
    if account.called_by:
        yield Line(f"An agent of turn {account.called_by} called it.", begin="  ")
    yield from (Line(f"It called an agent, which answered in turn {one}.", begin="  ") for one in account.calls)
    yield from (Line(one, is_aside=True) for one in account.missing)


def running(account: TurnAccount) -> Iterator[Shown]:
    if account.turn.outcome == "running":
        yield Line("the turn is not over yet", is_aside=True)


def moments(account: TurnAccount) -> Iterator[Shown]:
    begin = account.moments[0].at_us if account.moments else 0
    return moment_lines((round((one.at_us - begin) / _US_PER_MS), one.what) for one in account.moments)


def moment_lines(told: Iterable[tuple[int, str]], indent: str = "  ") -> Iterator[Line]:
    """Yield one line for each time in milliseconds and what happened then: deaths red, what was done again yellow."""
    for at_ms, text in told:
        is_death = text.startswith("SIGKILL") or " has ended, and goes on as " in text
        is_again = any(word in text for word in (" again", "attempt ", " try ", "UNKNOWN_OUTCOME"))
        yield Line(text, "red" if is_death else "yellow" if is_again else None, begin=f"{indent}{at_ms:6} ms  ")


# --- what it did ------------------------------------------------------------------------------------------------------


class FailureRow(NamedTuple):
    """What failed in the same way, again and again: the first of it, and where the others stand."""

    what: str
    first: Step
    attempts: str
    sequences: list[int]
    words: str
    """Why; `as #7 says` where an entry before has the same."""


_FAILED = {
    "model": "model call",
    "refused": "prompt, never sent",
    "unmade": "tool call, never run",
    "supervisor": "the supervisor: its host answers in its place",
}


def failure_rows(account: TurnAccount) -> list[FailureRow]:
    groups: dict[tuple[str, ...], list[Step]] = {}
    for one in account.failures:
        groups.setdefault((one.kind, one.order, one.code, one.words), []).append(one)
    rows, said_by = list[FailureRow](), dict[str, int]()
    for same in groups.values():
        first, last = same[0], same[0].sequences[-1]
        numbers = [one.attempt for one in same if one.attempt is not None]
        attempts = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else "".join(map(str, numbers))
        told_at = said_by.setdefault(first.words, last) if first.words else last
        words = first.words if told_at == last else f"as #{told_at} says"
        is_order = first.kind == "order" and first.arguments is not None
        what = "tool call" if is_order else _FAILED.get(first.kind, first.kind)
        sequences = [one.sequences[-1] for one in same]
        rows.append(FailureRow(what, first, attempts, sequences, words))
    return rows


failures = Table[TurnAccount]("what failed", failure_rows, {
    "WHAT": "what", "ORDER": "first.order", "FOR": "first.about", "ATTEMPT": "attempts", "CODE": "first.code",
    "WORDS": "words", "ENTRIES": "sequences",
})  # fmt: skip


def verdict(wait: Step) -> str:
    """Return what became of a call that needs an approval: `approved by local (operator/7)`."""
    if wait.verdict in ("", "undecided"):
        return "the run was over first" if wait.verdict else "waits for a person"
    return f"{wait.verdict} by {wait.by}{f': {wait.words}' if wait.words else ''}"


waits = Table[TurnAccount](
    "calls that need an approval", lambda account: account.waits,
    {
        "ORDER": "order", "TOOL": "about", "ARGUMENTS": lambda one: _line(in_words(one.arguments)), "VERDICT": verdict,
        "ENTRIES": "sequences",
    },
)  # fmt: skip


class Bar(NamedTuple):
    """A step in the waterfall: where its bar stands in a picture that is 1,000 wide."""

    step: Step
    x: float
    width: float
    """0: all of it lies behind the turn's end."""
    took_ms: int | None


def waterfall(steps: Sequence[Step], ended_us: int | None = None) -> tuple[list[Bar], int]:
    """Return bars, and the milliseconds that the whole picture is wide: up to the turn's end, if it has one. Pure."""
    begin = min((one.begin_us for one in steps), default=ended_us or 0)
    last = max((one.end_us or one.begin_us for one in steps), default=0) if ended_us is None else ended_us
    whole, bars = max(1, last - begin), list[Bar]()
    for one in steps:
        until = last if one.end_us is None else min(one.end_us, last)
        width = max(_THIN, (until - one.begin_us) * _WIDTH / whole)
        width = 0 if ended_us is not None and one.begin_us >= ended_us else width
        x = min((one.begin_us - begin) * _WIDTH / whole, _WIDTH - width)
        took_ms = None if one.end_us is None else (one.end_us - one.begin_us) // _US_PER_MS
        bars.append(Bar(one, round(x, 1), round(width, 1), took_ms))
    return bars, (last - begin) // _US_PER_MS


def _went(account: TurnAccount) -> str:
    late_ms, (_, whole_ms) = account.figures.late_ms, waterfall(account.timed, account.ended_us)
    late = f", and {format_thousands(late_ms)} ms behind the answer" if late_ms else ""
    return f"where {format_thousands(whole_ms)} ms went{late}"


def _drawn(bar: Bar) -> str:
    if not bar.width:
        return "behind the answer"
    cells = max(1, round(bar.width * _BAR_CELLS / _WIDTH))
    return (" " * min(int(bar.x * _BAR_CELLS / _WIDTH), _BAR_CELLS - 1) + "#" * cells)[:_BAR_CELLS]


times = Table[TurnAccount](_went, lambda account: waterfall(account.timed, account.ended_us)[0], {
    "WHAT": "step.kind", "FOR": "step.about", "ORDER": "step.order", "WHEN": _drawn,
    "TOOK": lambda bar: in_cell(bar.took_ms, "_ms") or "not ended", "ENTRIES": "step.sequences",
})  # fmt: skip
tools = Table[TurnAccount](
    "tools", lambda account: [one for one in account.steps if one.kind == "order" and one.arguments is not None], {
        "TOOL": "about", "ORDER": "order", "ARGUMENTS": lambda one: _line(in_words(one.arguments)),
        "RESULT": lambda one: one.code or _line(one.result) or one.verdict or "not ended", "ENTRIES": "sequences",
    },
)  # fmt: skip


def words_of(steps: Iterable[Step]) -> Iterator[Line]:
    """Yield what tools told people: whose words they are, then the words, each line behind a bar: they are foreign."""
    for one in steps:
        if one.printed or one.traceback:
            failed = f": {one.code}: {one.words}" if one.code else ""
            yield from heading(f"tool {one.about} of order {one.order}{failed}")
        for name, words in (("printed", one.printed), ("traceback", one.traceback)):
            if words:
                yield Line(f"{name} by the tool:", begin="  ")
                yield from (Line(line, begin="  | ") for line in words.splitlines())


# --- what its models were shown ---------------------------------------------------------------------------------------


def classification(account: TurnAccount) -> Iterator[Shown]:
    if account.classified is not None:
        yield from heading(f"the message was taken as (#{account.classified})")
        yield from _values(account.classification or {"nothing": "the classification failed"})


def contexts(account: TurnAccount) -> Iterator[Shown]:
    for one in account.contexts:
        yield from heading(f"{context_heading(one)} (#{one.sequence})")
        yield from (Line(f"warning: {said}", "yellow", begin="  ") for said in one.said.warnings)
        yield from _stages(one)
        yield from _pieces(one)


def context_heading(context: ContextSeen) -> str:
    said = context.said
    if isinstance(said, ContextAssembled) and said.shown_by:
        return f"context of order {short(said.shown_by)}, shown again: {said.tokens_assembled} tokens"
    used = f"{format_thousands(said.tokens_assembled)} of {format_count(said.max_context_tokens, 'token')}"
    ended = f"ended by {said.stopped_by}{said.fallback and f', fallback {said.fallback}'}"
    chosen = {
        "selectors": "chosen by its selectors", "agent": "of its agent's own list", "override": "asked for by name",
        "default": "as no template applies",
    }[said.chosen_by]  # fmt: skip
    named = f"context of the {context.what} by {said.template_id} {said.template_version}".rstrip()
    return f"{named}, {chosen}: {used}, {format_thousands(context.elapsed_ms)} ms, {ended}"


_stages = Table[ContextSeen]("", lambda context: context.said.stages, {
    "STAGE": "stage", "TYPE": "type", "PIECES": "fragments", "TOKENS": "tokens", "TOOK": "duration_ms",
    "STATUS": "status",
})  # fmt: skip
_pieces = Table[ContextSeen]("", lambda context: context.fragments, {
    "SOURCE": "source", "WHICH": "source_id", "TOKENS": "tokens", "SCORE": "relevance_score",
})  # fmt: skip


def _model(prompt: PromptShown) -> str:
    return f"{prompt.sent.provider_id}/{prompt.sent.model_id}"


def prompt_heading(prompt: PromptShown) -> str:
    sent, step = prompt.sent, prompt.step
    whose = step.order if step.order.startswith("of ") else f"of order {step.order}"
    again = f", attempt {step.attempt}," if step.attempt and step.attempt > 1 else ""
    return f"prompt {whose}{again} to {_model(prompt)} under {sent.contract_id}"


def prompt_end(prompt: PromptShown) -> str:
    sent, step, got = prompt.sent, prompt.step, prompt.answer
    if step.verdict == "failed":
        return f"not answered: {step.code}: {step.words}"
    if got is None:
        return "(erased)" if step.verdict else "not answered"
    left = "" if got.budget_remaining is None else f", {format_thousands(got.budget_remaining)} left in the session"
    tokens = f"{format_thousands(got.input_tokens)} + {format_count(got.output_tokens, 'token')}"
    took = f"{format_money(got.cost_usd)}, {format_thousands(got.latency_ms)} ms"
    cached, reserved = format_thousands(got.cached_tokens), format_thousands(sent.reserved_tokens)
    return f"{tokens} ({cached} cached), {took}; {reserved} reserved{left}"


def _prompt(prompt: PromptShown) -> Iterator[Shown]:
    yield from heading(f"{prompt_heading(prompt)} (#{prompt.step.sequences[0]})")
    yield Line(f"{prompt_end(prompt)} (#{prompt.step.sequences[-1]})", begin="  ")
    if prompt.as_sent is False:
        yield Line("these texts are not what was sent: their SHA-256 is not the recorded one", "yellow", begin="  ")
    if prompt.sent.tools:
        yield Line(f"tools: {', '.join(prompt.sent.tools)}", begin="  ")


def _source(one: ShownStretch) -> str:
    return f"{one.source} {entries(one.sequences)}".rstrip()


_stretches = Table[PromptShown]("", lambda prompt: prompt.shown, {
    "ROLE": "role", "STRETCH": "name", "TOKENS": "tokens", "FROM": _source, "TEXT": lambda one: _line(one.text),
})  # fmt: skip


def prompts(account: TurnAccount) -> Iterator[Shown]:
    return (shown for one in account.prompts for part in (_prompt, _stretches) for shown in part(one))


def prompts_in_full(account: TurnAccount) -> Iterator[Shown]:
    for prompt in account.prompts:
        yield from _prompt(prompt)
        for one in prompt.shown:
            yield Line(f"--- {one.role}: {one.name}, {_source(one)}", "cyan", begin="  ")
            yield from (Line(line, begin="  | ") for line in one.text.splitlines())


# --- memory, and what else the record has -----------------------------------------------------------------------------


def memory_heading(found: MemoryShown) -> str:
    said = found.said
    used = f"{format_count(len(found.shown), 'line')} shown, {said.tokens_used} of {format_count(said.budget, 'token')}"
    read = f"#{said.as_of_seq}" if said.as_of_seq is not None and said.as_of_seq >= 0 else "before its first entry"
    return {
        "read": f"memory: {used}; as of {said.as_of_ts}, {read}",
        "shown_again": f"memory: {used}; as order {short(said.shown_by)} showed them",
        "silent": f"memory: {used}; it did not answer",
        "off": "memory is off",
        "unasked": "memory was not asked: the turn's template has no stage for it",
    }[found.state]


def memory(account: TurnAccount) -> Iterator[Shown]:
    if account.memory is not None:
        yield from heading(f"{memory_heading(account.memory)} (#{account.memory.sequence})")
        yield from _memory_lines(account.memory)


def why_shown(line: LearnedLine) -> str:
    """Return why a line was not shown, or what it rests on: `tool:clock: 3 events #4 #5 #6`."""
    if line.reason:
        return f"not shown: {line.reason}"
    behind = [one for one in line.events.values() if one is not None]
    rests = f"{', '.join(line.signals)}: {format_count(len(line.events), 'event')}"
    return f"shown; rests on {rests} {entries(behind)}".rstrip()


_memory_lines = Table[MemoryShown]("", lambda found: found.lines, {
    "LINE": "artifact_id", "SCORE": "score", "TEXT": lambda one: one.text or "(erased)", "WHY": why_shown,
    "ENTRY": "sequence",
})  # fmt: skip
signals = Table[TurnAccount](
    "what this turn adds to memory; `hobus memory gate SIGNAL` says what a closed gate lacks",
    lambda account: account.signals,
    {
        "SIGNAL": "signal_id", "GATE": lambda one: "crossed" if one.crossed else "closed", "EVENTS": "events",
        "SESSIONS": "sessions", "ENTRY": "sequence",
    },
)  # fmt: skip


def facts(account: TurnAccount) -> Iterator[Shown]:
    for one in account.facts:
        yield from heading(f"{one.event}{f': {one.decision.lower()}' if one.decision else ''} (#{one.sequence})")
        yield from _values(one.says)


made_under = Table[TurnAccount](
    lambda account: f"ran under {account.config_digest}",
    lambda account: account.made_of if account.config_digest else (), MADE_UNDER, ("VERSION",),
)  # fmt: skip


_HEAD: tuple[Part[TurnAccount], ...] = (
    title, in_short, opening, beside, failures, waits, times, tools, classification, contexts,
)  # fmt: skip
_TAIL: tuple[Part[TurnAccount], ...] = (memory, signals, facts, made_under, running)
WHY: tuple[Part[TurnAccount], ...] = (*_HEAD, prompts, *_TAIL)
WHY_IN_FULL: tuple[Part[TurnAccount], ...] = (*_HEAD, prompts_in_full, *_TAIL)
MOMENT_BY_MOMENT: tuple[Part[TurnAccount], ...] = (
    title, question, moments, answer, end, lambda account: words_of(account.steps), made_under, running,
)  # fmt: skip


# --- words ------------------------------------------------------------------------------------------------------------


def _values(values: dict[str, Any]) -> Iterator[Line]:
    return (
        Line(f"{name}: {in_words(value)}", begin="  ")
        for name, value in values.items()
        if value not in ("", None, [], {})
    )


def in_words(value: Any) -> str:
    """Return a text as it is, anything else as JSON, in one line."""
    return make_printable(value if isinstance(value, str) else json_text(value)) or "nothing"


def _line(text: str | None) -> str:
    return shorten(" ".join((text or "").split()), _LINE_CHARS)
