"""Files of a home that are not as they should be: each ends in a sentence with the fix, and nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.builders import shipped_snapshot
from hobus.config.files import SHIPPED_ROOT
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault
from hobus.launch.sessions.turns import check_text, decode_argument
from hobus.ledger_service.frame import GENESIS, VERSION
from hobus.ledger_service.segment import name_segment
from tests.actors.ho1_executor.tools.packages import install
from tests.ledger_service.rig import in_format, stored_frame

SHIPPED = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text(encoding="utf-8"))
MINE = SHIPPED | {"agent_id": "MINE"}
NO_CLASS = {key: value for key, value in MINE.items() if key != "agent_class"}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = cli.run(list(words))
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out + said.err


def write(name: str, content: bytes | dict[str, object]) -> Callable[[Path], None]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda agents: (agents / name).write_bytes(data) and None


CUT = json.dumps(MINE, indent=1).encode()[:150]
AGENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (write("MINE.json", b""), "MINE.json: is empty; write what belongs there, or remove it"),
    "half written": (write("MINE.json", CUT), "MINE.json: line 6, column "),
    "no object": (write("MINE.json", b"[1]"), "MINE.json: holds list, not an object"),
    "unknown field": (write("MINE.json", MINE | {"colour": "red"}), "MINE.json: colour: unknown key; remove it"),
    "missing field": (write("MINE.json", NO_CLASS), "MINE.json: agent_class: missing; add it"),
    "wrong type": (write("MINE.json", MINE | {"tools": 5}), "MINE.json: tools: "),
    "not UTF-8": (write("MINE.json", b'{"agent_id": "\xff"}'), "MINE.json: byte 14 is not UTF-8; save the file as"),
    "byte order mark": (
        write("MINE.json", b"\xef\xbb\xbf" + json.dumps(MINE).encode()),
        "MINE.json: begins with a byte order mark (BOM), invisible bytes that some editors put there; save it as `UTF-8`",
    ),
    "other name": (write("OTHER.json", MINE), "OTHER.json: agent_id: is 'MINE', but the file is named for 'OTHER'"),
    "lower case": (
        write("admin.json", SHIPPED | {"agent_id": "admin"}),
        "admin.json: agent_id: 'admin' is not in capitals; write 'ADMIN', and name the file ADMIN.json",
    ),
    "directory": (lambda agents: (agents / "X.json").mkdir(), "X.json: a directory, where a file belongs; "),
    "dangling link": (lambda agents: (agents / "X.json").symlink_to("nowhere"), "X.json: a link that leads nowhere; "),
    "link in a circle": (lambda agents: (agents / "X.json").symlink_to("X.json"), "X.json: a link that leads nowhere"),
    "pipe": (lambda agents: os.mkfifo(agents / "X.json"), "X.json: not a plain file; "),
    "linked directory": (
        lambda agents: (agents.rmdir(), agents.symlink_to("/")),
        "agents: a link to a directory, which is not followed; ",
    ),
}


@pytest.mark.parametrize("case", AGENTS)
def test_an_agent_file_with_a_fault_is_named_with_the_fix(case, tmp_path, capsys):
    """By `config check` and `agent list` alike, which go on where it is taken away."""
    make, said = AGENTS[case]
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    make(agents)
    for words in (["config", "check"], ["agent", "list"]):
        code, out = run(capsys, *words, "--home", str(tmp_path))
        assert code == exit_codes.USAGE and said in out, out
        assert out.rstrip().endswith(f"next: fix it, then: hobus config check --home {tmp_path}")


@pytest.mark.parametrize("words", [("memory", "signals", "--min-count"), ("ledger", "search", "x", "--limit")])
@pytest.mark.parametrize("number", [1 << 63, 10**23])
def test_a_number_that_no_message_carries_is_the_callers_mistake(words, number, tmp_path, capsys):
    """Before anybody is asked; the last one that does is taken."""
    code, out = run(capsys, *words, str(number), "--home", str(tmp_path))
    assert (
        code == exit_codes.USAGE
        and f"invalid value for '{words[-1]}': {number}: expected at most {(1 << 63) - 1}" in out
    )
    assert "invalid value" not in run(capsys, *words, str((1 << 63) - 1), "--home", str(tmp_path))[1]


def test_a_programs_tools_and_settings_in_their_place_exclude_each_other(tmp_path, capsys):
    """Said before anything is written, with the file that would lose them, and the mend."""
    code, out = run(capsys, "up", "app.py", "--config", "x.json", "--home", str(tmp_path))
    assert code == exit_codes.USAGE and "without --config" in out, out
    assert f"--config x.json would replace {tmp_path}/config/admin_config.json, which names the tools of app.py" in out
    assert not list(tmp_path.iterdir())


TOOLS: dict[str, tuple[str | None, str]] = {
    "raises": ('raise RuntimeError("no licence")\n', "(RuntimeError: no licence, {site}/p_raises.py:1)"),
    "syntax": ("def f(:\n", "cannot be imported (SyntaxError: "),
    "gone": (None, "No module named 'p_gone'"),
    "plain": ("f = 3\n", "it is not a tool; decorate the function with @hobus.tool("),
    "empty": ("\n", "has no attribute 'f'"),
    "exits": ("import os; os._exit(3)\n", "importing its package ended the process"),
    "list_tools": ("\n", "a built-in tool has this name; rename yours"),
}


@pytest.mark.slow
def test_every_tool_that_cannot_be_loaded_is_named_at_once_with_its_own_reason(tmp_path, monkeypatch, capsys):
    """Also behind one that ends the process; one that is in order is not named."""
    site, home = tmp_path / "site", tmp_path / "home"
    for name, (source, _said) in TOOLS.items():
        install(site, f"p_{name}", source or "")
    (site / "p_gone.py").unlink()
    install(site, "p_good", 'from hobus import tool\n@tool(idempotent=True, writes=False)\ndef f():\n    "d"\n')
    monkeypatch.setenv("PYTHONPATH", str(site))
    (home / "config").mkdir(parents=True)
    points = {"tools": {"entry_points": [f"{name} = p_{name}:f" for name in (*TOOLS, "good")]}}
    (home / "config" / "admin_config.json").write_text(json.dumps(points), encoding="utf-8")
    code, out = run(capsys, "config", "check", "--home", str(home))
    assert code == exit_codes.USAGE
    begin = f"- {home / 'config' / 'admin_config.json'}: tools.entry_points: "
    lines = {line.split("'")[1]: line for line in out.splitlines() if line.startswith(begin)}
    assert list(lines) == [*TOOLS]
    for name, (_source, said) in TOOLS.items():
        assert said.format(site=site) in lines[name] and lines[name].endswith(", or remove it here")


@pytest.mark.slow  # starts interpreters that import tools
def test_faults_of_tools_are_told_once_the_files_that_name_them_are_sound(tmp_path, capsys):
    """By `config check` and `up` alike; a name that no tool can have is told once."""
    own = tmp_path / "config" / "admin_config.json"
    own.parent.mkdir()
    tools = {"tools": {"entry_points": ["missing = p_missing:f", "a b = p_missing:f"]}}
    steps = (
        (tools | {"ho2": {"sessions_mx": 1}}, [f"{own}: ho2.sessions_mx: unknown key"]),
        (tools, ["a tool's name has", "'missing': p_missing cannot be imported"]),
    )
    for written, says in steps:
        own.write_text(json.dumps(written))
        for words in (["config", "check"], ["up", "--wait"]):
            code, out = run(capsys, *words, "--home", str(tmp_path))
            assert code == exit_codes.USAGE and f"configuration has {len(says)} fault" in out, out
            assert all(said in out for said in says), out


def test_a_record_in_another_format_is_told_with_the_fix_by_whoever_meets_it(tmp_path, capsys):
    """One sentence, never the word damaged, and nothing of it is touched."""
    path = tmp_path / "ledger" / "segments" / name_segment(0)
    path.parent.mkdir(parents=True)
    path.write_bytes(in_format(1, stored_frame(0, GENESIS, [b"entry"], []).data) + bytes(4096))
    before = path.read_bytes()
    said = f"the record is in format 1, and this software reads {VERSION}"
    fix = "move the directory `ledger` of this home away to begin a new record"
    for words in (["ledger", "verify"], ["ledger", "show"], ["session", "list"], ["cost"]):
        code, out = run(capsys, *words, "--home", str(tmp_path))
        assert code == exit_codes.INTEGRITY and f"{said}; {fix}" in out and "damaged" not in out.lower(), out
    _code, out = run(capsys, "doctor", "--json", "--home", str(tmp_path))
    (found,) = [one for one in json.loads(out)["checks"] if one["check"] == "record"]
    assert found["verdict"] == "fail" and said in found["detail"] and found["fix"].startswith(fix)
    _code, out = run(capsys, "ledger", "verify", "--json", "--home", str(tmp_path))
    fault = json.loads(out)["fault"]
    assert fault["is_other_format"] and fault["fix"].startswith(fix)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        pytest.param(
            "spool",
            b"HSP4" + bytes(60),
            "has the format of another version: its entries are not in the record; ",
            id="not read yet",
        ),
        pytest.param("spool.other-format-1", b"HSP4", "wrote it once, back under the name spool,", id="set aside"),
        pytest.param("spool.damaged-1", b"HSP6" + bytes(60), "was set aside as damaged: ", id="damaged"),
    ],
)
def test_a_spool_that_nobody_reads_is_told_with_the_fix(name, content, said, tmp_path, capsys):
    segments = tmp_path / "ledger" / "segments"
    segments.mkdir(parents=True)
    (segments / name_segment(0)).touch()
    path = tmp_path / "spool" / "gateway" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for words in (["ledger", "verify"], ["session", "list"], ["doctor", "--json"]):
        _code, out = run(capsys, *words, "--home", str(tmp_path))
        assert f"{path} " in out and (said in out or words[0] == "doctor"), out
        assert "move" in out
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b'{"version": 0}', b"", b"\xff\xfe", b"[]"])
def test_a_run_file_of_another_version_is_told_with_the_command_that_ends_it(content, tmp_path, capsys):
    """By whoever looks for a cluster; nothing is removed by looking."""
    path = tmp_path / "run" / "run.json"
    path.parent.mkdir()
    path.write_bytes(content)
    for words in (["ps"], ["ask", "hi"], ["session", "show", "SES-12345678"]):
        code, out = run(capsys, *words, "--home", str(tmp_path))
        assert code == exit_codes.FAILED and f"{path} is not a run file of this version" in out
        assert f"next: hobus down --home {tmp_path}" in out
    assert path.read_bytes() == content


def test_settings_that_are_no_longer_there_are_named_all_at_once(tmp_path, capsys):
    path = tmp_path / "config" / "admin_config.json"
    path.parent.mkdir()
    text = json.dumps({"ho2": {"no_longer": 1}, "gone": {"x": 2}})
    path.write_text(text, encoding="utf-8")
    for words in (["config", "check"], ["agent", "list"], ["doctor"]):
        code, out = run(capsys, *words, "--home", str(tmp_path))
        assert code in (exit_codes.USAGE, exit_codes.FAILED)
        assert "ho2.no_longer: unknown key; remove it" in out and "gone: unknown key; remove it" in out
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("given", [b"bad \xff", b"\xed\xa0\x80"])
def test_a_message_that_is_not_utf8_is_refused_with_the_fix(given):
    """Before anything is sent; control characters are text."""
    limits = shipped_snapshot().config.host
    with pytest.raises(UsageFault, match="not valid UTF-8") as refused:
        check_text(decode_argument(given.decode("utf-8", "surrogateescape")), limits)
    assert refused.value.hint == "send it as UTF-8; nothing was sent"
    check_text(decode_argument("nul \x00 esc \x1b[2J bell \x07"), limits)
