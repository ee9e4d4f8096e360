"""The command group: fast help, errors in sentences, exit codes."""

import errno
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import click
import pytest

import hobus
from bench.builders import shipped_snapshot
from hobus.bus.errors import BusError, ConfigError, LedgerError, MemoryFault, SessionFault
from hobus.launch.cli import main as cli
from hobus.launch.cli.commands.cluster_options import choose_timeout, make_overrides
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, as_command_error, format_next_command
from hobus.launch.console.output import note
from hobus.launch.launcher.children import make_environment


def test_help_imports_nothing_heavy():
    """`hobus --help` loads neither sockets nor models nor terminal decoration, so that it is fast."""
    program = (
        "import sys; from hobus.launch.cli.main import run; code = run(['--help']); "
        "heavy = [m for m in ('zmq','pydantic','rich','prompt_toolkit','wcwidth','jsonschema_rs','structlog','msgpack','msgspec','asyncio','psutil') if m in sys.modules]; "
        "print(code, heavy)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=make_environment()
    )
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "tap" in done.stdout and done.stderr == ""


READS_FILES = ("hobus.config.load", "hobus.config.assets", "hobus.config.snapshot")
READS_RECORDS = ("hobus.bus.record.catalog", "hobus.actors", "hobus.ledger_service.reader")
SHOWS = ("structlog", "rich", "importlib.metadata")
OWNS_SESSIONS = ("hobus.actors.ho2_supervisor.session.snapshot", "hobus.actors.ho2_supervisor.turn")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("ps", (*READS_FILES, *READS_RECORDS, *SHOWS, "hobus.bus.messages.session", "hobus.bus.messages.memory")),
        ("limits", (*READS_FILES, *READS_RECORDS, *SHOWS, "hobus.bus.messages.memory", "hobus.bus.messages.ledger")),
        (
            "ask",
            (
                *READS_FILES,
                *READS_RECORDS,
                "structlog",
                "importlib.metadata",
                "hobus.bus.messages.memory",
                "hobus.bus.messages.ledger",
            ),
        ),
        ("tap", (*READS_FILES, *READS_RECORDS, *SHOWS, "hobus.bus.messages.memory")),
        (
            "session",
            (*READS_FILES, *SHOWS, "hobus.ledger_service.reader", "hobus.launch.sessions.account", *OWNS_SESSIONS),
        ),
        ("ledger", (*READS_FILES, *SHOWS, "hobus.actors.ho2_supervisor.session")),
    ],
)
def test_a_quick_command_loads_what_it_needs(command: str, unneeded: tuple[str, ...]) -> None:
    """Each of them once took ten times what its question does, for messages and settings that it has no use for."""
    code = f"import sys, hobus.launch.cli.commands.{command}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(unneeded)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    assert metadata.version("hobus") == hobus.__version__


@pytest.mark.slow
def test_what_processes_share_is_built_before_the_first_fork() -> None:
    """Whoever compiled a message's checks later would write to pages that all share."""
    code = (
        "from hobus.launch.launcher.zygote import load; load(); from pydantic import BaseModel\n"
        "def all_of(cls): return [cls, *(one for sub in cls.__subclasses__() for one in all_of(sub))]\n"
        "print([one.__name__ for one in all_of(BaseModel)[1:] if not one.__pydantic_complete__])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def members_of(command):
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else ()
    family = [one for name in names if (one := command.get_command(context, name)) is not None]
    return [one for member in family for one in members_of(member)] or [command]


def test_a_misspelt_command_is_answered_with_the_one_that_is_near(capsys):
    for given, meant in (("sesion", "session"), ("ledgr", "ledger")):
        assert cli.run([given, "list"]) == exit_codes.USAGE
        assert f"no such command '{given}'. Did you mean '{meant}'?" in capsys.readouterr().err
    assert cli.run(["xyzzy"]) == exit_codes.USAGE
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("path", ["cell add", "ask", "memory overlays", "--home x session end"])
def test_an_option_without_its_value_names_the_help_of_its_command(path, capsys):
    option = {"cell add": "--url", "ask": "--timeout", "memory overlays": "--signal"}.get(path, "--reason")
    assert cli.run([*path.split(), option]) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert f"{option}' requires an argument" in said
    assert f"next: hobus {path.removeprefix('--home x ')} --help" in said


def test_a_value_below_zero_is_told_how_it_is_given(capsys):
    """It looks like an option; behind -- it is a value, and refused for what it is."""
    assert cli.run(["memory", "weight", "ART-1", "-1", "--reason", "x"]) == exit_codes.USAGE
    assert "stands behind --" in capsys.readouterr().err
    assert cli.run(["memory", "weight", "--reason", "x", "--", "ART-1", "-1"]) == exit_codes.USAGE
    assert "from 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (CommandError("it is so", hint="do that", exit_code=exit_codes.REFUSED), exit_codes.REFUSED, "next: do that"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), exit_codes.FAILED, "No space left on device (/x)"),
        (OSError(errno.EROFS, "Read-only file system", "/x"), exit_codes.FAILED, "--home"),
        (ConfigError("budget.classify_budget: missing"), exit_codes.USAGE, "budget.classify_budget"),
        (BusError("no_route", "nobody offers ho1"), exit_codes.UNREACHABLE, "hobus ps"),
        (BusError("denied", "a door may not"), exit_codes.REFUSED, "denied"),
        (SessionFault("run_active", "SES-1 runs"), exit_codes.REFUSED, "run_active"),
        (LedgerError("damaged", "0.seg byte 17"), exit_codes.INTEGRITY, "0.seg byte 17"),
        (BusError("internal", "ValueError in a handler"), exit_codes.FAILED, "internal"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, ""),
        (ExceptionGroup("tasks", [BusError("no_route", "nobody offers ho1")]), exit_codes.UNREACHABLE, "hobus ps"),
        (BaseExceptionGroup("tasks", [KeyboardInterrupt()]), 130, "interrupted"),
    ],
)
def test_what_a_user_can_cause_ends_in_a_sentence(raised, code, said, monkeypatch, capsys):
    """Each expected fault has its exit code and no traceback."""

    def fails(**_arguments):
        raise raised

    monkeypatch.setattr(cli.hobus, "main", fails)
    monkeypatch.delenv("HOBUS_DEBUG", raising=False)
    assert cli.run(["ps"]) == code
    shown = capsys.readouterr().err
    assert said in shown and "Traceback" not in shown


def test_a_defect_is_said_in_a_sentence_with_class_and_place(monkeypatch, capsys):
    """Not its text, which may hold what a user wrote; --debug shows the traceback."""

    def fails(**_arguments):
        raise ZeroDivisionError("the secret of a user")

    monkeypatch.setattr(cli.hobus, "main", fails)
    monkeypatch.delenv("HOBUS_DEBUG", raising=False)
    assert cli.run(["ps"]) == exit_codes.FAILED
    said = capsys.readouterr().err
    assert "unexpected ZeroDivisionError at cli/test_main.py:" in said and "next: " in said and "--debug" in said
    assert "secret" not in said and "Traceback" not in said
    assert cli.run(["ps", "--debug"]) == exit_codes.FAILED
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("given", [float("inf"), float("nan"), 1e300, -1.0, 0.0, 7200.5])
def test_a_timeout_that_is_no_length_of_time_is_refused(given):
    config = shipped_snapshot().config
    with pytest.raises(CommandError, match=r"at most 7200 seconds \(budget\.timeout_seconds\)") as caught:
        choose_timeout(given, config, default_ms=1)
    assert caught.value.exit_code == exit_codes.USAGE
    assert choose_timeout(7200.0, config, default_ms=1) == 7200.0
    assert choose_timeout(None, config, default_ms=1500) == 1.5


def test_ctrl_c_while_loading_ends_with_one_word():
    """Before anything runs there is nothing to clean up: no traceback, code 130; an ignored signal stays ignored."""
    program = (
        "import os, signal, sys; from hobus.launch.console.interrupt import end_at_interrupt, raise_at_interrupt\n"
        "if sys.argv[1] == 'ignored': signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "end_at_interrupt()\n"
        "if sys.argv[1] == 'raises': raise_at_interrupt()\n"
        "try: os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt: sys.exit(7)\n"
    )
    reads, writes = os.pipe()
    os.close(reads)

    def started(case, stderr=subprocess.PIPE):
        return subprocess.Popen([sys.executable, "-c", program, case], text=True, stderr=stderr, env=make_environment())

    cases = {case: started(case) for case in ("loading", "ignored", "raises")}
    unread = started("loading", writes)
    os.close(writes)
    said = {case: process.communicate()[1] for case, process in cases.items()}
    ends = {case: (process.returncode, said[case]) for case, process in cases.items()}
    assert ends == {"loading": (130, "interrupted\n"), "ignored": (0, ""), "raises": (7, "")}
    assert unread.wait() == 130


@pytest.mark.parametrize("words", [["--version"], pytest.param(["config", "check"], marks=pytest.mark.slow)])
def test_a_reader_that_went_away_is_an_end_and_no_failure(words):
    """`hobus config check | true`: code 0 and nothing on stderr, although nobody reads what is printed."""
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "hobus", *words],
        stdout=writes, stderr=subprocess.PIPE, env=make_environment(), check=False,
    )  # fmt: skip
    os.close(writes)
    assert (done.returncode, done.stderr) == (exit_codes.OK, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "stream", "code"),
    [
        ("--version", "stdout", exit_codes.FAILED),
        ("--version", "stderr", exit_codes.OK),
        ("config check", "stdout", exit_codes.FAILED),
        ("ps --home /nowhere", "stderr", exit_codes.UNREACHABLE),
    ],
)
def test_a_full_disk_is_told_once_and_spoils_no_exit(words, stream, code):
    """An answer that cannot be printed is a failure; what is said beside an answer is none."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        command = [sys.executable, "-m", "hobus", *words.split()]
        done = subprocess.run(command, env=make_environment(), check=False, **streams)
    assert done.returncode == code, done
    assert stream == "stderr" or (done.stderr.count(b"No space left"), done.stderr.count(b"Exception")) == (1, 0)


def test_a_closed_standard_error_spoils_no_exit():
    command = ["sh", "-c", 'exec "$0" -m hobus --version 2>&-', sys.executable]
    done = subprocess.run(command, env=make_environment(), stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (exit_codes.OK, f"hobus {hobus.__version__}\n".encode())


def test_a_warning_that_nobody_reads_ends_no_command(monkeypatch):
    """`hobus reload 2>&1 | head -1`: what is said on the way is lost, what the command comes to is not."""
    reads, writes = os.pipe()
    os.close(reads)
    there = open(writes, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - closed below
    monkeypatch.setattr(sys, "stderr", there)

    def fails(**_arguments):
        note("warning: it is old")
        note("warning: it is slow")
        raise CommandError("it is broken", exit_code=exit_codes.INTEGRITY)

    monkeypatch.setattr(cli.hobus, "main", fails)
    assert cli.run(["ps"]) == exit_codes.INTEGRITY
    sys.stderr.close()
    with suppress(BrokenPipeError):
        there.close()


@pytest.mark.parametrize("words", [["config", "check"], ["ps"], ["memory", "stats"], ["tap"], ["ask", "hi"], ["chat"]])
def test_no_command_is_begun_where_standard_output_is_closed(words, monkeypatch, capsys):
    """Whichever it is; in this interpreter, which sees what a fresh one does: no stream."""
    monkeypatch.setattr(cli, "run", lambda _words: pytest.fail("it was begun"))
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == exit_codes.FAILED
    assert capsys.readouterr().err.startswith("error: standard output is closed")


def test_a_next_command_can_be_pasted():
    """A home with a blank or a quote in its name is one word of the shell."""
    line = format_next_command("ledger verify", Path("/tmp/it's my home"))
    assert shlex.split(line) == ["hobus", "ledger", "verify", "--home", "/tmp/it's my home"]


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (LedgerError("damaged", "0.seg byte 17"), "hobus ledger verify --home"),
        (ConfigError("budget: missing"), "hobus config check --home"),
        (BusError("no_route", "nobody offers ho1"), "hobus ps --home"),
        (MemoryFault("unknown_artifact", "ART-1"), "hobus memory overlays --all --home"),
    ],
)
def test_the_next_command_names_the_home_of_this_one(raised, said, tmp_path, monkeypatch, capsys):
    """Also where the fault came from a place that knows no home."""

    def fails(_path):
        raise raised

    monkeypatch.setattr("hobus.launch.cli.commands.cost.demand_record", fails)
    home = tmp_path / "my home"
    cli.run(["cost", "--home", str(home)])
    assert f"{said} {shlex.quote(str(home))}" in capsys.readouterr().err


def test_debug_shows_the_traceback(monkeypatch, capsys):
    def fails(**_arguments):
        raise CommandError("it is so")

    monkeypatch.setattr(cli.hobus, "main", fails)
    assert cli.run(["ps", "--debug"]) == exit_codes.FAILED
    assert "Traceback" in capsys.readouterr().err


def test_a_programming_error_is_not_disguised():
    """Only expected faults become sentences."""
    assert as_command_error(ValueError("bug")) is None


def test_commands_are_completed_without_importing_one(monkeypatch):
    """Tab behind a bare `hobus` is as fast as its help."""
    script = (
        "import sys; from hobus.launch.cli.main import hobus; "
        "from click.shell_completion import BashComplete; "
        "found = [item.value for item in BashComplete(hobus, {}, 'hobus', '_HOBUS_COMPLETE').get_completions([], 'co')]; "
        "print(found, 'zmq' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["['console',", "'cost',", "'config']", "False"]


def test_a_template_that_there_is_not_is_told_with_those_that_there_are():
    with pytest.raises(UsageFault, match="'ATT-NOPE-001'; there are ATT-"):
        make_overrides("ATT-NOPE-001", None, shipped_snapshot(), agent=None)
