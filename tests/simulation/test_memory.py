"""Learning over the whole simulated cluster: signals, gate, consolidation, the line in a prompt, and out of it again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.codec import unpack_header
from hobus.bus.envelope import Kind
from hobus.bus.messages.base import Message
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.memory import ConfirmOverlay, DeactivateOverlay, Overlay, OverlayChanged, Overlays, ReadOverlays
from hobus.bus.messages.session import TurnResult
from hobus.bus.record.catalog import read_body
from hobus.bus.sim.network import SimNetwork
from hobus.config.snapshot import Snapshot
from hobus.launch.process.roles.gateway import make_providers as providers_of
from tests.actors.ho2_supervisor.rig import snapshot
from tests.journals import check_record, count_of, list_answers
from tests.simulated import SimulatedCluster

QUESTION = "what packages are installed?"
LEARNED = ["domain:system", "task:inspect", "tool:list_packages"]
SOON = (("ho3.gate_count_threshold", 2), ("ho3.gate_session_threshold", 2))
"""A gate that two turns in two sessions cross: for what is not about the gate."""
SHIPPED = tuple((path, shipped_snapshot().config.model_dump()["ho3"][path.partition(".")[2]]) for path, _ in SOON)
"""The shipped gate's."""
Breaking = Callable[[Prompt], PromptResponse | None]


class Watched:
    """The offline model, with every prompt kept; `instead` may answer in its place."""

    def __init__(self, config: Snapshot, instead: Breaking = lambda _: None) -> None:
        self.inner = providers_of(config, {})["offline"]
        self.prompts: list[Prompt] = []
        self.instead = instead

    @property
    def provider_id(self) -> str:
        return self.inner.provider_id

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(self, prompt: Prompt, **options: Any) -> PromptResponse:
        self.prompts.append(prompt)
        return self.instead(prompt) or await self.inner.complete(prompt, **options)

    def newest(self, contract_id: str) -> str:
        """The text of the newest prompt under this contract."""
        prompt = next(one for one in reversed(self.prompts) if one.contract_id == contract_id)
        return "\n".join(message.text for message in prompt.messages)


class Lesson:
    """A cluster with memory, in which one question is asked in session after session."""

    def __init__(self, cluster: SimulatedCluster, model: Watched) -> None:
        self.cluster = cluster
        self.model = model
        self.asked = 0
        self.operator = cluster.world.client("operator")
        self.rest(0.1)

    def ask(self, text: str = QUESTION, *, session_id: str | None = None, rest_s: float = 0.5) -> TurnResult:
        """One turn, answered; then time for what follows it."""
        self.asked += 1
        result = self.cluster.ask(text, input_id=f"in-{self.asked}", session_id=session_id)
        assert result.outcome == "success", result.code
        self.rest(rest_s)
        return result

    def ask_until_crossed(self, text: str = QUESTION) -> TurnResult:
        """As many turns in as many sessions as the gate counts, which on one day cross the shipped one, too."""
        limits = self.cluster.snapshot.config.ho3
        assert limits is not None
        again = limits.gate_count_threshold - limits.gate_session_threshold
        for _ in range(again):
            self.ask(text, session_id=self.ask(text).session_id)
        return [self.ask(text) for _ in range(limits.gate_session_threshold - again)][-1]

    def rest(self, seconds: float) -> None:
        self.cluster.world.run(asyncio.sleep(seconds))

    def tell(self, message: Message, expect: type[Message], to: str = "ho3") -> Any:
        return self.cluster.world.run(self.operator.request(to, message, expect=expect, timeout_s=5))

    def overlays(self, *, active_only: bool = True) -> list[Overlay]:
        return self.tell(ReadOverlays(agent_id="ADMIN", active_only=active_only), Overlays).overlays

    def context(self) -> dict[str, Any]:
        """The newest CONTEXT_ASSEMBLED."""
        entry = [e for e in self.cluster.entries() if e.event_type == "CONTEXT_ASSEMBLED"][-1]
        payload = read_body(entry)
        assert payload is not None
        lines = [(body or b"").decode() for body in entry.bodies[1:]]
        return payload._asdict() | {"lines": lines, "reason": entry.reason}


@contextmanager
def lesson(*changes: tuple[str, Any], instead: Breaking = lambda _: None, **counts: int) -> Generator[Lesson]:
    """A cluster whose gate counts, to two, unless said otherwise, and its record's invariants at the end."""
    config = snapshot(("ho3.enabled", True), ("ho3.gate_mode", "counting"), *SOON, *changes)
    model = Watched(config, instead)
    with SimulatedCluster(config, providers={"offline": model}, **counts) as cluster:
        yield Lesson(cluster, model)
        check_record(cluster.entries())
        assert cluster.verify().ok


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, str]]:
    """(kind, type, destination) of every request, reply and post that a process sent, in order."""
    sent: list[tuple[int, str, str]] = []
    to_server = SimNetwork.to_server

    def seen(network: SimNetwork, connection: Any, header: bytes, body: bytes) -> None:
        head = unpack_header(header)
        if head.kind in (Kind.REQUEST, Kind.REPLY, Kind.FAILURE, Kind.POST):
            sent.append((head.kind, head.type, head.destination))
        to_server(network, connection, header, body)

    monkeypatch.setattr(SimNetwork, "to_server", seen)
    return sent


def of_type(entries: list[Entry], *event_types: str) -> list[Entry]:
    """Entries of these types, in order."""
    return [entry for entry in entries if entry.event_type in event_types]


def test_a_habit_is_learned_shown_and_unlearned(frames: list[tuple[int, str, str]]) -> None:
    """N turns in M sessions cross a gate; reply, then consolidation; the line reaches the next prompt; off means gone."""
    with lesson(*SHIPPED) as taught:
        crossing = taught.ask_until_crossed()
        assert crossing.consolidation_candidates == LEARNED

        reply = max(
            n for n, (kind, name, _) in enumerate(frames) if (kind, name) == (Kind.REPLY, "session.turn_result")
        )
        [post] = [n for n, (kind, name, _) in enumerate(frames) if (kind, name) == (Kind.POST, "ho2.consolidate")]
        assert reply < post

        learned = taught.overlays()
        assert [one.artifact.source_signal_ids for one in learned] == [[signal_id] for signal_id in LEARNED]
        assert all(len(one.artifact.source_event_ids) == 5 for one in learned)
        first = learned[0].artifact
        assert (first.labels.domain, first.scope, first.model) == (["system"], "agent", "offline-rules-1")
        excerpts = taught.model.newest("PRC-CONSOLIDATE-001")
        assert excerpts.count(f"user: {QUESTION}") == 5

        following = taught.ask()
        assert following.consolidation_candidates == []
        prompt = taught.model.newest("PRC-SYNTHESIZE-001")
        context = taught.context()
        ranked = sorted(learned, key=lambda one: one.artifact.artifact_id)  # one weight, one decay: ties go by id
        assert list(context["artifact_ids"]) == [one.artifact.artifact_id for one in ranked]
        assert context["lines"] == [one.artifact.context_line for one in ranked]
        assert all(line in prompt for line in context["lines"])

        for one in learned:
            taught.tell(
                DeactivateOverlay(
                    agent_id="ADMIN",
                    artifact_id=one.artifact.artifact_id,
                    reason="test",
                    at=format_iso(taught.operator.now()),
                ),
                OverlayChanged,
            )
        taught.ask()
        assert (taught.context()["artifact_ids"], taught.context()["in_force"]) == ((), 0)
        assert first.context_line not in taught.model.newest("PRC-SYNTHESIZE-001")

    to_memory = Counter(name for kind, name, to in frames if to.startswith("ho3") and kind in (Kind.REQUEST, Kind.POST))
    assert set(to_memory) == {
        "memory.read_active_biases", "memory.log_signals", "memory.check_gate", "memory.log_overlay",
        "memory.read_overlays", "memory.deactivate_overlay",
    }  # fmt: skip


def test_the_shipped_gate_is_crossed_by_five_turns_of_three_sessions_on_one_day() -> None:
    """Where nothing says how a gate is to judge; the line is shown while the evidence stands."""
    shipped = shipped_snapshot().config.ho3
    assert shipped is not None and shipped.gate_mode == "bistable"
    with lesson(*SHIPPED, ("ho3.gate_mode", shipped.gate_mode)) as taught:
        assert taught.ask_until_crossed().consolidation_candidates == LEARNED
        taught.ask()
        assert len(taught.context()["artifact_ids"]) == 3


ROLES = ("ho3", "ho2", "ho1", "ledger", "gateway")


def strike_at_a_crossing(role: str, moment_s: float) -> None:
    """The process dies so long after the crossing turn was asked; two turns later all is learned, once."""
    with lesson() as taught:
        taught.ask()
        taught.cluster.strike(role, after_s=moment_s, back_after_s=0.2)
        taught.ask(rest_s=5)
        for _ in range(2):
            taught.ask(rest_s=2)
        entries = taught.cluster.entries()
        assert [len(list_answers(entries, f"in-{n}")) for n in range(1, 5)] == [1] * 4
        learned = [one.artifact.source_signal_ids[0] for one in taught.overlays(active_only=False)]
        assert sorted(learned) == LEARNED
        assert count_of(entries, "HO3_OVERLAY") == 3


@pytest.mark.parametrize("role", ["ho3", "ho2"])
def test_whatever_dies_around_a_crossing_the_lesson_is_learned_once(role: str) -> None:
    """At its reply: every turn is answered, every artifact is there, once."""
    strike_at_a_crossing(role, 0.0052)


@pytest.mark.parametrize("role", ROLES)
def test_at_more_moments_around_a_crossing_the_lesson_is_learned_once(role: str) -> None:
    """The same in steps of one and a half milliseconds, well beyond the end of the consolidations; of each every third."""
    for step in range(ROLES.index(role) % 3, 10, 3):
        strike_at_a_crossing(role, step * 0.0015)


def test_killed_at_any_moment_the_supervisor_leaves_no_turn_unlogged() -> None:
    """Every turn that HO2 answered has all its signals in the record, each once, when the session's next turn is over."""
    moment_s, struck_at = 0.0, dict[str, float]()
    with lesson(("ho3.gate_count_threshold", 100)) as taught:  # nothing is consolidated meanwhile
        while moment_s < 0.009:
            taught.cluster.strike("ho2", after_s=moment_s, back_after_s=0.2)
            session_id = taught.ask(rest_s=2).session_id
            taught.ask(session_id=session_id)
            struck_at[session_id] = moment_s
            moment_s += 0.0005
        entries = taught.cluster.entries()
    runs = [e.submission_id.removeprefix("RunCompleted:") for e in of_type(entries, "RunCompleted")]
    assert len(runs) == 2 * len(struck_at)
    signals = Counter(e.submission_id.partition("/EVT-")[2].rsplit("-", 1)[0] for e in of_type(entries, "HO3_SIGNAL"))
    assert signals == dict.fromkeys(runs, 5), struck_at


STATEMENT = "Always answer in one line."


@pytest.mark.parametrize("role", ["ho3", "ho2", "ledger"])
@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 5, 6, 8])
def test_whatever_dies_around_a_statement_it_is_remembered_once(role: str, step: int) -> None:
    """In its turn or behind it: once the session's next turn is over there is one artifact, and the prompt after that has it."""
    with lesson() as taught:
        taught.cluster.strike(role, after_s=step * 0.0015, back_after_s=0.2)
        session_id = taught.ask(STATEMENT, rest_s=2).session_id
        taught.ask("thanks, bye", session_id=session_id, rest_s=2)
        [kept] = taught.overlays(active_only=False)
        assert (kept.artifact.context_line, kept.state) == (STATEMENT, "active")
        assert kept.artifact.source_signal_ids[0].startswith("explicit:")
        taught.ask()
        assert taught.context()["lines"] == [STATEMENT]
        assert count_of(taught.cluster.entries(), "HO3_OVERLAY") == 1


def test_what_is_forbidden_takes_the_place_of_what_was_wished_once_its_person_says_yes():
    """It is asked, as any rule; until then the wish stays in force."""
    with lesson() as taught:
        taught.ask("Always answer in German.")
        remembered = taught.ask("Never answer in German.").remembered
        assert remembered is not None and remembered.state == "pending"
        taught.ask()
        assert taught.context()["lines"] == ["Always answer in German."]
        yes = ConfirmOverlay(
            agent_id="ADMIN", artifact_id=remembered.artifact_id, reason="yes", at=format_iso(taught.operator.now())
        )
        taught.tell(yes, OverlayChanged)
        overlays = taught.tell(ReadOverlays(agent_id="ADMIN"), Overlays).overlays
        stated = [one.artifact.context_line for one in overlays if "answer in" in one.artifact.context_line]
        assert stated == ["Never answer in German."]


def test_of_contradicting_wishes_the_newer_stands_and_its_undo_leaves_none():
    """In prompts word for word: German, then English alone, whichever sign ends it; switched off, neither."""
    with lesson() as taught:
        for wish in ("Always answer in German.", "Always answer in English.", "always answer in English"):
            remembered = taught.ask(wish).remembered
            assert remembered is not None and remembered.state == "active"
        taught.ask()
        assert taught.context()["lines"] == ["Always answer in English."]
        off = DeactivateOverlay(
            agent_id="ADMIN", artifact_id=remembered.artifact_id, reason="no", at=format_iso(taught.operator.now())
        )
        taught.tell(off, OverlayChanged)
        taught.ask()
        assert not [line for line in taught.context()["lines"] if "answer in" in line]
