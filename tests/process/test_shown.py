"""What a command shows and leaves behind, whatever it is given: escapes, odd locales, any umask."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cluster import Cluster, hobus, make_environment
from hobus.launch.console.output import COMMANDS
from tests.process.pseudo_terminal import typing

pytestmark = pytest.mark.process

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\u2028"


def run(*words: str | bytes, env: dict[str, str] | None = None, umask: int = -1) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "hobus", *words], env=make_environment() | (env or {}), umask=umask,
        capture_output=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [["ask", "--session", HOSTILE, "x"], ["scale", HOSTILE], [HOSTILE], ["--home", HOSTILE, "ps"], ["ps", HOSTILE],
     ["logs", HOSTILE, "--since", HOSTILE], ["tap", "-r", HOSTILE], ["worker", "join", HOSTILE], ["drill", "kill", HOSTILE]],
)  # fmt: skip
def test_no_argument_commands_the_terminal_by_an_error(words: list[str], tmp_path: Path) -> None:
    """Whatever is wrong with it is said with what cannot be seen escaped, usage errors of the parser too."""
    done = hobus(*words, env={"HOBUS_HOME": str(tmp_path / "h"), "HOBUS_WORKER_HOME": str(tmp_path / "w")})
    said = done.out + done.err
    assert done.code != 0
    assert said
    assert not [char for char in said if char in HOSTILE and not char.isprintable()], said


@pytest.mark.parametrize("umask", [0o000, 0o277])
def test_a_home_is_its_user_s_alone_whatever_the_umask(cluster: Cluster, tmp_path: Path, umask: int):
    """Every file and directory of a session, its configuration's copies and a capture: no right for anybody else."""
    home = str(cluster.home.root)
    capture = tmp_path / "captured.tap"
    for words in (
        ["init", "--home", home], ["up", "--wait", "--listen", "127.0.0.1:0", "--home", home], ["ask", "--home", home, "hello"],
        ["tap", "--home", home, "--since", "1m", "-w", str(capture)], ["token", "create", "--home", home],
    ):  # fmt: skip
        done = run(*words, umask=umask)
        assert done.returncode == 0, (words, done.stderr)
    found = [Path(directory) / name for directory, folders, files in os.walk(home) for name in (*folders, *files)]
    assert len(found) > 40
    open_to_others = [
        f"{stat.filemode(path.lstat().st_mode)} {path}" for path in (cluster.home.root, capture, *found)
        if path.lstat().st_mode & 0o077 or not path.lstat().st_mode & 0o600
    ]  # fmt: skip
    assert open_to_others == []


def test_words_that_are_not_ascii_in_a_c_locale(cluster: Cluster):
    """They are heard and answered; bytes that are no text are named; never a traceback."""
    cluster.up()
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOBUS_HOME": str(cluster.home.root)}
    heard = run("ask", "--json", "say hällo \u4f60".encode(), env=env)
    assert heard.returncode == 0, heard.stderr
    assert json.loads(heard.stdout)["outcome"] == "success"
    (entry,) = [one for one in cluster.entries() if one.event_type == "RunRequested"]
    assert repr("hällo \u4f60".encode())[2:-1] in repr(entry)
    assert run("ask", "hällo".encode(), env=env).returncode == 0
    invalid = run("ask", b"h\xe4llo", env=env)
    assert invalid.returncode == 2
    assert b"UTF-8" in invalid.stderr
    for done in (run("ask", "--session", "hällo".encode(), "x", env=env), run("ps", "--home", b"h\xe4", env=env)):
        assert done.returncode != 0
        assert b"Traceback" not in done.stderr
        assert b"defect" not in done.stderr


MARK = "FORGED"
HOSTILE_TEXT = (
    f"\x1b[31m{MARK} \x1b]8;;http://evil\x07x\x1b]8;;\x07\x1b[2J\x9b31m\u202egnp.exe\u2066 \x1b]0;owned\x07 &#x202e;"
)
OURS = re.compile(r"\r?\x1b\[(?:[0-9;]*m|\?2004[hl]|\?25[hl]|\?7[hl]|\?12?[hl]|[0-9;]*[ABCDGHJKr]|0?6 q)")
"""Colours, and what writes rows of ours anew."""


def test_no_listing_sends_a_terminal_what_others_wrote(cluster: Cluster):
    """A message, an answer, a log and a body full of escapes: each command that shows them, on a terminal with colours."""
    home = str(cluster.home.root)
    cluster.up()
    asked = run("ask", "--home", home, "--json", f"say {HOSTILE_TEXT}")
    assert asked.returncode == 0, asked.stderr
    session = json.loads(asked.stdout)["session_id"]
    with cluster.home.log("ho1/1").open("a") as log:
        log.write(f"{HOSTILE_TEXT}\n")
        log.write(json.dumps({"event": HOSTILE_TEXT, "level": "error", "actor": HOSTILE_TEXT, "x": HOSTILE_TEXT,
                              "exception": HOSTILE_TEXT, "at": "2026-11-25T00:00:00Z"}) + "\n")  # fmt: skip
    shown = 0
    for words in (
        ["ask", f"say {HOSTILE_TEXT}"], ["ask", "--session", session, "what did I ask before?"],
        ["session", "show", session], ["session", "list"], ["ledger", "show", "--bodies", "--limit", "200"],
        ["tap", "--since", "1h", "--bodies", "--count", "50"], ["logs"], ["memory", "signals"], ["memory", "overlays"],
        ["request", "host", "session.read", HOSTILE_TEXT],
    ):  # fmt: skip
        with typing(*words, "--home", home, columns=100, rows=50, env={"NO_COLOR": ""}) as typed:
            typed.end()
        said = OURS.sub("", typed.written).replace("\r\n", "\n")
        assert not [char for char in said if COMMANDS.match(char)], (words, said)
        assert f"\x1b[31m{MARK}" not in typed.written, words
        shown += MARK in said
    assert shown >= 5, "the text was not there to be shown"
    with typing("chat", "--home", home, columns=100, env={"NO_COLOR": ""}) as typed:
        typed.at_prompt()
        typed.paste(f"say {HOSTILE_TEXT}")
        typed.until("&#x202e;")  # as it is edited
        typed.type("")
        typed.until("model call")
        typed.leave()
    said = OURS.sub("", typed.written).replace("\r\n", "\n")
    assert not [char for char in said if (char < " " and char not in "\n\r") or "\x7f" <= char <= "\x9f"], said
    assert MARK in said and "\x1b]" not in typed.written
    asked = cluster.entries("RunRequested")[-1]
    assert "\u202egnp.exe\u2066".encode() in b"".join(filter(None, asked.bodies))  # what was said is what was pasted
