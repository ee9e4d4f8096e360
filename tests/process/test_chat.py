"""The chat as people meet it: a real cluster, a real terminal, pipes, and processes that die while an answer is written."""

from __future__ import annotations

import json
import os
import re
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cluster import Cluster, cluster_in, eventually
from bench.cluster import cluster as standing
from hobus.launch.console import exit_codes
from tests.journals import check_record
from tests.process import chat_transcript
from tests.process.pseudo_terminal import Typing, typing

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
FIRST_WORDS = "packages are installed:"
LAST_WORDS = "Prompt contracts"


@pytest.fixture(scope="module")
def slow() -> Iterator[Cluster]:
    """A cluster whose model takes over a second for each answer, and says it word by word; each test has its own session.

    Without memory, which would take what one test says into the answers of another.
    """
    with standing({"gateway.providers.offline.latency_ms": 1200, "ho3.enabled": False}) as up:
        yield up
        assert up("down").code == exit_codes.OK
        check_record(up.entries())


@pytest.fixture(scope="module")
def quick() -> Iterator[Cluster]:
    with standing({}) as up:
        yield up


@pytest.fixture(autouse=True)
def history_of_its_own(request) -> None:
    """No arrow and no search in a test finds what another one typed."""
    for name in {"slow", "quick"} & set(request.fixturenames):
        request.getfixturevalue(name).home.chat_history.unlink(missing_ok=True)


def up_with_latency(directory: Path, latency_ms: int) -> Cluster:
    cluster = cluster_in(directory / "home")
    cluster.up("--detach", settings={"gateway.providers.offline.latency_ms": latency_ms})
    return cluster


def chat_of(cluster: Cluster, *words: str) -> list[str]:
    return ["chat", "--home", str(cluster.home.root), *words]


def answered(chat: Typing, times: int) -> None:
    chat.until(" tokens · ", times)


def test_a_conversation_in_a_terminal(slow):
    """Answers grow word by word and stand once; the agent remembers; commands tell; Ctrl-C stops waiting, not the turn."""
    with typing(*chat_of(slow)) as chat:
        chat.until("you>")
        chat.type(QUESTION)
        answered(chat, 1)
        chat.type("what did I ask before?")
        answered(chat, 2)
        chat.until("you>", 3)
        chat.type("/cost")
        chat.until("tokens are left")
        chat.type("/session")
        chat.until("hobus chat --session")
        chat.type("/nonsense")
        chat.until("no such command")
        chat.type("hello")
        chat.until("Hello again")
        chat.press("c")
        chat.until("/wait fetches it")
        chat.type("/wait")
        answered(chat, 3)
        chat.until("you>", 8)
        assert chat.leave() == exit_codes.OK
        text = chat.text
    assert text.count(FIRST_WORDS) == text.count(LAST_WORDS) == 1
    assert f"You asked: “{QUESTION}”" in text
    assert text.count("Hello again.") == 1 and "tool list_packages" in text
    grown = {row for moment in chat.moments for row in moment.splitlines() if row.startswith("You asked:")}
    assert len(grown) > 2, "the answer came at once"
    assert "Traceback" not in text and "\x1b" not in text
    history = slow.home.chat_history
    assert QUESTION in history.read_text() and history.stat().st_mode & 0o777 == 0o600


def test_what_waits_for_a_yes_is_confirmed_by_one_key(quick):
    """`y` behind the answer that asks; behind another line it is a message, and confirms nothing."""
    with typing(*chat_of(quick), columns=200) as chat:
        chat.at_prompt()
        for number, rule in enumerate(["Never delete a package.", "Never stop the ledger."], start=1):
            chat.type(rule)
            chat.until("y confirms it", number)
            if number == 1:
                chat.type("hello")
                answered(chat, 2)
            chat.type("y")
        chat.until("active Never stop the ledger.")
        chat.leave()
    shown = quick("memory overlays", "--all", "--json").json["overlays"]
    states = {one["artifact"]["context_line"]: one["state"] for one in shown}
    assert states == {"Never delete a package.": "pending", "Never stop the ledger.": "active"}


def test_what_is_typed_while_an_answer_is_written_is_the_next_message_and_disturbs_nothing(slow):
    """Typing ahead: it is recorded as a follow-up at once, and answered after."""
    with typing(*chat_of(slow)) as chat:
        chat.until("you>")
        chat.type(QUESTION)
        chat.until(FIRST_WORDS)
        chat.type("what did I ask before?")
        answered(chat, 2)
        assert chat.leave() == exit_codes.OK
    assert chat.text.count("you> what did I ask before?") == 2, "as it was typed, and above its answer"
    assert chat.text.count(f"You asked: “{QUESTION}”") == 1
    assert chat.text.count(FIRST_WORDS) == 1


def test_a_pasted_text_is_one_message_at_the_prompt_and_typed_ahead(slow):
    """Three lines are one turn, with their line ends; so is a line of one's own with Alt-Return in it. Tab and the arrow help."""
    pasted = "what packages are installed?\n    indented\nlast line"
    with typing(*chat_of(slow), columns=120) as chat:
        chat.at_prompt()
        chat.paste(pasted)
        chat.until("last line")
        chat.type("")
        chat.until(FIRST_WORDS)
        chat.paste(pasted.replace("last line", "the end"))
        chat.until("the end")
        chat.type("")
        answered(chat, 2)
        chat.type("hello\x1b\rthere")
        answered(chat, 3)
        os.write(chat.master, b"/co\t")
        chat.until("you> /cost")
        chat.press("u")
        os.write(chat.master, b"\x1b[31m")  # somebody's colours, which a terminal may also say of its mouse
        os.write(chat.master, b"\x1b[A")
        chat.until("hello there", 2)
        chat.press("c")
        chat.until("Ctrl-D leaves", 2)
        assert chat.leave() == exit_codes.OK
    session = slow.entries("RunRequested")[-1].provenance.session_id
    asked = [turn["text"] for turn in slow("session show", "--json", session).json["turns"]]
    assert asked == [pasted, pasted.replace("last line", "the end"), "hello\nthere"]


@pytest.mark.parametrize("actor", ["gateway/1", "broker/1"])
def test_whoever_is_killed_while_an_answer_is_written_it_stands_once(slow, actor):
    """What was shown is taken back or completed; the turn is answered under its one input id, and the record is whole."""
    before = len(slow.entries("RunCompleted"))
    with typing(*chat_of(slow)) as chat:
        chat.until("you>")
        chat.type(QUESTION)
        chat.until(FIRST_WORDS)
        slow.kill(actor)
        answered(chat, 1)
        chat.type("what did I ask before?")
        answered(chat, 2)
        assert chat.leave() == exit_codes.OK
        text = chat.text
    assert text.count(FIRST_WORDS) == text.count(LAST_WORDS) == 1, text
    assert f"You asked: “{QUESTION}”" in text
    assert "error" not in text
    assert len(slow.entries("RunCompleted")) == before + 2
    eventually(lambda: all(row.state == "ready" for row in slow.run().children))


def test_who_stops_reading_stalls_nobody(slow):
    """A frozen client in the middle of its streamed answer: others are answered as ever, and it is when it wakes."""
    with typing("ask", "--home", str(slow.home.root), QUESTION) as frozen:
        frozen.until(FIRST_WORDS)
        frozen.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert slow.ask("hello")["outcome"] == "success"
        assert time.monotonic() - began < 25
        time.sleep(2)  # longer than the peer time-out: the broker has given it up
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.end() == exit_codes.OK
    assert frozen.text.count(FIRST_WORDS) == frozen.text.count(LAST_WORDS) == 1


def test_over_a_pipe_each_line_is_a_turn_and_the_answers_are_all_there_is(slow):
    """In order, in one session, without prompts, colours or pieces; exit code 0."""
    lines = f"{QUESTION}\n\n  \nwhat did I ask before?\n".encode()
    answer = slow("chat", stdin=lines)
    assert answer.code == exit_codes.OK and answer.err == ""
    assert answer.out.endswith(f"You asked: “{QUESTION}”\n") and answer.out.count(FIRST_WORDS) == 1
    assert "you>" not in answer.out and "\x1b" not in answer.out


def test_json_is_one_result_per_line_and_the_exit_code_that_of_the_worst(slow):
    """A line that is too long has a result too, and the next line is answered."""
    too_long = b"x" * 2_000_000
    answer = slow("chat", "--json", stdin=b"hello\n" + too_long + b"\nwhat did I ask before?\n")
    results = [json.loads(line) for line in answer.out.splitlines()]
    assert [result["outcome"] for result in results] == ["success", "error", "success"]
    assert len({result["session_id"] for result in results}) == 1
    assert answer.code == exit_codes.USAGE
    assert "hello" in results[2]["response"]


def test_an_error_is_no_answer_and_stands_on_stderr(slow):
    """Standard output stays empty, for `ask` and for `chat`; with --json the result is there."""
    slow.ask("hello", "--input-id", "conflict-1")
    refused = slow("ask", "--input-id", "conflict-1", "another text")
    assert (refused.code, refused.out) == (exit_codes.REFUSED, "") and "needs a new input id" in refused.err
    result = slow("ask", "--json", "--input-id", "conflict-1", "another text")
    assert result.json["code"] == "input_conflict"
    session = result.json["session_id"]
    with typing(*chat_of(slow, "--session", session)) as chat:
        chat.until("you>")
        chat.type("/end")
        chat.until("ended after 1 answered turn")
    ended = slow("chat", "--session", session, stdin=b"hello\n")
    assert (ended.code, ended.out) == (exit_codes.REFUSED, "") and "session_closed" in ended.err


@pytest.mark.parametrize(
    ("number", "is_asked"),
    [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGQUIT, False)],
)
def test_a_signal_leaves_the_terminal_as_it_was(slow, number, is_asked):
    """At the prompt and during an answer: echo and lines again; the process still ends by the signal."""
    with typing(*chat_of(slow)) as chat:
        before = termios.tcgetattr(chat.master)
        chat.at_prompt()
        if is_asked:
            chat.type(QUESTION)
            chat.until(FIRST_WORDS)
        assert not termios.tcgetattr(chat.master)[3] & termios.ECHO
        chat.process.send_signal(number)
        assert chat.end() == -number
        assert termios.tcgetattr(chat.master)[3] == before[3]


def test_a_cluster_that_goes_away_is_said_and_one_that_comes_back_is_found(tmp_path):
    """The chat stays; the turn that was not answered is fetched after the restart."""
    cluster = up_with_latency(tmp_path, 1500)
    try:
        with typing(*chat_of(cluster)) as chat:
            chat.until("you>")
            chat.type("hello")
            answered(chat, 1)
            assert cluster("down").code == 0
            chat.type(QUESTION)
            chat.until("no cluster runs")
            cluster.up("--detach", "--config", str(tmp_path / "home.json"))
            chat.type("what did I ask before?")
            answered(chat, 2)
            assert chat.leave() == exit_codes.OK
        assert "You asked: “hello”" in chat.text and "Traceback" not in chat.text
    finally:
        cluster.end()
    refused = cluster("chat", stdin=b"hello\n")
    assert refused.code == exit_codes.UNREACHABLE and "hobus up" in refused.err


def test_the_conversation_on_the_page_is_one_that_happens(tmp_path):
    """docs/chat.md shows it word for word, but for ids, times and figures."""

    def masked(text: str) -> list[str]:
        figures = re.sub(
            r"\d+(\.\d+)?( ms| s)?",
            "N",
            re.sub(r"SES-[0-9a-f]{8}|[0-9a-f]{16}…|[0-9a-f]{8}-…|@[0-9a-f]{8}", "ID", text),
        )
        return [" ".join(line.split()) for line in figures.splitlines()]

    assert masked(chat_transcript.held(tmp_path)) == masked(chat_transcript.on_page())
