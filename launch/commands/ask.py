"""`hobus ask`: one message, one answer."""

from __future__ import annotations

import asyncio
import sys

import click
from pydantic import ValidationError

from bus.clock import SystemClock
from bus.errors import VERDICT_CODES
from bus.messages.ids import shown_session
from bus.messages.session import ProcessTurn, TurnResult
from launch import exit_codes, run_file
from launch.client import connected, place_of
from launch.commands.options import cluster_gone, running, seconds_to_wait, with_home
from launch.endpoints import Place
from launch.errors import CommandError
from launch.home import Home, holder
from launch.output import note, say, styled
from launch.turns import Watch, check_text, full_session_id, process_turn, session_of


@click.command()
@click.argument("text")
@click.option("--session", metavar="ID", help="Continue this session (its id or an unambiguous prefix).")
@click.option("--timeout", "timeout_s", type=float, help="Seconds to wait.")
@click.option("--input-id", metavar="ID", help="Idempotency key of this message; the same key gets the same answer.")
@click.option("--json", "as_json", is_flag=True, help="Print the TurnResult as one JSON object.")
@with_home
def ask(  # noqa: PLR0913 - one per option
    *, home: Home, text: str, session: str | None, timeout_s: float | None, input_id: str | None, as_json: bool
) -> int:
    """Ask the agent one question and print the answer; TEXT `-` reads standard input.

    Exit code 0 for an answer (a degraded one says so on stderr), 1 for a failed turn, 5 for a refused one.
    """
    place = place_of(home, running(home))
    if text == "-":
        # One byte beyond the limit is enough to know that it is too long.
        text = sys.stdin.buffer.read(place.snapshot.config.host.prompt_max_bytes + 1).decode("utf-8", "surrogateescape")
    config = place.snapshot.config
    wait_s = seconds_to_wait(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    check_text(text, place.snapshot.config.host)
    result = asyncio.run(_ask(place, text, session, wait_s, input_id or SystemClock().new_id()))
    if as_json:
        say(result.model_dump_json())
    elif result.response:
        say(result.response)
    return _outcome(result, quiet=as_json)


async def _ask(place: Place, text: str, session: str | None, timeout_s: float, input_id: str) -> TurnResult:
    config = place.snapshot.config
    session_id = None if session is None else await _session_id(place, session)
    async with connected(place, "door") as bus:
        try:
            turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text)
        except ValidationError:
            raise CommandError(
                "--input-id: expected 1 to 128 letters, digits and ._:@-", exit_code=exit_codes.USAGE
            ) from None
        return await process_turn(
            bus,
            turn,
            timeout_s=timeout_s,
            retry_interval_s=config.host.retry_interval_ms / 1000,
            is_hopeless=lambda: not _may_answer(place.home),
            watch=Watch(lambda: cluster_gone(place.home), config.launcher.ready_poll_ms / 1000),
        )


async def _session_id(place: Place, given: str) -> str:
    """The full id; a prefix is looked up in the record, which a door may not read."""
    session_id = full_session_id(given)
    if session_id is not None:
        return session_id
    async with connected(place, "operator") as bus:
        return await session_of(bus, given, timeout_s=place.snapshot.config.launcher.client_timeout_ms / 1000)


def _may_answer(home: Home) -> bool:
    """Whether the launcher lives and has not given the host up."""
    run = run_file.read(home.run_file) if holder(home) is not None else None
    return run is not None and any(row.role == "host" and row.state != "failed" for row in run.children)


def _outcome(result: TurnResult, *, quiet: bool) -> int:
    """The exit code; anything but a success is said on stderr, where a pipe does not swallow it."""
    where = shown_session(result.session_id)
    if result.outcome == "success":
        if not quiet and sys.stderr.isatty():
            note(
                styled(
                    f"{where} · {result.elapsed_ms} ms · {result.cost.total_tokens} tokens",
                    "bright_black",
                    to_stderr=True,
                )
            )
        return exit_codes.OK
    why = f" ({result.code})" if result.code else ""
    if result.outcome == "degraded":
        note(styled(f"degraded{why}: answered without the supervisor; {where}", "yellow", to_stderr=True))
        return exit_codes.OK
    note(styled(f"error{why}: {where}, input {result.input_id}", "red", to_stderr=True))
    return exit_codes.REFUSED if result.code in VERDICT_CODES else exit_codes.FAILED
