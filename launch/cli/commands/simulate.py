"""`hobus simulate`: the whole cluster in one process, in virtual time, under seeded faults, watched at every event."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import asdict

import click

from hobus.bus.clock import SystemClock
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.console.interrupt import INTERRUPTED, is_interrupt
from hobus.launch.console.output import as_json, format_count, format_thousands, note, say, style, tell_progress
from hobus.launch.lab.simulation import faults
from hobus.launch.lab.simulation.many import SeedOptions, SeedTally, run_seeds, silence_logs
from hobus.launch.lab.simulation.plan import SeedPlan, make_plan
from hobus.launch.lab.simulation.run import SeedVerdict
from hobus.launch.lab.simulation.run import simulate as run_one

_RANGE = re.compile(r"(\d{1,12})\.\.(\d{1,12})")
_TURNS = 3


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="One seed: show events and verdict.")
@click.option("--seeds", "range_", metavar="A..B", help="Seeds from A up to B, without B.")
@click.option("--turns", type=click.IntRange(1, 200), default=_TURNS, show_default=True, help="Number of inputs.")
@click.option("--sessions", type=click.IntRange(1, 50), help="Number of sessions (default: drawn, 1 or 2).")
@click.option(
    "--faults", "faults_", metavar="LIST", default="all", show_default=True,
    help="all (each seed draws some), none, or names with values, e.g. loss=0.02,crash=2,delay=3ms.",
)  # fmt: skip
@click.option("--until", type=click.IntRange(min=1), metavar="EVENT", help="With --seed: stop after this event.")
@click.option("--jobs", type=click.IntRange(1, 256), help="With --seeds: processes (default: one per core).")
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def simulate(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    seed: int | None,
    range_: str | None,
    turns: int,
    sessions: int | None,
    faults_: str,
    until: int | None,
    jobs: int | None,
    as_json_: bool,
) -> int:
    """Run the whole cluster in one process, in virtual time, under seeded faults, and check it at every event.

    It runs the shipped actors on a simulated network, disk and clock. The same seed and options give the same bytes on
    any machine; compare the digest. The first broken invariant ends a run and is reported with the command that replays
    it. It uses the configuration of --home, if any, touches no cluster, and writes nothing.

    Exit codes: 0 every invariant held, 1 one broke, 2 usage, 130 interrupted (with the report so far).
    """
    wanted = SeedOptions(turns, sessions, faults.parse(faults_), find_layers(home))
    many = _parse_seeds(seed, range_)
    if many is None:
        plan = make_plan(seed or 0, turns=turns, sessions=sessions, faults=wanted.faults)
        return _show_one(plan, wanted, until, as_json_=as_json_)
    if until is not None:
        raise UsageFault("--until is for one seed", hint=_replay(many[0], wanted))
    return _show_many(many, wanted, jobs or os.cpu_count() or 1, as_json_=as_json_)


def _parse_seeds(seed: int | None, range_: str | None) -> range | None:
    """Return the range of many seeds; None: one seed."""
    if range_ is None:
        return None
    match = _RANGE.fullmatch(range_)
    if match is None or int(match.group(1)) >= int(match.group(2)):
        raise UsageFault(f"--seeds {range_} is not a range A..B", hint=format_next_here("simulate --seeds 0..1000"))
    if seed is not None:
        raise UsageFault("--seeds takes no --seed", hint=format_next_here(f"simulate --seeds {range_}"))
    return range(int(match.group(1)), int(match.group(2)))


def _replay(seed: int, wanted: SeedOptions, event: int | None = None) -> str:
    parts = [f"simulate --seed {seed}"]
    if wanted.turns != _TURNS:
        parts.append(f"--turns {wanted.turns}")
    if wanted.sessions is not None:
        parts.append(f"--sessions {wanted.sessions}")
    if not wanted.faults.is_all:
        parts.append(f"--faults {wanted.faults}")
    if event is not None:
        parts.append(f"--until {event}")
    return format_next_here(" ".join(parts))


# --- one seed ---------------------------------------------------------------------------------------------------------


def _show_one(plan: SeedPlan, wanted: SeedOptions, until: int | None, *, as_json_: bool) -> int:
    with silence_logs():
        verdict = run_one(plan, layers=wanted.layers, until=until)
    code = exit_codes.OK if verdict.holds else exit_codes.FAILED
    if as_json_:
        more = {"faults": plan.faults, "token_limit": plan.token_limit, "replay": _replay(plan.seed, wanted)}
        say(as_json({**asdict(verdict), **more}))
        return code
    drawn = ", ".join(f"{name} {faults.format_fault(name, value)}" for name, value in plan.faults.items()) or "none"
    limit = plan.token_limit
    what = ", ".join(
        [
            f"{format_count(wanted.turns, 'input')} in {format_count(len(plan.sessions), 'session')}",
            format_count(plan.ho1, "executor"),
            format_count(plan.ho2, "supervisor"),
            f"a model that thinks {format_thousands(plan.thinking_ms)} ms",
            *([] if limit is None else [f"an enforced budget of {format_thousands(limit)} tokens a session"]),
        ]
    )
    say(f"seed {plan.seed}: {what}")
    say(f"faults: {drawn}")
    say()
    for at, text in verdict.story:
        say(f"{at:12.6f} s  {text}")
    say()
    _say_verdict(verdict, wanted)
    return code


def _say_verdict(verdict: SeedVerdict, wanted: SeedOptions) -> None:
    if not verdict.holds or verdict.stopped:
        say(f"the events before {'it' if not verdict.holds else 'this one'}:")
        for line in verdict.last:
            say(f"  {line}")
        say()
    answers = ", ".join(f"{name} {outcome}" for name, outcome in verdict.answers.items()) or "none"
    say(f"{_describe_verdict(verdict)} in {verdict.virtual_s:g} virtual seconds")
    say(f"answers: {answers}")
    if verdict.stopped:
        say(f"stopped after event {verdict.event}")
    elif verdict.holds:
        say(style("holds", "green"), ": every invariant, at every event")
    else:
        say(style("BROKEN", "red"), f" at event {verdict.event}: {verdict.broken}")
        say(f"  replay it: {_replay(verdict.seed, wanted, verdict.event)}")
    say(f"digest {verdict.digest}")


def _describe_verdict(of: SeedVerdict | SeedTally) -> str:
    parts = (
        format_count(of.events, "event"),
        format_count(of.entries, "entry", "entries"),
        format_count(of.strikes, "strike"),
    )
    return ", ".join(parts)


# --- many -------------------------------------------------------------------------------------------------------------


def _show_many(seeds: range, wanted: SeedOptions, jobs: int, *, as_json_: bool) -> int:
    tally, clock = SeedTally(), SystemClock()
    began = clock.monotonic()
    is_interrupted = False
    try:
        with closing(run_seeds(seeds, wanted, jobs=min(jobs, len(seeds)))) as verdicts:
            tell = tell_progress(clock.monotonic, "seeds run:", len(seeds))
            for verdict, cpu_s in verdicts:
                tally.add(verdict, cpu_s)
                tell(tally.seeds)
                if not verdict.holds:
                    note(f"seed {verdict.seed}: {verdict.broken}")
                    note(f"  replay it: {_replay(verdict.seed, wanted)}")
    except BaseException as error:
        if not is_interrupt(error):
            raise
        is_interrupted = True  # what was found until then was paid for, and is told
    elapsed_s = clock.monotonic() - began
    if as_json_:
        say(as_json(_make_document(tally, seeds, wanted, jobs, elapsed_s)))
    else:
        _say_tally(tally, seeds, wanted, elapsed_s)
    if is_interrupted:
        note(f"interrupted after {format_thousands(tally.seeds)} of {format_count(len(seeds), 'seed')}")
        return INTERRUPTED
    return exit_codes.FAILED if tally.failed else exit_codes.OK


def _make_document(
    tally: SeedTally, seeds: range, wanted: SeedOptions, jobs: int, elapsed_s: float
) -> dict[str, object]:
    return {
        "first": seeds.start,
        "seeds": tally.seeds,
        "turns": wanted.turns,
        "faults": str(wanted.faults),
        "events": tally.events,
        "entries": tally.entries,
        "strikes": tally.strikes,
        "virtual_s": round(tally.virtual_s),
        "outcomes": dict(sorted(tally.outcomes.items())),
        "broken": [
            {"seed": one.seed, "broken": one.broken, "replay": _replay(one.seed, wanted)} for one in tally.failed
        ],
        "jobs": jobs,
        "cpu_s": round(tally.cpu_s, 1),
        "elapsed_s": round(elapsed_s, 1),
    }


def _say_tally(tally: SeedTally, seeds: range, wanted: SeedOptions, elapsed_s: float) -> None:
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(tally.outcomes.items(), key=lambda one: -one[1]))
    which = f"{format_thousands(tally.seeds)} of {format_count(len(seeds), 'seed')}"
    which += f" from {seeds.start}, faults {wanted.faults}"
    say(f"{which}: {_describe_verdict(tally)}, {tally.virtual_s:,.0f} virtual seconds")
    say(f"answers: {outcomes or 'none'}")
    say(f"{tally.cpu_s / max(1, tally.seeds):.3f} s of CPU per seed, {tally.seeds / elapsed_s:.1f} seeds per second")
    if not tally.failed:
        if tally.seeds:
            say(style("holds", "green"), f": every invariant, at every event of {format_count(tally.seeds, 'seed')}")
        return
    say(style("BROKEN", "red"), f" in {format_count(len(tally.failed), 'seed')}:")
    for one in tally.failed:
        say(f"  {one.broken}")
        say(f"    replay it: {_replay(one.seed, wanted, one.event)}")
