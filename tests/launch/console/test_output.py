"""What commands print."""

import json
import time
import unicodedata

import msgspec
import pytest
from pydantic_core import SchemaError

from hobus.launch.console import output
from hobus.launch.console.interrupt import is_interrupt


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (119, "119 s"), (120, "2 m"), (7200, "2 h"), (200_000, "2 d")],
)
def test_durations_read_as_people_say_them(seconds, text):
    """Each unit begins at two of it."""
    assert output.format_duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 K"), (40 * 2**20, "40 M")])
def test_sizes_read_as_people_say_them(count, text):
    """Steps of 1024."""
    assert output.format_size(count) == text


def test_json_shows_bytes_as_hexadecimal():
    """Every value that a message can hold becomes JSON, at any depth."""
    assert json.loads(output.as_json({"a": [b"\x00\xff", {"b": b""}], "c": 1})) == {"a": ["00ff", {"b": ""}], "c": 1}
    inner = msgspec.defstruct("Inner", [("data", bytes)])(b"\x01")
    outer = msgspec.defstruct("Outer", [("inner", inner.__class__), ("many", tuple)])(inner, (inner,))
    assert json.loads(output.as_json({"s": outer})) == {"s": {"inner": {"data": "01"}, "many": [{"data": "01"}]}}


def test_a_table_without_a_terminal_has_no_colour(capsys):
    """Piped output is plain text in columns without trailing blanks."""
    output.print_table(("ACTOR", "STATE"), [("ho1/1", "ready"), ("ledger/1", "backoff(2)")], coloured=1)
    assert capsys.readouterr().out == "ACTOR     STATE\nho1/1     ready\nledger/1  backoff(2)\n"


def test_no_color_wins_over_a_terminal(monkeypatch):
    """NO_COLOR is obeyed even where colours could be shown."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.colours()


@pytest.mark.parametrize(("term", "shown"), [("xterm", True), ("dumb", False), ("", False)])
def test_a_terminal_that_takes_no_commands_gets_no_colours(monkeypatch, term, shown):
    """With or without NO_COLOR."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", term)
    assert output.colours() is shown


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("colour", [None, *sorted(set(output.STATE_COLOURS.values()))])
def test_every_code_of_ours_reaches_the_terminal(monkeypatch, colour, bold):
    """None is escaped, and read by a person as text."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    styled = output.style("ready", colour, bold=bold)
    assert styled.startswith("\x1b[") == (bold or colour is not None)
    assert output.join_styled("a ", styled) == f"a {styled}"


def test_no_cell_forges_a_row_or_moves_the_cursor(capsys):
    """Whatever a stranger calls itself: one line each, no control characters."""
    output.print_table(("ACTOR", "NOTE"), [("ho1/1", "\x1b[31mEVIL\nho1/99  ready\x9b2J\u202e")])
    shown = capsys.readouterr().out
    assert shown.count("\n") == 2 and all(line.isprintable() for line in shown.splitlines())
    assert shown.splitlines()[1].startswith("ho1/1  \ufffd[31mEVIL\ufffdho1/99")


def test_what_commands_a_terminal_is_escaped_and_json_keeps_its_meaning(monkeypatch):
    """C0, DEL, C1, other directions, line separators, halves of pairs; line ends and tabs stay."""
    every = "".join(map(chr, range(0x3000))) + "\ud800\U0001f600"
    text = json.dumps({"x": every}, ensure_ascii=False)
    safe = output.escape(text)
    assert json.loads(safe) == {"x": every}
    kept = [char for char in output.escape(every) if unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs")]
    assert sorted(kept) == ["\t", "\n"]
    assert not [
        char
        for char in safe
        if unicodedata.bidirectional(char) in {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    ]
    assert output.escape("\x1b[8mhidden\r\nnext\rover") == "\\u001b[8mhidden\r\nnext\\u000dover"


def test_only_colours_of_ours_reach_a_terminal(monkeypatch, capsys):
    """The very same code in somebody's text is escaped, beside ours and inside of it; FORCE_COLOR colours a pipe."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.say("\x1b[32mforged\x1b[0m ", output.style("ok \x1b[31m", "green"))
    output.note(output.join_styled(output.style("x", "red", to_stderr=True)), "\x1b[0m")
    said = capsys.readouterr()
    assert said.out == "\\u001b[32mforged\\u001b[0m \x1b[32mok \\u001b[31m\x1b[0m\n"
    assert said.err == "\x1b[31mx\x1b[0m\\u001b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    output.say(output.style("ok", "green"))
    assert capsys.readouterr().out == "ok\n"


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (12345, "12,345 tokens")]
)
def test_what_is_counted_is_said_in_english(count, said):
    """One of it, or several; thousands are separated."""
    assert output.format_count(count, "token") == said
    assert output.format_count(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(
    ("zone", "named", "clock"),
    [("UTC", "UTC", "12:00:00.250"), ("CET-1", "+01:00", "13:00:00.250"), ("XYZ3:30", "-03:30", "08:30:00.250")],
)
def test_the_time_of_day_is_that_of_the_zone_that_is_named(monkeypatch, zone, named, clock):
    """UTC by its name, any other one by what is to be taken off; no time is no time of day."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    assert (output.format_zone(43_200.0), output.format_clock_time(43_200.25)) == (named, clock)
    assert output.format_clock_time(0.0) == "--:--:--.---"
    monkeypatch.undo()
    time.tzset()


def test_what_stands_behind_a_sentence_takes_the_place_of_its_full_stop(capsys):
    output.note_lines([("cancelled: wrong file.", "red"), ("no answer", "red")], behind="; SES-1")
    output.note_lines([("It was cancelled.", "red")])
    assert capsys.readouterr().err.splitlines() == [
        "cancelled: wrong file; SES-1",
        "no answer; SES-1",
        "It was cancelled.",
    ]


def test_a_pipe_gets_every_character_of_a_table(capsys):
    """However long: scripts read it."""
    output.print_table(("FILE", "NOTE"), [("x" * 500, "y" * 500), ("a", "")])
    assert capsys.readouterr().out.splitlines()[1:] == [f"{'x' * 500}  {'y' * 500}", "a"]


def test_an_error_that_is_its_own_context_s_cause_is_looked_through_once():
    """As where a task group's fault is raised anew while another one is handled."""
    first, second = ValueError("a"), KeyError("b")
    first.__context__, second.__cause__ = second, first
    assert not is_interrupt(first)
    second.__context__ = ExceptionGroup("of tasks", [first, ValueError("c")])
    assert not is_interrupt(ExceptionGroup("outer", [second]))
    first.__cause__ = KeyboardInterrupt()
    assert is_interrupt(second)
    built = 'Error building "model" validator:\n  KeyboardInterrupt: '
    assert is_interrupt(SchemaError(built)) and not is_interrupt(ValueError(built))


def test_long_work_says_how_far_it_is_to_a_person_alone(monkeypatch, capsys):
    """Every two seconds at most."""
    now = iter([0.0, 1.0, 2.5, 2.5, 3.0, 5.0, 5.0])
    monkeypatch.setattr("hobus.launch.console.output.is_terminal", lambda _stream: True)
    at = output.tell_progress(now.__next__, "entries verified:", 9_000)
    for count in (1_000, 2_000, 3_000, 4_000):
        at(count)
    assert capsys.readouterr().err == "entries verified: 2,000 of 9,000\nentries verified: 4,000 of 9,000\n"
    monkeypatch.setattr("hobus.launch.console.output.is_terminal", lambda _stream: False)
    at(5_000)
    assert capsys.readouterr().err == ""
