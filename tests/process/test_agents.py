"""Agents of a home: who they are, and sessions with each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cluster import Cluster, cluster_in, eventually
from hobus.config.snapshot import load_snapshot
from hobus.launch.console import exit_codes
from tests.process.pseudo_terminal import typing

pytestmark = pytest.mark.process


def give_agent(home_config: Path, name: str, **changed: object) -> None:
    shipped = load_snapshot().agents["ADMIN"].model_dump(mode="json")
    (home_config / "agents").mkdir(parents=True)
    (home_config / "agents" / f"{name}.json").write_text(json.dumps({**shipped, "agent_id": name, **changed}))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = cluster_in(tmp_path_factory.mktemp("two") / "home")
    tools = ["list_packages", "verify_ledger"]
    may = {"tools": tools, "providers": ["*"], "models": ["*"], "paths": []}
    give_agent(cluster.home.config, "CLERK", tools=tools, permissions=may)
    cluster.up("--detach")
    try:
        yield cluster
    finally:
        cluster.end()


def test_a_session_is_with_the_agent_that_was_named_and_stays_so(two):
    """By `ask` and by `chat`; a session of one agent is refused to another; an agent that is none is named with those that are."""
    before = len(two.entries("PROMPT_SENT"))
    answered = two.ask("what packages are installed?", "--agent", "clerk")
    assert answered["outcome"] == "success"
    session = answered["session_id"]
    assert {entry.provenance.agent_id for entry in two.entries("PROMPT_SENT")[before:]} == {"CLERK"}
    other = two("ask", "--session", session, "--agent", "ADMIN", "hello")
    assert other.code == exit_codes.REFUSED and "CLERK" in other.err
    assert two.ask("hello", "--session", session)["outcome"] == "success"
    with typing("chat", "--home", str(two.home.root), "--agent", "Clerk") as chat:
        chat.at_prompt()
        chat.type("hello")
        chat.until(" tokens · ")
        chat.type("/session")
        chat.until("agent CLERK")
        chat.at_prompt()
        chat.type("/exit")
        assert chat.end() == exit_codes.OK
    for words in (("ask", "--agent", "NOBODY", "hello"), ("chat", "--agent", "NOBODY"), ("agent show", "NOBODY")):
        refused = two(*words)
        assert refused.code == exit_codes.USAGE and "there are ADMIN, CLERK" in refused.err


def test_an_ask_that_is_interrupted_says_that_its_turn_goes_on_and_how_to_get_its_answer(two):
    """The same question under the input id that it names gets the answer of that turn."""
    before = len(two.entries("RunRequested"))
    with typing("ask", "--home", str(two.home.root), "is the ledger intact?", columns=500) as asked:
        eventually(lambda: two.entries("RunRequested")[before:])
        asked.press("c")
        assert asked.end() != exit_codes.OK
    text = " ".join(asked.text.split())
    assert "the turn goes on" in text
    input_id = text.partition("--input-id ")[2].split()[0]
    assert "intact" in two.ask("is the ledger intact?", "--input-id", input_id)["response"]
    assert len(two.entries("RunRequested")) == before + 1
