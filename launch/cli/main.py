"""The command `hobus`: a group whose commands are imported only when they run, so that `--help` is fast.

Nothing but click and the standard library is imported here; a test holds that.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from contextvars import copy_context
from typing import Any

import click
from click.shell_completion import CompletionItem

from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, as_command_error, make_os_fault, was_given
from hobus.launch.console.interrupt import INTERRUPTED, end_at_interrupt, is_interrupt
from hobus.launch.console.output import (
    as_asked,
    as_json,
    escape_unencodable,
    go_silent,
    join_styled,
    note,
    say_prose,
    style,
    wants_debug,
    wants_json,
)

COMMANDS: dict[str, str] = {
    "demo": "Watch a temporary cluster answer three turns and survive a kill.",
    "up": "Start the cluster of a home.",
    "dev": "Start the cluster of a Python file, and load its changes while it runs.",
    "init": "Copy the governed files into the home, to change them there.",
    "doctor": "Check this machine, home and cluster, and say how to fix what is wrong.",
    "ps": "List the processes and their states.",
    "logs": "Show and follow the logs of the processes.",
    "scale": "Run more or fewer processes of a role.",
    "reload": "Apply the configuration on disk to a running cluster.",
    "restart": "Restart one process after it has finished its work.",
    "drain": "Let one process finish its work and stop.",
    "down": "Drain and stop the cluster.",
    "ask": "Ask the agent one question and print the answer.",
    "agent": "List agents, and show what each may do.",
    "chat": "Talk with the agent, in a terminal or over a pipe.",
    "session": "List, show, steer, pause, cancel and replay sessions.",
    "why": "Explain a turn: what its models were shown, and its sources.",
    "diff": "Show what differs between the prompts of two turns.",
    "asset": "Print a version of a governed file, by digest.",
    "console": "Watch and control the cluster in a browser.",
    "tap": "Watch the frames on the bus.",
    "request": "Send one typed message as the operator.",
    "tools": "List tools, where they come from, and who may use them.",
    "memory": "Show what an agent has learned and why; switch it off.",
    "ledger": "Show, follow and verify the record.",
    "provider": "List, check and add providers of models.",
    "cost": "Show tokens and cost of models, from the record.",
    "budget": "Show token budgets: limit, used, reserved, remaining.",
    "breaker": "Show circuit breakers: which models are not called now.",
    "token": "Create, list and revoke tokens for workers on other hosts and keys for HTTP clients.",
    "worker": "Run a worker for a cluster on another host.",
    "workers": "Run workers on SLURM, Kubernetes or Ray.",
    "keys": "List, rotate and revoke keys of workers on other hosts and of HTTP clients.",
    "cell": "Shard people over several clusters, and move them.",
    "drill": "Kill a process at an exact moment of a turn, and check the guarantees.",
    "simulate": "Run the whole cluster in virtual time, under seeded faults.",
    "package": "Build, sign, install, upgrade and remove packages of agents.",
    "config": "Check, show and change the configuration.",
    "registry": "List frameworks, invariants, specs, packages, and the owners of files.",
    "gates": "Check governed files and record, as every start does.",
}
"""Name -> its line in `hobus --help`."""

_FAMILIES = {
    **dict.fromkeys(("scale", "restart", "drain", "down"), "operating"),
    **dict.fromkeys(("budget", "breaker"), "limits"),
    "diff": "why",
    **dict.fromkeys(("token", "keys"), "access"),
}
"""Name -> the module in `commands/` that has the command, where that is not its own."""

_PRIVATE = 0o077
"""Of every file and directory that a command, or a process that it starts, makes: for this user alone."""


class LazyGroup(click.Group):
    """A group that imports a command when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return names in the order of the table: what a newcomer needs first stands first."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # what is loaded stays: to look through it for garbage takes a tenth of a short command
        module = importlib.import_module(f"hobus.launch.cli.commands.{_FAMILIES.get(cmd_name, cmd_name)}")
        gc.enable()
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raises UsageError, with the nearest name, for an unknown one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - costs as much as a tenth of `--help`

            near = get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}." + "".join(f" Did you mean {one!r}?" for one in near))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands that begin so, none of them imported; else complete options, as every command does."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"hobus {__version__}")
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="State directory (default: $HOBUS_HOME, else .hobus).")
@click.option("--debug", is_flag=True, help="Show tracebacks and the command's own log.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
@click.pass_context
def hobus(ctx: click.Context, home: str | None, debug: bool) -> None:
    """Run an LLM agent as a message-bus actor system: start it, talk to it, watch it, prove what it did."""
    ctx.obj = {"home": home, "debug": debug}


def main(arguments: list[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    if sys.stdout is None:
        # Before anything is asked or opened: the next file to be opened would get its number, and what is printed.
        closed = "standard output is closed: nobody could read the answer, and nothing was done"
        sys.exit(_say(CommandError(closed, hint="run it with its output redirected, to /dev/null for none")))
    escape_unencodable()
    os.umask(_PRIVATE)
    code = _flush(run(sys.argv[1:] if arguments is None else arguments))
    end_at_interrupt()  # what follows is the interpreter's own end
    gc.freeze()  # which else looks for garbage in all that was loaded: a quarter of a short command
    sys.exit(code)


def _flush(code: int) -> int:
    """Print what is still buffered; return the command's exit code, or that of an answer which cannot be printed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        go_silent()
        code = code or _explain(error)  # else it was told
    try:
        if sys.stderr is not None:  # closed by who started the command
            sys.stderr.flush()
    except OSError:
        go_silent(to_stderr=True)
    return code


def run(arguments: list[str]) -> int:
    """Return the exit code of one command; tell a user's mistake in a sentence. It leaves no home behind."""
    return copy_context().run(_run, arguments)


def _run(arguments: list[str]) -> int:
    as_asked(arguments)
    was_given(arguments)
    try:
        result: Any = hobus.main(args=arguments, prog_name="hobus", standalone_mode=False)
    except SystemExit:
        # Without its standalone mode click exits by itself in one case alone: the reader of a pipe went away.
        return _explain(BrokenPipeError())
    except BaseException as error:  # noqa: BLE001 - the last place that can say anything in a sentence
        if wants_debug():
            note(traceback.format_exc().rstrip())
        if is_interrupt(error):
            note("interrupted")
            return INTERRUPTED
        if isinstance(error, click.UsageError) and error.ctx is None:  # click does not say whose option lacks a value
            error.ctx = _find_context(arguments)
        return _explain(_unwrap(error))
    return result if isinstance(result, int) else exit_codes.OK


def _find_context(arguments: list[str]) -> click.Context:
    """Return the context of the command that these words name."""
    context = click.Context(hobus, info_name="hobus")
    for word in arguments:
        command = context.command
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        context = click.Context(found, context, info_name=word) if found is not None else context
    return context


def _unwrap(error: BaseException) -> BaseException:
    """Return the fault itself, where a task group wrapped a single one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _explain(error: BaseException) -> int:
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        note(error.format_message().rstrip())  # the help itself
        return exit_codes.USAGE
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of a pipe went away (`hobus tap | head`): that is an end, not a failure. What is still
        # buffered must not raise once more at exit.
        go_silent()
        return exit_codes.OK
    if isinstance(error, click.ClickException):
        return _say(_make_usage_fault(error))
    if isinstance(error, CommandError):
        return _say(error)
    if isinstance(error, OSError):
        return _say(make_os_fault(error, doing="the operating system refused"))
    return _say(
        as_command_error(error) or CommandError(_describe_defect(error), hint="run the same command again with --debug")
    )


def _make_usage_fault(error: click.ClickException) -> UsageFault:
    """Return what click says of a mistake, in the form of all errors: a small first letter, and where the help is."""
    text = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption) and error.option_name[1:2].isdigit():
        text += "; a value below zero stands behind --, after all options"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return UsageFault(text[:1].lower() + text[1:], hint=f"{ctx.command_path if ctx is not None else 'hobus'} --help")


def _describe_defect(error: BaseException) -> str:
    """Return class and place of a defect of the program; its text may hold what a user wrote, and is not said."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {'/'.join(frames[-1].filename.split('/')[-2:])}:{frames[-1].lineno}" if frames else ""
    return f"unexpected {type(error).__name__}{place}: this is a defect of hobus"


def _say(error: CommandError) -> int:
    """Print on standard error, which a reader of the answer does not see; for programs as the last line, in JSON."""
    if wants_json():
        facts = {"code": error.code, "message": error.message, "hint": error.hint or None, "exit_code": error.exit_code}
        note(as_json({"error": facts}))
        return error.exit_code
    first, *more = error.message.split("\n")
    say_prose(join_styled(style("error:", "red", bold=True, to_stderr=True), " "), first, to_stderr=True)
    for line in more:
        text = line.lstrip(" -")  # below what begins a list, or a place that is pointed at
        say_prose(line[: len(line) - len(text)], text, to_stderr=True)
    if error.hint:
        note(f"  next: {error.hint}")
    return error.exit_code


if __name__ == "__main__":
    main()
