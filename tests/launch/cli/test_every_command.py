"""What holds of every command: one prefix and one exit code per meaning, one shape of JSON, hints that can be pasted."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import hobus
from hobus.bus.disk import RealDisk
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes
from hobus.ledger_service.segment import name_segment
from tests.ledger_service.rig import ledger_config, running, write


def _every(command: click.Command, path: str, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        member = command.get_command(ctx, name)
        assert member is not None
        yield from _every(member, f"{path} {name}".strip(), ctx)


COMMANDS = dict(_every(cli.hobus, "", click.Context(cli.hobus)))
"""`session show` -> its command; every command that there is, and no group that does nothing by itself."""

STARTED = {"up", "down", "demo", "drill kill", "simulate", "worker join", "worker run", "dev", "console"}
"""They make what they need, or end it, or serve until they are ended."""
ALONE = {
    "init", "doctor", "gates", "registry", "agent list", "agent show", "drill list", "token list", "token revoke", "keys list", "keys revoke", "keys rotate",
    "provider list", "provider check", "provider add", "config check", "config show", "config diff", "config set",
    "config unset", "config schema", "package build", "package key", "package install",
    "cell add", "cell list", "cell move", "cell remove", "workers on", "package list", "package remove", "package trust add", "package trust list", "package trust remove",
}  # fmt: skip
"""They work on a home's files, or on nothing."""
OF_THE_RECORD = {
    "ledger search": ["lamp"], "ledger show": [], "ledger tail": [], "ledger verify": [], "cost": [], "session list": [],
    "session show": ["SES-12345678"], "session replay": ["SES-12345678"], "why": ["SES-12345678"],
    "diff": ["SES-12345678-1", "SES-12345678-2"], "asset": ["0123456789ab"],
}  # fmt: skip
OF_THE_LOGS = {"logs": []}
OF_A_CLUSTER = {
    "ps": [], "reload": [], "scale": ["ho1=2"], "restart": ["ho1/1"], "drain": ["ho1/1"], "ask": ["hi"], "chat": [],
    "session steer": ["SES-12345678", "x"], "session followup": ["SES-12345678", "x"], "session pause": ["SES-12345678"],
    "session resume": ["SES-12345678"], "session cancel": ["SES-12345678"], "session approve": ["SES-12345678"],
    "session deny": ["SES-12345678"], "session end": ["SES-12345678"], "tap": [],
    "request": ["broker", "broker.read_peers"], "tools": [], "tools call": ["list_tools", "{}"], "memory signals": [], "memory overlays": [],
    "memory gate": ["tool:x"], "memory deactivate": ["ART-1", "--reason", "x"],
    "memory activate": ["ART-1", "--reason", "x"], "memory confirm": ["ART-1"], "memory reject": ["ART-1"], "memory review": [],
    "memory weight": ["ART-1", "1", "--reason", "x"], "memory stats": [], "budget": [], "breaker": [],
    "token create": [], "cell serve": [],
}  # fmt: skip
"""With arguments that are in order."""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    capsys.readouterr()
    code = cli.run(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


def told(err: str) -> tuple[str, str]:
    """Message and hint of the one error that was said; notes may have come before it."""
    lines = err.splitlines()
    (begin,) = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    message, _, hint = "\n".join(lines[begin:]).removeprefix("error: ").partition("\n  next: ")
    return message, hint


def takes_json(path: str) -> bool:
    return any("--json" in parameter.opts for parameter in COMMANDS[path].params)


def test_the_tables_of_this_test_name_every_command_once():
    named = [*STARTED, *ALONE, *OF_THE_RECORD, *OF_THE_LOGS, *OF_A_CLUSTER]
    assert sorted(named) == sorted(COMMANDS)


@pytest.mark.parametrize("first", sorted({path.split()[0] for path in COMMANDS}))
def test_each_command_has_its_help_and_a_familys_says_what_each_of_its_commands_does_whole(first, monkeypatch, capsys):
    """Also in a narrow window, where a sentence takes several rows."""
    monkeypatch.setenv("COLUMNS", "60")
    code, out, err = run(capsys, first, "--help")
    assert (code, err) == (exit_codes.OK, "") and "..." not in out.partition("Commands:")[2]


def test_an_unknown_option_is_a_mistake_of_usage(capsys):
    """Code 2, the one prefix, and where the help is; for a program the same in JSON, and nothing on standard output.

    `config set` takes an unknown option for a value, and misses its argument.
    """
    expected = {
        path: (exit_codes.USAGE, "", path != "config set", f"hobus {path} --help", exit_codes.USAGE, "", True)
        for path in COMMANDS
    }
    assert {path: refused(capsys, path) for path in COMMANDS} == expected


def refused(capsys: pytest.CaptureFixture[str], path: str) -> tuple[int, str, bool, str, int, str, bool]:
    """Of an unknown option: code, output, whether it is named, the hint; for a program code, output, whether it is told the same."""
    code, out, err = run(capsys, *path.split(), "--no-such-option")
    message, hint = told(err)
    is_named = "--no-such-option" in message
    json_code, json_out, err = run(capsys, *path.split(), "--no-such-option", "--json")
    error = json.loads(err.splitlines()[-1])["error"]
    facts = (error["code"], error["exit_code"], error["message"], error["hint"])
    is_same = facts == ("usage", exit_codes.USAGE, message, hint) or (
        path == "config set" and facts[:2] == ("usage", 2)
    )
    return code, out, is_named, hint, json_code, json_out, is_same


@pytest.mark.parametrize(
    ("path", "words", "expected"),
    [
        *((path, words, exit_codes.UNREACHABLE) for path, words in OF_A_CLUSTER.items() if path != "down"),
        *((path, words, exit_codes.USAGE) for path, words in (OF_THE_RECORD | OF_THE_LOGS).items()),
    ],
)
def test_what_is_not_there_yet_is_said_with_the_command_that_makes_it(path, words, expected, tmp_path, capsys):
    """No cluster: code 4; no record and no logs: nothing that could be shown, code 2. The next command has the home."""
    home = tmp_path / "my home"
    code, out, err = run(capsys, *path.split(), *words, "--home", str(home))
    _message, hint = told(err)
    assert (code, out) == (expected, "")
    assert shlex.split(hint)[:2] == ["hobus", "up"] and shlex.split(hint)[-2:] == ["--home", str(home)]
    assert not home.exists(), "looking makes nothing"
    if takes_json(path):
        code, out, err = run(capsys, *path.split(), *words, "--json", "--home", str(home))
        error = json.loads(err.splitlines()[-1])["error"]
        assert (code, out, error["exit_code"], error["hint"]) == (expected, "", expected, hint)


@pytest.mark.parametrize(
    "words",
    [
        ["agent", "show", "NOBODY"],
        ["asset", "0123456789ab"],
        ["config", "show", "no.such"],
        ["config", "set", "no.such", "1"],
        ["config", "unset", "nope"],
        ["config", "set", "ho2.history_turns_max", "{"],
        ["config", "check", "--config", "/no/such/file"],
        ["cost", "--by", "moon"],
        ["cost", "--since", "soon"],
        ["cost", "--session", "SES-00000000"],
        ["drill", "kill", "nobody", "--during", "turn"],
        ["drill", "kill", "ho2", "--during", "lunch"],
        ["drill", "kill", "ho2", "--during", "turn", "--scale", "ho1=0"],
        ["init", "no_such.json"],
        ["init", "--agent", "2low"],
        ["init", "--agent", "ADMIN"],
        ["keys", "revoke", "nobody"],
        ["token", "revoke", "nobody"],
        ["keys", "rotate", "nobody"],
        ["token", "create", "--role", "ho2"],
        ["ledger", "show", "--session", "SES-00000000"],
        ["ledger", "show", "--stream", "nope"],
        ["ledger", "show", "--type", "NOPE"],
        ["ledger", "show", "colour=red"],
        ["ledger", "tail", "--session", "SES-00000000"],
        ["logs", "nobody"],
        ["logs", "--since", "soon"],
        ["logs", "--turn", ""],
        ["provider", "add", "x", "--kind", "plugin", "--base-url", "http://h"],
        ["provider", "check", "nobody"],
        ["request", "broker", "broker.read_peers", "{"],
        ["request", "broker", "no.such"],
        ["request", "nobody", "broker.read_peers"],
        ["scale", "ho9=1"],
        ["session", "replay", "SES-00000000"],
        ["session", "replay", "nonsense"],
        ["session", "show", "11111111-2222-5333-8444-555555555555"],
        ["session", "show", "SES-00000000"],
        ["simulate", "--faults", "moon=1"],
        ["simulate", "--seeds", "9..1"],
        ["tap", "colour=red"],
        ["tap", "type=nope"],
        ["token", "create", "--ttl", "soon"],
        pytest.param(["up", "--detach", "--config", "/no/such/file"], marks=pytest.mark.slow),  # starts an interpreter
        ["up", "--detach", "--listen", "nowhere"],
        ["up", "--detach", "--scale", "ho1=many"],
        ["worker", "join", "no-token"],
    ],
    ids=" ".join,
)
def test_what_there_is_not_and_what_is_none_is_a_mistake_of_usage(words, record, capsys):
    """Unknown names and ids, bad values, bad JSON: code 2 and one sentence."""
    code, out, err = run(capsys, *words, "--home", str(record))
    assert (code, out) == (exit_codes.USAGE, ""), err
    assert told(err)[0] and "Traceback" not in err


@pytest.mark.parametrize("path", OF_THE_RECORD)
def test_a_damaged_record_has_a_code_of_its_own(path, damaged, capsys):
    code, _out, err = run(capsys, *path.split(), *OF_THE_RECORD[path], "--home", str(damaged))
    assert code == exit_codes.INTEGRITY, err
    assert name_segment(0) in err and "Traceback" not in err


LISTS = {
    "agent list": "agents", "config check": "files", "config diff": "settings", "config show": "settings",
    "cost": "rows", "doctor": "checks", "drill list": "during", "keys list": "keys", "ledger show": "entries",
    "logs": None, "package list": "packages", "package trust list": "keys", "provider list": "providers", "session list": "sessions", "simulate": "faults",
    "token list": "tokens",
}  # fmt: skip
"""What lists something without a cluster -> the name of the list; None: one object per line. Those of a cluster:
tests/process/test_exit_codes.py."""


@pytest.mark.parametrize("path", LISTS)
def test_a_listing_for_programs_is_an_object_with_a_named_list(path, record, capsys):
    """So that something can stand beside the list tomorrow."""
    more = ["--seed", "0", "--turns", "1"] if path == "simulate" else []
    code, out, _err = run(capsys, *path.split(), *more, "--json", "--home", str(record))
    assert code in (exit_codes.OK, exit_codes.FAILED)  # a machine may have something that doctor finds
    if (name := LISTS[path]) is None:
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    else:
        document = json.loads(out)
        assert isinstance(document, dict) and isinstance(document[name], list | dict)


def test_every_command_that_lists_or_shows_has_json():
    """By their names, and those that show something under another one."""
    showing = {"list", "show", "check", "diff", "replay", "verify", "tail", "signals", "overlays", "gate", "stats"}
    alone = {"ps", "logs", "tools", "tools call", "cost", "budget", "breaker", "doctor", "ask", "chat", "tap"}
    shows = {path for path in COMMANDS if path.split()[-1] in showing or path in alone}
    assert {path for path in shows if not takes_json(path)} == set()


def _commands_in_texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every text after `hint=` or `fix=` that names a command by itself."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        for keyword in call.keywords:
            if keyword.arg not in ("hint", "fix"):
                continue
            for part in ast.walk(keyword.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and "hobus " in part.value:
                    yield part.lineno, part.value


ON_ANOTHER_HOST = (
    "hobus worker join TOKEN",
    "the cluster's host: hobus ",
    "printed on the cluster's host",
    "on its host: hobus ps",
    "hobus provider add --help",
)
"""Of what is typed elsewhere nobody here knows the home; help and version have none."""


@pytest.mark.slow
def test_every_hint_names_the_home_of_its_command():
    """Whoever writes a hint uses `format_next_command` or `format_next_here`; a command by its bare name would be about another home."""
    root = Path(hobus.__file__).parent / "launch"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    giving = {path: text for path, text in texts.items() if re.search(r"\b(hint|fix)\s*=", text)}
    assert len(giving) > 30
    found = [
        f"{path.relative_to(root)}:{line}: {text}"
        for path, source in giving.items()
        for line, text in _commands_in_texts(source)
        if not any(known in text for known in ON_ANOTHER_HOST)
    ]
    assert found == []


def test_the_command_to_run_again_has_everything_that_was_given(tmp_path, monkeypatch, capsys):
    """Options, words with blanks, and the home that the environment named."""
    monkeypatch.setenv("HOBUS_HOME", str(tmp_path / "h"))

    def fails(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hobus.launch.cli.commands.ask.find_cluster", lambda _home: _Place())
    monkeypatch.setattr("hobus.launch.cli.commands.ask.find_known_agent", fails)
    code, _out, err = run(
        capsys,
        "ask",
        "is it so?",
        "--session",
        "SES-1234",
        "--input-id",
        "in-1",
        "--",
    )
    assert code == 130
    line = next(line for line in err.splitlines() if "the turn goes on" in line)
    again = line.split(": ", 1)[1].removesuffix(" (it never runs twice)")
    assert shlex.split(again) == [
        "hobus", "ask", "is it so?", "--session", "SES-1234", "--input-id", "in-1", "--home", str(tmp_path / "h"), "--",
    ]  # fmt: skip


class _Place:
    """As much of a running cluster as is looked at before anybody is asked."""

    def __init__(self) -> None:
        from bench.builders import shipped_snapshot  # noqa: PLC0415 - one test needs it

        self.snapshot = shipped_snapshot()


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A home with a small record and no logs yet, which nobody changes: whoever uses it is refused, or looks."""
    home = tmp_path_factory.mktemp("recorded")
    (home / "logs").mkdir()

    async def written() -> None:
        async with running(RealDisk(home / "ledger"), ledger_config()) as ledger:
            for number in range(3):
                await ledger.write(write(f"e{number}"))

    asyncio.run(written())
    before = files_below(home / "ledger")
    yield home
    assert files_below(home / "ledger") == before


@pytest.fixture(scope="module")
def damaged(record, tmp_path_factory):
    """A copy of it with one bit changed, and without an index, so that every command reads that bit."""
    home = tmp_path_factory.mktemp("damaged")
    shutil.copytree(record, home, dirs_exist_ok=True)
    segment = home / "ledger" / "segments" / name_segment(0)
    data = bytearray(segment.read_bytes())
    data[data.find(b"HOBUSLG1", 8) + 100] ^= 1
    segment.write_bytes(data)
    (home / "ledger" / "index.sqlite").unlink()
    return home


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_down_where_nothing_runs_is_done_already(tmp_path, capsys):
    home = tmp_path / "my home"
    code, out, err = run(capsys, "down", "--home", str(home))
    assert (code, err) == (exit_codes.OK, "") and f"no cluster runs in {home}" in out
    assert not home.exists()
