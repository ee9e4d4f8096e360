"""Answers as Markdown on a terminal."""

from __future__ import annotations

import re

import pyte
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from hobus.launch.cli.chat.markdown import render_markdown
from hobus.launch.console.output import COMMANDS, make_harmless

CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def coloured(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")


def plain(text: str, columns: int = 60) -> list[str]:
    return [CODES.sub("", line) for line in render_markdown(make_harmless(text), columns=columns)]


def test_marks_become_what_they_mean():
    """Emphasis, headings, lists, code between its fences, tables and quotes."""
    text = "# Title\n\n**bold** and `code`\nnext line\n\n- one\n- two\n\n```python\nx = 1\n    y\n```\n> said\n\n|a|b|\n|-|-|\n|1|日本|"
    rows = plain(text)
    assert rows[:7] == ["Title", "", "bold and code", "next line", "", " • one", " • two"]
    assert rows[8:12] == ["```python", "x = 1", "    y", "```"]
    assert "▌ said" in rows and any(row.split() == ["1", "日本"] for row in rows)
    screen = pyte.Screen(60, 30)
    pyte.Stream(screen).feed("\r\n".join(render_markdown(text, columns=60)))
    assert screen.buffer[0][0].bold and screen.buffer[2][0].bold and not screen.buffer[2][5].bold
    assert screen.buffer[2][9].fg == "cyan"


def test_what_other_renderers_lose_stays():
    """Tags, what looks like one, where links and images lead, and where lines end."""
    text = "use List<int> and <div>this</div>\n<script>x</script>\n[here](http://x.y) ![a picture](http://z)"
    flat = " ".join(plain(text, 200))
    for words in ("List<int>", "<div>this</div>", "<script>x</script>", "here (http://x.y)", "a picture (http://z)"):
        assert words in flat
    assert len(plain(text, 200)) == 3


@pytest.mark.parametrize(
    "text",
    ["\x1b[2Jx", "\x9b31mx", "&#27;[2Jx", "&#x1b;x", "&#155;x", "&#x202e;x", "a&#13;b", "[x](http://y\x1b]8;;z\x07)", "`\x1b]0;t\x07`",
     "```\n\x1b[31mred\n```", "<http://x.y/\u202egnp.exe>", "[a]: http://x\n\n[a]", "&lrm;&rlm;x"],
)  # fmt: skip
def test_no_answer_commands_the_terminal(text):
    """Neither as it is, nor as an entity that the parser turns into the character, nor as a hidden link."""
    for line in render_markdown(make_harmless(text), columns=40):
        assert not COMMANDS.search(CODES.sub("", line)), line
        assert "\x1b]" not in line


WORDS = st.text(alphabet=st.sampled_from("ab 日🙂*_`#->\n1.|~<&;\\"), max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(WORDS, st.integers(12, 80))
def test_no_word_is_lost_and_no_row_is_too_wide(text, columns):
    rows = plain(text, columns)
    assert sorted(char for row in rows for char in row if char in "ab日🙂") == sorted(
        char for char in text if char in "ab日🙂"
    )
    assert all(cell_len(row) <= columns for row in rows)
