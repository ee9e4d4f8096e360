"""`/why` in the chat and `hobus why` where it is hard: no supervisor, no run, forty columns, a C locale."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from bench.cluster import Cluster
from hobus.launch.console import exit_codes
from tests.process.pseudo_terminal import typing
from tests.process.test_shown import OURS, run

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"


def test_the_chat_explains_its_turns_as_the_command_does(cluster: Cluster) -> None:
    """The last one, one by its number, and one that nobody supervised, with nobody there who could be asked."""
    cluster.up()
    with typing("chat", "--home", str(cluster.home.root), columns=100, rows=50) as chat:
        chat.at_prompt()
        chat.type("/why")
        chat.until("there is no session yet")
        for number in (1, 2):
            chat.at_prompt()
            chat.type(f"{QUESTION} {number}")
            chat.until(" tokens · ", number)
        chat.at_prompt()
        session = cluster.entries("SESSION_START")[0].provenance.session_id
        name = f"SES-{session[:8]}"
        chat.type("/why")
        chat.until(f"{name}-2: success")
        chat.until("context by ATT-ADMIN-001")
        chat.until("under PRC-SYNTHESIZE-001")
        chat.until(f"why {name}-2 --prompts")
        chat.at_prompt()
        chat.type("/why 1")
        chat.until(f"< {QUESTION} 1")
        chat.until(f"{name}-1: success")
        chat.at_prompt()
        chat.type("/why 7")
        chat.until("it has turns 1 to 2")
        chat.at_prompt()
        assert cluster("drain", "ho2/1").code == 0
        chat.type("hello")
        chat.until("degraded")
        chat.at_prompt()
        chat.type("/why")
        chat.until(": degraded")
        chat.until("under PRC-DEGRADED-001")
        chat.leave()
    cluster.verify()


def test_an_account_fits_a_narrow_terminal_and_any_locale(cluster: Cluster) -> None:
    """No row of a table is broken by the terminal; what an encoding lacks is escaped."""
    cluster.up()
    session_id = cluster.ask("say hällo 你好 \U0001f600")["session_id"]
    with typing("why", session_id, "--home", str(cluster.home.root), columns=40, rows=50) as typed:
        assert typed.end() == exit_codes.OK
    assert "context by ATT-ADMIN-001" in typed.written
    cells = [line for line in OURS.sub("", typed.written).splitlines() if re.match(r" {4}\S|(STAGE|ROLE|WHAT) ", line)]
    assert cells and max(map(cell_len, cells)) <= 40
    env = {"PYTHONIOENCODING": "latin-1"}
    plain = run("why", session_id, "--home", str(cluster.home.root), env=env)
    assert plain.returncode == 0 and b"Traceback" not in plain.stderr and b"h\xe4llo \\u4f60" in plain.stdout
