"""Steering from the chat: a real cluster, real terminals, commands typed while a turn runs, from one or two of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from bench.cluster import Cluster, eventually
from bench.cluster import cluster as standing
from hobus.bus.messages.ids import derive_held_id
from hobus.launch.console import exit_codes
from tests.journals import check_record
from tests.process.pseudo_terminal import Typing, typing

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
FIRST_WORDS = "packages are installed:"
HELD = "is the ledger intact?"
CALL = derive_held_id("001", "verify_ledger", {}, "1.2")
ASKED = f"the turn waits for your approval of call {CALL}: verify_ledger {{}}"


@pytest.fixture(scope="module")
def slow() -> Iterator[Cluster]:
    """A cluster whose model takes over a second for each answer, and one tool of which needs an approval."""
    settings = {"gateway.providers.offline.latency_ms": 1200, "tools.approval": ["verify_*"], "ho3.enabled": False}
    with standing(settings) as up:
        yield up
        assert up("down").code == exit_codes.OK
        check_record(up.entries())


def chat_of(cluster: Cluster, *words: str) -> list[str]:
    return ["chat", "--home", str(cluster.home.root), *words]


def at_work(cluster: Cluster, chat: Typing, text: str) -> str:
    """A message is typed; its session, once its run has begun."""
    before = len(cluster.entries("RunRequested"))
    chat.at_prompt()
    chat.type(text)
    return eventually(lambda: cluster.entries("RunRequested")[before:])[0].provenance.session_id


def answered(chat: Typing, times: int) -> None:
    chat.until(" tokens · ", times)


def test_a_turn_is_steered_paused_and_resumed_by_its_own_chat(slow):
    """Each is confirmed and told when it takes effect; the answer heeds the steer, and stands once."""
    with typing(*chat_of(slow), rows=60) as chat:
        at_work(slow, chat, QUESTION)
        chat.type("/steer and which frameworks govern this system?")
        chat.until("steered: the next round of the turn sees it")
        chat.type("/pause")
        chat.until("the turn is paused")
        assert FIRST_WORDS not in chat.text
        chat.type("/pause")
        chat.until("refused (already_paused)")
        chat.until("next: /resume lets it go on")
        chat.type("/session")
        chat.until("open, Paused")
        chat.until("1 steer for its next round")
        chat.type("/nonsense")
        chat.until("/nonsense: no such command")
        chat.type("/resume")
        answered(chat, 1)
        assert chat.leave() == exit_codes.OK
    text = " ".join(chat.text.split())
    assert "the steer was taken up: “and which frameworks govern this system?”" in text
    assert text.count(FIRST_WORDS) == text.count("frameworks govern this system:") == 1
    assert "Traceback" not in text


def test_a_message_typed_meanwhile_is_answered_after_and_survives_the_chat(slow):
    """As a follow-up, in the record before it is confirmed; a chat that is gone is not needed for its answer."""
    with typing(*chat_of(slow)) as chat:
        session = at_work(slow, chat, QUESTION)
        chat.type("/followup what did I ask before?")
        chat.until("it is queued")
        chat.type("hello")
        chat.until("it is queued", 2)
        chat.process.kill()
    answers = eventually(lambda: [e for e in slow.entries("RunCompleted") if e.provenance.session_id == session][2:])
    assert answers
    listed = slow("session show", "--json", session).json["turns"]
    assert [turn["outcome"] for turn in listed] == ["success"] * 3
    assert listed[1]["reply"] == f"You asked: “{QUESTION}”" and listed[2]["reply"].startswith("Hello again")


def test_a_call_is_approved_by_the_other_terminal_and_denied_by_this_one(slow):
    """Both chats of the session are told what waits, with its arguments, and what the other one did."""
    with typing(*chat_of(slow)) as one:
        session = at_work(slow, one, HELD)
        one.until(ASKED)
        one.until(f"/approve {CALL} lets it run, /deny {CALL} does not")
        with typing(*chat_of(slow, "--session", session)) as two:
            two.until(ASKED)
            two.at_prompt()
            two.type("/approve 9")
            two.until("refused (call_not_open)")
            two.at_prompt()
            two.type("/approve")
            two.until(f"call {CALL} may run")
            one.until(f"somebody approved call {CALL}")
            answered(one, 1)
            two.at_prompt()
            two.type("/wait")
            answered(two, 1)
            assert two.text.count("The ledger is intact") == one.text.count("The ledger is intact") == 1
            one.at_prompt()
            one.type(HELD)
            again = derive_held_id("001", "verify_ledger", {}, "2.2")
            one.until(f"the turn waits for your approval of call {again}: verify_ledger {{}}")
            one.type("/deny not now")
            one.until("verify_ledger failed (denied)")
            assert two.leave() == exit_codes.OK
        assert one.leave() == exit_codes.OK


def test_ask_says_what_its_turn_waits_for_and_how_to_ask_again(slow):
    """On standard error with the command; another terminal lets it go on; at its deadline the input id is named."""
    asked = slow.start_ask(HELD, "--timeout", "60")
    session = eventually(lambda: [e for e in slow.entries("RunRequested") if _is_waiting(slow, e)])[-1]
    short = f"SES-{session.provenance.session_id[:8]}"
    time.sleep(1.0)
    assert slow("session approve", short).code == exit_codes.OK
    out, err = asked.communicate(timeout=120)
    assert json.loads(out)["outcome"] == "success"
    lets_it = f"hobus session approve {short} {CALL} --home {slow.home.root} lets it run"
    assert ASKED.encode() in err and lets_it.encode() in err
    late = slow("ask", "--timeout", "15", "--input-id", "late-1", HELD)
    assert (late.code, late.out) == (exit_codes.UNREACHABLE, "")
    assert "--input-id late-1" in late.err and "waits for an approval" in late.err


def _is_waiting(cluster: Cluster, requested: object) -> bool:
    session_id = requested.provenance.session_id  # type: ignore[attr-defined]
    moves = [e for e in cluster.entries("LifecycleChanged") if e.provenance.session_id == session_id]
    return len(moves) == 1 and session_id not in {e.provenance.session_id for e in cluster.entries("RunCompleted")}
