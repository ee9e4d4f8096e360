"""`hobus why` and `hobus diff`: what a turn's models were shown and why, from the record alone."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import click

from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cli.provenance_view import change_in_words, read_named_configurations
from hobus.launch.cli.turn_reading import TURN, read_account, run_in
from hobus.launch.cli.turn_view import WHY, WHY_IN_FULL, in_words
from hobus.launch.cluster.home import Home
from hobus.launch.console.output import make_printable, note, say, style
from hobus.launch.console.view import print_view
from hobus.launch.sessions.account import PromptDifference, TurnAccount, differences, settings_of
from hobus.launch.sessions.journal import find_sessions
from hobus.launch.sessions.provenance import ChangedAsset, list_changed


@click.command(epilog=f"TURN is {TURN}")
@click.argument("given", metavar="TURN")
@click.option("--prompts", "in_full", is_flag=True, help="Print every prompt in full, part by part.")
@with_json
def why(*, home: Home, given: str, in_full: bool) -> Output:
    """Explain a turn: what its models were shown, its sources, and its cost.

    Each fact names its entry in the record, such as #12, which `hobus ledger show 12 --bodies` prints. It needs no
    running cluster.
    """
    (found,) = _accounts(home, given)
    return Output(found.document, lambda: print_view(WHY_IN_FULL if in_full else WHY, found))


@click.command(epilog=f"TURN_A and TURN_B are {TURN}")
@click.argument("before", metavar="TURN_A")
@click.argument("after", metavar="TURN_B")
@with_json
def diff(*, home: Home, before: str, after: str) -> Output:
    """Show the differences between the prompts of two turns.

    It compares each part (instructions, memory, history, context, message), and the settings and governed files by
    digest; `hobus asset DIGEST` prints each version.
    """
    found = compare_turns(home, *_accounts(home, before, after))
    return Output(make_document(found), lambda: _show_differences(found))


class Compared(NamedTuple):
    """What differs between two turns."""

    before: str
    after: str
    settings: dict[str, dict[str, Any]]
    assets: Sequence[ChangedAsset]
    stretches: Sequence[PromptDifference]
    figures: dict[str, dict[str, Any]]
    """How each ended, and what it took."""


def compare_turns(home: Home, one: TurnAccount, other: TurnAccount) -> Compared:
    """Return settings, governed files, and stretches of the prompts that they were answered from."""
    left, right = settings_of(one), settings_of(other)
    known = read_named_configurations(home, (one.config_digest, other.config_digest))
    settings = {name: {"before": left[name], "after": right[name]} for name in left if left[name] != right[name]}
    assets = list_changed(known.get(one.config_digest), known.get(other.config_digest))
    figures = {each.name: {"outcome": each.turn.ended} | asdict(each.figures) for each in (one, other)}
    return Compared(one.name, other.name, settings, assets, differences(one, other), figures)


def make_document(found: Compared) -> dict[str, Any]:
    return found._asdict() | {
        "assets": [asset._asdict() for asset in found.assets],
        "stretches": [asdict(difference) for difference in found.stretches],
    }


def diff_lines(one: PromptDifference) -> list[str]:
    """Return lines as `diff -u` has them, without its head."""
    left, right = (one.before or "").splitlines(), (one.after or "").splitlines()
    return list(difflib.unified_diff(left, right, n=1, lineterm=""))[2:]


def _accounts(home: Home, *given: str) -> list[TurnAccount]:
    """Return the accounts of these turns. Raises CommandError where there is no such turn."""
    named = [run_in(one) or (one, None) for one in given]
    sessions = asyncio.run(find_sessions(home, [session for session, _ in named], called="TURN"))
    return [read_account(home, one, number) for one, (_, number) in zip(sessions, named, strict=True)]


def _show_differences(found: Compared) -> None:
    say(style(f"{found.before} -> {found.after}", None, bold=True))
    for name, values in found.settings.items():
        was, now = in_words(values["before"]), in_words(values["after"])
        say(f"  {name}: ", style(was, "red"), " -> ", style(now, "green"))
    for asset in found.assets:
        was, now = change_in_words(asset)
        say(f"  {make_printable(asset.path)}: ", style(was, "red"), " -> ", style(now, "green"))
    for one in found.stretches:
        say()
        say(style(one.name, None, bold=True))
        for line in diff_lines(one):
            colour = {"-": "red", "+": "green"}.get(line[:1])
            say("  ", style(make_printable(line), colour))
    if not found.settings and not found.assets and not found.stretches:
        note("nothing differs")
