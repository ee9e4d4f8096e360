"""What a turn's context costs, and how much of its prompt a provider has seen before.

    python -m bench.context [--turns 40] [--json FILE]

*CPU*: the shipped template for ADMIN, with twenty turns of history and a hundred learned lines in force, assembled again and
again in one process; processor time of that alone, from the template to its hash, without the record. *Prefix*: a conversation
in the simulated cluster, its questions in turn out of a few; of each turn's first prompt for an answer, the share of characters
that are, from its beginning, those of the turn's before. Characters stand for tokens: whatever the tokenizer, identical leading
text has identical leading tokens. Tools stand before all of it in a request, and never change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.builders import shipped_snapshot
from bench.report import machine, measured_on, say_machine
from bench.simulated import SimulatedCluster
from hobus.actors.ho2_supervisor.attention.context import AttentionRequest, Fragment
from hobus.actors.ho2_supervisor.attention.engine import Engine
from hobus.actors.ho2_supervisor.attention.pipeline import Room
from hobus.actors.ho2_supervisor.turn import history, recall
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn, History
from hobus.actors.ho2_supervisor.turn.turn import history_limits
from hobus.bus.messages.memory import Artifact, Bias, Labels
from hobus.bus.record.text_parts import TextPart, common_chars
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.launch.lab.simulation.many import quiet

QUESTIONS = (
    "what packages are installed?",
    "and which frameworks govern this system?",
    "is the ledger intact?",
    "which tools do you have?",
    "what does this session cost so far?",
)
ASSEMBLIES = 300
LINES = 100
GOAL_MS = 3.0
AT = "2026-01-31T12:00:00.000000Z"


class Listens(OfflineProvider):
    """The shipped model, which keeps the text of each prompt for an answer."""

    def __init__(self) -> None:
        chars = shipped_snapshot().config.attention.chars_per_token
        super().__init__(provider_id="offline", latency_ms=0, chars_per_token=chars, sleep=asyncio.sleep)
        self.asked: dict[str, str] = {}

    async def complete(self, prompt, **how):
        if prompt.contract_id == "PRC-SYNTHESIZE-001":
            self.asked[prompt.idempotency_key] = "\0".join(message.text for message in prompt.messages)
        return await super().complete(prompt, **how)


def prompts(turns: int) -> list[str]:
    """The first prompt for an answer of each turn of one session."""
    model, firsts = Listens(), []
    with quiet(), SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
        session_id = None
        for number in range(turns):
            before = len(model.asked)
            result = cluster.ask(QUESTIONS[number % len(QUESTIONS)], input_id=f"in-{number}", session_id=session_id)
            assert result.outcome == "success", result.code
            session_id = result.session_id
            firsts.append(list(model.asked.values())[before])
    return firsts


def shares(texts: list[str]) -> list[float]:
    """Of each text but the first, the share that begins as the one before."""
    return [common_chars(one, other) / len(other) for one, other in pairwise(texts)]


def assembly_ms() -> list[float]:
    """Processor time of single assemblies."""
    snapshot = shipped_snapshot()
    limits = history_limits(snapshot.config, snapshot.agents["ADMIN"])
    past = History()
    for number in range(60):
        asked, said = f"{QUESTIONS[number % 5]} {number}", "PKG-ADMIN-AGENT-001 1.0.0: Administration agent\n" * 6
        past = history.remember(past, DeliveredTurn(f"i{number}", f"in/{number}", f"out/{number}", asked, said), limits)
    biases = [_bias(number) for number in range(LINES)]
    labels = Labels(domain=["system"], task=["inspect"])

    async def said_before(_config: Any, room: Room) -> AsyncGenerator[Fragment, None]:
        for one in history.shown(past, limits):
            yield Fragment("history", one.source_id, one.parts)

    async def learned(_config: Any, room: Room) -> AsyncGenerator[Fragment, None]:
        budget = recall.TokenBudget(snapshot.config.budget.ho3_bias_budget, limits.chars_per_token)
        for artifact in recall.select_biases(biases, labels, budget, AT):
            yield Fragment("memory", artifact.artifact_id, (TextPart(None, artifact.context_line),))

    async def measured() -> list[float]:
        found = []
        for number in range(ASSEMBLIES):
            engine = Engine.of(snapshot, now=time.monotonic)
            request = AttentionRequest(
                snapshot.agents["ADMIN"],
                snapshot.contracts["PRC-SYNTHESIZE-001"],
                "s",
                f"WO-{number}",
                AT,
                QUESTIONS[0],
            )
            began = time.process_time()
            context = await engine.assemble(
                request, engine.template_for(request), {"history": said_before, "memory": learned}
            )
            assert context.context_hash
            found.append((time.process_time() - began) * 1000)
        assert len(context.fragments) > 20, "the assembly that is measured has nothing in it"
        return found

    return asyncio.run(measured())


def _bias(number: int) -> Bias:
    line = f"When packages are listed, say which of them changed since yesterday ({number})."
    artifact = Artifact(
        artifact_id=f"ART-{number:020x}", artifact_type="task_pattern", labels=Labels(domain=["system"], task=[]),
        weight=0.5 + number / 1000, scope="agent", context_line=line, enabled=True, expires_at_event_ts=None, decay_modifier=1.0,
        consolidation_event_ts=AT,
    )  # fmt: skip
    return Bias(artifact=artifact, decay=1.0)


def measure(turns: int) -> dict[str, Any]:
    before = machine()
    texts = prompts(turns)
    found = shares(texts)
    times = sorted(assembly_ms())
    return {
        "measured_on": measured_on(before),
        "goal_ms": GOAL_MS,
        "assembly_cpu_p50_ms": round(statistics.median(times), 3),
        "assembly_cpu_p99_ms": round(times[int(len(times) * 0.99)], 3),
        "turns": turns,
        "prefix_share_median": round(statistics.median(found), 3),
        "prefix_share_least": round(min(found), 3),
        "prefix_share_of_turn": [round(share, 3) for share in found],
        "prompt_chars_of_turn": [len(text) for text in texts],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = measure(arguments.turns)
    say_machine(result["measured_on"])
    for name, value in result.items():
        if name != "measured_on":
            print(f"{name:28} {value}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
