"""`hobus why` and `hobus diff`: what a turn's models were shown and why, from the record alone."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from hobus.actors.ho3_memory.records import STREAMS
from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import named
from hobus.bus.messages.ids import shown_session
from hobus.config.snapshot import Snapshot
from hobus.launch.cli.commands.options import Output, with_home, with_json
from hobus.launch.cli.provenance_view import change_in_words, configurations_of, show_used, snapshots_of
from hobus.launch.cli.turn_account import TurnAccount, run_in, turn_account
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, next_here
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import counted, note, printable, say, styled, table, thousands
from hobus.launch.sessions.history import turns_in
from hobus.launch.sessions.journal import journals_of
from hobus.launch.sessions.provenance import Changed, Configuration, changed_between
from hobus.launch.sessions.which import no_such
from hobus.launch.sessions.why import (
    Difference,
    Evidence,
    Explanation,
    PromptShown,
    Shown,
    Span,
    differences,
    explain,
    settings_of,
)
from hobus.ledger_service.reader import EntryFilter, read_entries

_LINE_CHARS = 60
_BAR_CELLS = 24
_ENTRIES = 3
"""Of those behind one text that are named."""
_US_PER_MS = 1000
_TURN = "SES-<8 hex digits>-<n>, the n-th turn of a session; SESSION alone means its last one."


@dataclass(frozen=True, slots=True)
class _Explained:
    """A turn, and why it was answered so."""

    account: TurnAccount
    why: Explanation
    evidence: Evidence

    @property
    def name(self) -> str:
        run = self.account.turn.run
        session = shown_session(self.account.session_id)
        return f"{session}-{run}" if run else f"{session}, input {self.account.turn.input_id}"

    @property
    def configuration(self) -> Configuration | None:
        """That it was requested under; None: the record does not have it."""
        return self.evidence.configurations.get(self.why.config_digest)

    def document(self) -> dict[str, Any]:
        turn = self.account.turn
        return {"turn": self.name, "session_id": self.account.session_id} | asdict(turn) | named(asdict(self.why))


@click.command(epilog=f"TURN is {_TURN}")
@click.argument("given", metavar="TURN")
@click.option("--prompts", "in_full", is_flag=True, help="Print every prompt in full, stretch by stretch.")
@with_json
@with_home
def why(*, home: Home, given: str, in_full: bool) -> Output:
    """Explain a turn: what its models were shown, where that came from, and what it cost.

    Each fact names its entry (#n) in the record: `hobus ledger show #n` prints it. Works with and without a running
    cluster.
    """
    found = _explained(home, given)
    return Output(found.document(), lambda: _show(found, in_full=in_full))


@click.command(epilog=f"TURN_A and TURN_B are {_TURN}")
@click.argument("before", metavar="TURN_A")
@click.argument("after", metavar="TURN_B")
@with_json
@with_home
def diff(*, home: Home, before: str, after: str) -> Output:
    """Show what differs between the prompts that two turns were answered from.

    Stretch by stretch: the agent's words, memory, history, context, message; and the settings and governed files that
    they ran under, by digest: `hobus asset show DIGEST` prints each version.
    """
    one, other = _explained(home, before), _explained(home, after)
    left, right = settings_of(one.why), settings_of(other.why)
    settings = {name: {"before": left[name], "after": right[name]} for name in left if left[name] != right[name]}
    found = differences(one.why, other.why)
    assets = changed_between(one.configuration, other.configuration)
    document = {
        "before": one.name,
        "after": other.name,
        "settings": settings,
        "assets": [asset._asdict() for asset in assets],
        "stretches": [asdict(difference) for difference in found],
    }
    return Output(document, lambda: _show_differences(one.name, other.name, settings, assets, found))


# --- reading ----------------------------------------------------------------------------------------------------------


def _explained(home: Home, given: str) -> _Explained:
    """Raises CommandError where there is no such turn."""
    session, number = run_in(given) or (given, None)
    session_id = asyncio.run(_meant(home, session))
    entries = list(read_entries(home.ledger, EntryFilter(session=session_id), with_bodies=True))
    if number is None:
        turns = turns_in(entries)
        if not turns:
            raise UsageFault(
                f"{shown_session(session_id)} has no turn yet", hint=next_here(f"ask --session {given} TEXT")
            )
        number = str(turns[-1].run or turns[-1].input_id)
    account = turn_account(home, session_id, number)
    memory = [
        one for stream in STREAMS for one in read_entries(home.ledger, EntryFilter(stream=stream), with_bodies=True)
    ]
    found = Evidence(
        turn=account.entries,
        session=entries,
        memory=memory,
        snapshots=_snapshots(home),
        configurations=configurations_of(home),
    )
    return _Explained(account, explain(found), found)


async def _meant(home: Home, given: str) -> str:
    async with journals_of(home) as journals:
        session_id = await journals.named(given)
        if not (await journals.newest(session_id, 1))[0]:
            raise no_such(session_id, called="TURN")
        return session_id


def _snapshots(home: Home) -> dict[str, Snapshot]:
    """Every configuration that the record has, by digest; one of another version is left out, and that is said."""
    found: dict[str, Snapshot] = {}
    for entry in snapshots_of(home):
        body = entry.bodies[0] if entry.bodies else None
        try:
            snapshot = None if body is None else Snapshot.from_bytes(body)
        except ConfigError as error:
            note(f"#{entry.sequence}: {error}")
            continue
        if snapshot is not None:
            found[snapshot.digest] = snapshot
    return found


# --- printing ---------------------------------------------------------------------------------------------------------


def _show(found: _Explained, *, in_full: bool) -> None:
    turn, explained = found.account.turn, found.why
    say(styled(f"{found.name}: {turn.outcome} {turn.code}".rstrip(), None, bold=True))
    say(f"  < {printable(_line(turn.text)) if turn.text is not None else '(not in the record)'}")
    say(f"  > {printable(_line(turn.reply or ''))}")
    for said in explained.missing:
        note(said)
    _show_spans(explained.spans)
    _show_classification(explained)
    for prompt in explained.prompts:
        _show_prompt(prompt, in_full=in_full)
    _show_memory(explained)
    _show_facts(explained)
    if turn.outcome == "running":
        note("the turn is not over yet")


def _heading(text: str) -> None:
    say()
    say(styled(text, None, bold=True))


def _show_spans(spans: Sequence[Span]) -> None:
    """A waterfall: each bar begins and ends where its work did, in the time of the whole turn."""
    if not spans:
        return
    begin = min(one.begin_us for one in spans)
    end = max((one.end_us or one.begin_us for one in spans), default=begin)
    whole = max(1, end - begin)
    _heading(f"where {thousands(round(whole / _US_PER_MS))} ms went")
    rows: list[tuple[str, ...]] = []
    for one in spans:
        until = end if one.end_us is None else one.end_us
        first = (one.begin_us - begin) * _BAR_CELLS // whole
        cells = max(1, round((until - one.begin_us) * _BAR_CELLS / whole))
        bar = (" " * min(first, _BAR_CELLS - 1) + "#" * cells)[:_BAR_CELLS]
        took = "not ended" if one.end_us is None else f"{thousands(round((until - one.begin_us) / _US_PER_MS))} ms"
        rows.append((one.what, one.order, bar, took, _entries(one.sequences)))
    table(("WHAT", "ORDER", "WHEN", "TOOK", "ENTRIES"), rows)


def _show_classification(explained: Explanation) -> None:
    if explained.classified is None:
        return
    _heading(f"the message was taken as (#{explained.classified})")
    for name, value in (explained.classification or {"nothing": "the classification failed"}).items():
        say(f"  {name}: {printable(value if isinstance(value, str) else json_text(value))}")


def _show_prompt(prompt: PromptShown, *, in_full: bool) -> None:
    _heading(
        f"prompt of order {prompt.order} to {prompt.provider_id}/{prompt.model_id} "
        f"under {prompt.contract_id} (#{prompt.sequence})"
    )
    if prompt.answered is None:
        say("  not answered")
    else:
        price = "price unknown" if prompt.cost_usd is None else f"${prompt.cost_usd:.4f}"
        left = (
            ""
            if prompt.budget_remaining is None
            else f", {thousands(prompt.budget_remaining)} tokens left in the session"
        )
        say(
            f"  {thousands(prompt.input_tokens or 0)} + {counted(prompt.output_tokens or 0, 'token')} "
            f"({thousands(prompt.cached_tokens or 0)} cached), {price}, {thousands(prompt.latency_ms or 0)} ms; "
            f"{thousands(prompt.reserved_tokens)} reserved{left} (#{prompt.answered})"
        )
    if prompt.tools:
        say(f"  tools: {', '.join(map(printable, prompt.tools))}")
    if in_full:
        for one in prompt.shown:
            say(styled(f"  --- {one.role}: {one.name}, {one.source} {_entries(one.sequences)}".rstrip(), "cyan"))
            for line in one.text.splitlines():
                say(f"  | {printable(line)}")
        return
    rows = [(one.role, one.name, thousands(one.tokens), _source(one), _line(one.text)) for one in prompt.shown]
    table(("ROLE", "STRETCH", "TOKENS", "FROM", "TEXT"), rows)


def _source(one: Shown) -> str:
    return f"{one.source} {_entries(one.sequences)}".rstrip()


def _show_memory(explained: Explanation) -> None:
    memory = explained.memory
    if memory is not None:
        read = "it did not answer" if memory.as_of_seq is None else f"as of {memory.as_of_ts}, #{memory.as_of_seq}"
        used = f"{thousands(memory.tokens_used)} of {counted(memory.budget, 'token')}"
        _heading(f"memory: {counted(len(memory.shown), 'line')} shown, {used}; {read} (#{memory.sequence})")
        for line in memory.shown:
            score = "" if line.score is None else f", score {line.score:.3f}"
            say(f"  shown     {line.artifact_id}{score}: {printable(line.line)}{_made(line.sequence)}")
            behind = [one["sequence"] for one in line.events if one["sequence"] is not None]
            if line.signals:
                events = f"{counted(len(line.events), 'event')}{_made(*behind)}"
                say(f"            rests on {', '.join(line.signals)}: {events}")
        for left in memory.left_out:
            words = "" if left.line is None else f" {printable(left.line)};"
            say(f"  not shown {left.artifact_id}:{words} {left.reason}")
    if explained.gates:
        _heading("what this turn adds to memory")
        rows = [
            (one.signal_id, "crossed" if one.crossed else "closed", one.reason, f"#{one.sequence}")
            for one in explained.gates
        ]
        table(("SIGNAL", "GATE", "WHY", "ENTRY"), rows)


def _show_facts(explained: Explanation) -> None:
    for one in (*explained.beside, *explained.quality):
        _heading(f"{one.event}{f': {one.decision.lower()}' if one.decision else ''} (#{one.sequence})")
        for name, value in one.says.items():
            if value not in ("", None, [], {}):
                say(f"  {name}: {printable(value if isinstance(value, str) else json_text(value))}")
    if explained.config_digest:
        _heading(f"ran under {explained.config_digest}")
        show_used(explained.made_of)


def _show_differences(
    before: str,
    after: str,
    settings: dict[str, dict[str, Any]],
    assets: Sequence[Changed],
    found: Sequence[Difference],
) -> None:
    say(styled(f"{before} -> {after}", None, bold=True))
    for name, values in settings.items():
        say(f"  {name}: ", styled(_value(values["before"]), "red"), " -> ", styled(_value(values["after"]), "green"))
    for asset in assets:
        was, now = change_in_words(asset)
        say(f"  {printable(asset.path)}: ", styled(was, "red"), " -> ", styled(now, "green"))
    for one in found:
        _heading(one.name)
        left, right = (one.before or "").splitlines(), (one.after or "").splitlines()
        for line in list(difflib.unified_diff(left, right, n=1, lineterm=""))[2:]:
            colour = {"-": "red", "+": "green"}.get(line[:1])
            say("  ", styled(printable(line), colour))
    if not settings and not assets and not found:
        note("nothing differs")


def _value(value: Any) -> str:
    return printable(value if isinstance(value, str) else json_text(value)) or "nothing"


def _entries(sequences: Sequence[int]) -> str:
    """The numbers of at most three entries; more are counted."""
    shown = " ".join(f"#{one}" for one in sequences[:_ENTRIES])
    return shown if len(sequences) <= _ENTRIES else f"{shown} and {counted(len(sequences) - _ENTRIES, 'other')}"


def _made(*sequences: int | None) -> str:
    known = [one for one in sequences if one is not None]
    return f" ({_entries(known)})" if known else ""


def _line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _LINE_CHARS else f"{line[: _LINE_CHARS - 1]}…"
