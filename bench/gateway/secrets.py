"""R10: secrets planted in keys, tokens, environment, configuration and prompts, and every place where one could show.

A cluster has three providers on loopback (a key from the environment, a typed key in a private file, Anthropic's
messages) whose servers give back what they were sent, the key and the prompt among it: in answers, tool names, errors
of each kind, headers, redirections, and broken off in the middle. A remote worker joins by a token; configurations with
a secret in the wrong place are checked. A turn and two prompts are asked for each kind of fault, the gateway and the
ledger are killed in the middle of a call, and every command that shows anything is run. Then all of it is searched for
each secret, whole or halved.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import secrets
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from bench.cluster import Cluster, alive, answered, eventually, family_in, hobus
from bench.far_worker import FarWorker, token_of
from bench.gateway.parts import MODEL_ID, TIRELESS, call_of, cluster_of, kill_gateway
from bench.gateway.servers import ANTHROPIC, DONE, Request, completion, head, message, piece, served, sse, whole
from bench.report import cell, concluded, markdown
from hobus.bus.errors import RuntimeFault
from hobus.bus.join_token import decode
from hobus.bus.messages.base import unpack
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from hobus.launch.cluster.client import connect_bus

FAULTS = ("answer", "tool", "401", "403", "429", "500", "malformed", "header", "redirect", "broken off", "stuck")
LIMIT_S = 20.0
KEPT_IN_BODIES = "the words of a prompt"
MISPLACED = "configuration, in the wrong place"
PLACES = {"logs": "logs", "ledger": "ledger files", "spool": "ledger files", "run": "files while it runs"}
"""First part of a file's path in a home -> what it is called."""


@dataclass(slots=True)
class Found:
    looked: dict[str, int] = field(default_factory=dict[str, int])  # place -> bytes
    hits: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # secret -> place -> where there
    bodies: dict[str, int] = field(default_factory=dict[str, int])  # event type and number of those with prompts' words
    asked: dict[str, int] = field(default_factory=dict[str, int])  # outcome -> how many turns and prompts
    sent: dict[str, int] = field(default_factory=dict[str, int])  # provider -> requests that had its own key

    @property
    def faults(self) -> list[str]:
        found = [(secret, *hit) for secret, places in self.hits.items() for hit in places.items()]
        shown = [f"{secret}, {place}: {where}" for secret, place, wheres in found for where in wheres]
        return shown + [f"{provider}: never asked" for provider, count in self.sent.items() if not count]


class _Search:
    """Looks for secrets in bytes."""

    def __init__(self, planted: Mapping[str, str | bytes]) -> None:
        self.found = Found(hits={name: {} for name in planted})
        self._needles = {name: _needles(value) for name, value in planted.items()}

    def names_in(self, data: bytes) -> list[str]:
        small = data.lower()
        return [name for name, needles in self._needles.items() if any(needle in small for needle in needles)]

    def look(self, place: str, where: str, data: bytes, *, unless: tuple[str, ...] = ()) -> None:
        """Notes each secret in this data; `unless`: those that belong there."""
        self.found.looked[place] = self.found.looked.get(place, 0) + len(data)
        for name in self.names_in(data):
            if name not in unless:
                self.found.hits[name].setdefault(place, []).append(where)


def _needles(value: str | bytes) -> list[bytes]:
    data = value.encode() if isinstance(value, str) else value
    half = len(data) // 2
    encoded = [base64.b64encode(data).rstrip(b"="), base64.urlsafe_b64encode(data).rstrip(b"="), data.hex().encode()]
    return [one.lower() for one in (data, data[:half], data[half:], *encoded)]


class _Mirror:
    """Providers that give back what they were sent, in the way that is wanted just now."""

    def __init__(self) -> None:
        self.way = "answer"
        self.begun = threading.Event()
        self.requests: list[Request] = []

    async def behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        key = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        is_messages = request.path.endswith("/messages")
        said = f"{key} {request.json['messages'][-1]['content']}" if request.body else key
        if request.path.endswith("/models"):
            writer.write(whole({"data": [{"id": MODEL_ID}, {"id": key}]}))
        elif self.way in ("401", "403", "429", "500"):
            writer.write(whole({"error": {"message": said, "type": key}}, int(self.way), x_key=key))
        elif self.way == "redirect":
            writer.write(head(307, location=f"http://127.0.0.1:9/{key}", content_length=0))
        elif self.way == "malformed":
            writer.write(whole(f'{{"choices": {key}'))
        elif self.way == "header":
            writer.write(whole(completion("fine"), content_encoding=key, x_key=key))
        elif self.way == "broken off":
            writer.write(head(200, content_type="application/json", content_length=9999) + key.encode())
        elif self.way == "stuck":
            writer.write(head(200, content_type="application/json"))
            self.begun.set()
            await asyncio.sleep(LIMIT_S)
        elif is_messages:
            writer.write(whole(message([{"type": "text", "text": said}])))
        elif self.way == "tool":
            call = {"id": "1", "type": "function", "function": {"name": key, "arguments": json.dumps({"key": key})}}
            called = completion(None, message={"tool_calls": [call]}, choice={"finish_reason": "tool_calls"})
            writer.write(whole(called))
        elif request.json.get("stream"):
            usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
            events = sse(piece(content=said), piece("stop"), usage)
            writer.write(head(content_type="text/event-stream") + events + DONE)
        else:
            writer.write(whole(completion(said)))
        await writer.drain()


def drill(faults: tuple[str, ...] = FAULTS) -> Found:
    """All of it, once."""
    keys = {name: f"sk-{secrets.token_hex(16)}" for name in ("mine", "filed", "other")}
    planted: dict[str, str | bytes] = {
        "a key from the environment": keys["mine"], "a key that was typed": keys["filed"],
        "Anthropic's key": keys["other"], "variables of the shell": secrets.token_hex(16),
        MISPLACED: secrets.token_hex(16), KEPT_IN_BODIES: secrets.token_hex(16),
    }  # fmt: skip
    shell, misplaced, words = (str(planted[name]) for name in ("variables of the shell", MISPLACED, KEPT_IN_BODIES))
    variables = ("A_SECRET", "OPENAI_API_KEY", "OPENAI_ORG_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    mirror, said = _Mirror(), list[tuple[str, bytes]]()
    with ExitStack() as stack:
        server = stack.enter_context(served(mirror.behave))
        settings = TIRELESS | {"gateway.attempts_max": 2, "gateway.request_timeout_ms": 5000}
        cluster = stack.enter_context(cluster_of({"mine": server.url}, settings, is_up=False, OTHER_KEY=keys["other"]))
        cluster.env |= dict.fromkeys(variables, shell) | {"THE_KEY": keys["mine"]}
        _add_providers(cluster, server.url, keys["filed"], said)
        _check_configurations(cluster, misplaced, said)
        cluster.up("--detach", "--listen", "127.0.0.1:0")
        token = token_of(cluster)
        planted |= {"a join token": token[len(token) // 2 :], "the secret in it": decode(token).secret}
        far_directory = cluster.home.root.parent / "far"
        far_directory.mkdir()
        worker = FarWorker(far_directory / "one", ["join", token], env=cluster.env)
        stack.callback(worker.end)
        worker.works()
        told, connection = asyncio.run(_asked(cluster, mirror, words, faults))
        planted["a connection's token"] = connection
        search = _Search(planted)
        _run_commands(cluster, said)
        # The worker's launcher is a process of its own: what it started was executed with less.
        families = [*family_in(cluster.home), *psutil.Process(worker.process.pid).children(recursive=True)]
        for process, kind in itertools.product(families, ("environ", "cmdline")):
            with suppress(OSError):
                data = Path(f"/proc/{process.pid}/{kind}").read_bytes()
                search.look("/proc", f"{kind} of {process.name()}", data)
        _look_at_files(cluster, [cluster.home.run], search)
        worker.end()
        assert cluster("down").code == 0
        assert alive(family_in(cluster.home)) == []
        _look_at_files(cluster, [cluster.home.root, far_directory], search)
        _look_at_records(cluster.entries(), search)
        for what, data in said:
            # A look into bodies, which the record notes, is there to show the words of prompts; nothing else does.
            place, unless = "tap" if what.startswith("tap") else "commands", (KEPT_IN_BODIES,) * ("--bodies" in what)
            search.look(place, what, data, unless=unless)
        for what, outcome, data, is_answer in told:
            search.found.asked[outcome] = search.found.asked.get(outcome, 0) + 1
            # A model may repeat what it was asked; a fault may not.
            search.look("answers" if is_answer else "errors", what, data, unless=(KEPT_IN_BODIES,) * is_answer)
        _look_at_requests(mirror, keys, search)
        cluster.verify()
    return search.found


def _add_providers(cluster: Cluster, url: str, key: str, said: list[tuple[str, bytes]]) -> None:
    typed = ("filed", "--kind", "openai", "--base-url", f"{url}/v1", "--model", f"{MODEL_ID}=1/2/0.5", "--key", "stdin")
    answer = cluster("provider add", *typed, stdin=key.encode())
    assert answer.code == 0, answer.err
    said.append(("provider add", (answer.out + answer.err).encode()))
    path = cluster.home.config / "admin_config.json"
    config = json.loads(path.read_text())
    config["gateway"]["providers"]["other"] = {**ANTHROPIC, "base_url": url, "key": "env:OTHER_KEY"}
    path.write_text(json.dumps(config))


def _check_configurations(cluster: Cluster, secret: str, said: list[tuple[str, bytes]]) -> None:
    """Each with the secret where none may be: refused, in words without it."""
    path = cluster.home.config / "admin_config.json"
    shipped = path.read_text()
    urls = (f"http://me:{secret}@127.0.0.1/v1", f"http://127.0.0.1/v1?key={secret}")
    for where, value in (("key", secret), ("key", f"env:{secret} x"), *(("base_url", url) for url in urls)):
        config = json.loads(shipped)
        config["gateway"]["providers"]["mine"][where] = value
        path.write_text(json.dumps(config))
        for command in ("config check", *(("provider list", "provider check", "up") if value == secret else ())):
            answer = cluster(command)
            assert answer.code != 0, f"{command} took {where} {value}"
            said.append((f"{command} with {where}", (answer.out + answer.err).encode()))
    path.write_text(shipped)


async def _asked(
    cluster: Cluster, mirror: _Mirror, words: str, faults: tuple[str, ...]
) -> tuple[list[tuple[str, str, bytes, bool]], str]:
    """What somebody was told, by fault: (of what, outcome, bytes, whether it is an answer); and a connection's token."""
    told: list[tuple[str, str, bytes, bool]] = []
    place = cluster.place
    async with connect_bus(place, "door") as door, connect_bus(place, "ho1") as executor:

        async def heard(name: str, asking: Awaitable[TurnResult | PromptResponse]) -> None:
            try:
                answer = await asking
            except RuntimeFault as fault:
                told.append((name, f"fault {fault.code}", str(fault).encode(), False))
            else:
                is_answer = answer.outcome in ("success", "degraded", "SUCCESS")
                told.append((name, answer.outcome, answer.model_dump_json().encode(), is_answer))

        def prompted(key: str, provider_id: str) -> Awaitable[PromptResponse]:
            of = {"says": f"repeat {words}", "provider_id": provider_id, "model_id": MODEL_ID}
            wanted = call_of(key, derive_session_id("door", key), **of)
            return executor.request("gateway", wanted, expect=PromptResponse, timeout_s=8, message_id=key)

        for fault in faults:
            mirror.way = fault
            mirror.begun.clear()
            name = fault.replace(" ", "-")
            turn = answered(door, f"repeat {words} please", input_id=f"in-{name}", timeout_s=LIMIT_S, stream=True)
            asking = [asyncio.ensure_future(heard(f"in-{name}", turn))]
            for provider_id in ("filed", "other"):
                key = f"WO-{name}-{provider_id}#1"
                asking.append(asyncio.ensure_future(heard(key, prompted(key, provider_id))))
            if fault == "stuck":  # both ends of the record die under it; what follows is answered
                await asyncio.to_thread(mirror.begun.wait, LIMIT_S)
                cluster.kill("ledger/1")
                kill_gateway(cluster)
                mirror.way = "answer"
            await asyncio.gather(*asking)
            print(fault, [(what, outcome) for what, outcome, _, _ in told[-3:]], file=sys.stderr, flush=True)
        await asyncio.to_thread(eventually, lambda: all(row.state == "ready" for row in cluster.run().children))
        return told, executor._hello.token


def _run_commands(cluster: Cluster, said: list[tuple[str, bytes]]) -> None:
    """Every one that shows anything; not with bodies, which are there to show the words of prompts."""
    for words in (
        "provider list", "provider list --json", "provider check", "provider check --json", "ps", "ps --json", "doctor",
        "logs -n 100000", "logs -n 100000 --json", "tools", "cost", "cost --by session --json", "budget --json", "breaker",
        "breaker --json", "token list", "keys list", "session list --json", "memory overlays", "memory signals", "memory stats", "config check",
        "ledger show --limit 100000", "ledger show --limit 100000 --json", "ledger verify",
        "tap --since 10m --all --format jsonl", "tap --since 10m --all",
    ):  # fmt: skip
        answer = cluster(words)
        assert answer.code == 0, answer.err
        said.append((words, (answer.out + answer.err).encode()))
    for words in ("session replay nobody", "request gateway gateway.read_budget {}", "--debug provider check mine"):
        answer = hobus(*words.split(), env={**cluster.env, "HOBUS_HOME": str(cluster.home.root)})
        said.append((words, (answer.out + answer.err).encode()))
    bodies = cluster("tap", "--since", "10m", "--all", "--bodies", "--format", "jsonl")
    said.append(("tap --bodies", (bodies.out + bodies.err).encode()))


def _look_at_files(cluster: Cluster, roots: list[Path], search: _Search) -> None:
    """Each file below these, of the home or of the worker's, by what it is."""
    for root in roots:
        for path in sorted(one for one in root.rglob("*") if one.is_file()):
            is_ours = path.is_relative_to(cluster.home.root)
            name = str(path.relative_to(cluster.home.root if is_ours else root))
            if name == "keys/provider-filed":
                continue  # where the key is kept, for its owner alone
            place = PLACES.get(name.partition("/")[0], "other files") if is_ours else "a worker's home"
            # The words of prompts stand in bodies: in the record's segments, and in what waits for the record.
            holds_bodies = place == PLACES["ledger"]
            search.look(place, name, path.read_bytes(), unless=(KEPT_IN_BODIES,) if holds_bodies else ())


def _look_at_records(entries: list[Entry], search: _Search) -> None:
    """Envelopes, and each body: only some of them may hold the words of a prompt."""
    bodies: Counter[str] = Counter()
    for entry in entries:
        search.look("records", f"{entry.event_type}, envelope", repr(entry._replace(bodies=[])).encode())
        for number, body in enumerate(entry.bodies):
            where, readings = f"{entry.event_type}/{number}", [body or b""]
            with suppress(Exception):
                readings.append(repr(unpack(body or b"")).encode())
            for data in readings:
                search.look("records", where, data, unless=(KEPT_IN_BODIES,))
                bodies[where] += KEPT_IN_BODIES in search.names_in(data)
    search.found.bodies = {where: count for where, count in sorted(bodies.items()) if count}


def _look_at_requests(mirror: _Mirror, keys: Mapping[str, str], search: _Search) -> None:
    """What providers were sent: their own key, the words that are for them, and nothing else."""
    by_key = {key: name for name, key in keys.items()}
    names = {"mine": "a key from the environment", "filed": "a key that was typed", "other": "Anthropic's key"}
    search.found.sent = dict.fromkeys(keys, 0)
    for request in mirror.requests:
        key = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        provider = by_key[key]
        search.found.sent[provider] += 1
        text = json.dumps([request.path, request.headers]).encode() + request.body
        search.look("requests to providers", request.path, text, unless=(names[provider], KEPT_IN_BODIES))


def table(found: Found) -> str:
    """A row per secret, a column per place."""
    places = sorted(found.looked)
    rows = [(secret, *(len(where.get(place, ())) for place in places)) for secret, where in found.hits.items()]
    sizes = ("looked through, KB", *(found.looked[place] // 1000 for place in places))
    told = f"Turns and prompts: {cell(found.asked)}. Bodies that hold the words of a prompt, as they must: {cell(found.bodies)}."
    return f"{markdown(('planted', *places), [*rows, sizes])}\n\n{told}"


OPTIONS: dict[str, str] = {}


def run(given: argparse.Namespace) -> int:
    """0 where no secret is anywhere that it must not be."""
    found = drill()
    how = "goal: 0 everywhere"
    return concluded(given, table(found), found.faults, figures=asdict(found), name="gateway secrets", how=how)
