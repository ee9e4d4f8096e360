"""What one seed stands for: the cluster, the conversation and every strike, all drawn before anything runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hobus.bus.sim.clock import Draw, make_draw
from hobus.launch.lab.simulation.faults import Faults

Kind = Literal["crash", "torn-disk", "freeze", "partition", "disk-full", "sync-error", "clock-jump"]
ROLES = ("broker", "ledger", "gateway", "ho1", "ho2", "ho3", "host")
WITH_DISK = ("ledger", "ledger", "gateway", "ho3", "host")
LINKS = (
    ("ledger", ""), ("gateway", ""), ("ho3", ""), ("ho1", ""), ("ho2", ""), ("host", ""),
    ("gateway", "ledger"), ("ho3", "ledger"), ("ho1", "ledger"), ("ho2", "ledger"), ("host", "ledger"),
    ("host", "gateway"),
)  # fmt: skip
"""(role, server): who is connected to whom; "" is the broker."""
QUESTIONS = (
    "what packages are installed?",
    "is the ledger intact?",
    "hello",
    "list the tools and the packages and verify the ledger",
    "thanks, bye",
    "use book",
    "use send_letter",
    "use send_letter\nuse book",
)
THINKING_MS = (0, 5, 50)
WITHIN_S = (0.005, 0.02, 0.1, 0.5, 3.0)
"""A strike comes at a random moment of one of these times behind an input: of its turn, of a later one, or between."""
BACK_S = (0.05, 0.5, 2.0)
FREEZE_S = (0.05, 0.7, 0.85, 1.0, 1.5, 5.0)
"""Around bus.peer_timeout_ms, within which nobody notices, and up to what a successor needs."""
STEPS = (10, 60, 250)
"""A crash behind an await: the number of the victim's step is drawn below one of these."""
TOKEN_LIMITS = (None, None, None, 20_000, 8_000)
"""Of a session, in mode enforce: for a few turns, and for about one; None: the configured budget and mode."""
LABELS_S = (None, None, 0.0, 0.2, 3.0)
"""So much longer a classification takes than an answer, asked for beside it; None: before it, as configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStrike:
    """One thing that happens to a process at a planned moment."""

    kind: Kind
    role: str
    after: str  # counted from the moment at which this input is asked first
    at_s: float
    for_s: float = 0.0  # until it is over, or until a successor starts
    server: str = ""  # partition: from whom
    ways: tuple[Literal["up", "down"], ...] = ()
    step: int | None = None  # crash: behind this await of the victim, counted from `at_s`
    loses_frames: bool = False  # crash: what it said last and nobody has read is lost
    by_s: float = 0.0  # clock-jump

    def __str__(self) -> str:
        where = "the broker" if self.role == "broker" else self.role
        match self.kind:
            case "crash" | "torn-disk":
                behind = f", behind its await {self.step}" if self.step else ""
                torn = ", its disk loses power" if self.kind == "torn-disk" else ""
                lost = ", what it said last is lost" if self.loses_frames else ""
                return f"SIGKILL to {where}{behind}{torn}{lost}; a successor in {self.for_s:g} s"
            case "freeze":
                return f"{where} stands still for {self.for_s:g} s"
            case "partition":
                ways = {"up": "is not heard by", "down": "does not hear"}.get("+".join(self.ways), "is cut off from")
                return f"{where} {ways} {self.server or 'the broker'} for {self.for_s:g} s"
            case "disk-full":
                return f"the ledger's disk is full for {self.for_s:g} s"
            case "sync-error":
                return f"the disk of {where} refuses its next sync"
            case "clock-jump":
                return f"the wall clock jumps by {self.by_s:+.3f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAsk:
    """One input of a session."""

    input_id: str
    text: str
    after_s: float  # a pause before it
    is_doubled: bool  # two clients ask it at the same moment


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPlan:
    """Everything that a seed decides beforehand; what happens to single frames is drawn as they are sent."""

    seed: int
    ho1: int
    ho2: int
    thinking_ms: int
    token_limit: int | None
    labels_s: float | None
    faults: dict[str, float]
    slow_link: tuple[str, str] | None
    sessions: tuple[tuple[PlannedAsk, ...], ...]
    strikes: tuple[PlannedStrike, ...] = field(default=())


def make_plan(seed: int, *, turns: int, sessions: int | None, faults: Faults) -> SeedPlan:
    """Return the plan of a seed: same arguments, same plan, on any machine."""
    draw = make_draw(seed, "plan")
    values = faults.of(draw)
    count = min(turns, sessions or draw.choice((1, 1, 2)))
    moments = _Moments(draw, turns)
    return SeedPlan(
        seed=seed,
        ho1=draw.randint(1, 2),
        ho2=draw.randint(1, 2),
        thinking_ms=draw.choice(THINKING_MS),
        token_limit=draw.choice(TOKEN_LIMITS) if faults.is_all else None,
        labels_s=make_draw(seed, "labels").choice(LABELS_S) if faults.is_all else None,
        faults=values,
        slow_link=draw.choice(LINKS) if values.get("slow-link") else None,
        sessions=tuple(_draw_asks(draw, range(first, turns, count)) for first in range(count)),
        strikes=tuple(_draw_strikes(moments, values)),
    )


def _draw_asks(draw: Draw, numbers: range) -> tuple[PlannedAsk, ...]:
    return tuple(
        PlannedAsk(
            input_id=f"in-{number}",
            text=draw.choice(QUESTIONS),
            after_s=draw.choice((0.0, 0.0, 0.01, 0.2)),
            is_doubled=draw.random() < 0.15,  # noqa: PLR2004 - now and then
        )
        for number in numbers
    )


_KINDS: tuple[Kind, ...] = ("crash", "torn-disk", "freeze", "partition", "disk-full", "sync-error")
"""Of strikes whose number is a fault's value, in the order in which they are drawn."""


@dataclass(frozen=True, slots=True)
class _Moments:
    """Draw strikes and when they come."""

    draw: Draw
    turns: int

    def strike_of(self, kind: Kind) -> PlannedStrike:
        """Draw one of this kind: what it hits, for how long, and then its moment, in this order."""
        draw = self.draw
        match kind:
            case "crash":
                role = draw.choice(ROLES)
                step = (
                    self._draw_step() if role != "broker" else None
                )  # it is one function of events: it awaits nothing
                back_s = draw.choice(BACK_S)
                return self.strike(kind, role, for_s=back_s, step=step, loses_frames=self._is_heads())
            case "torn-disk":
                role = draw.choice(WITH_DISK)
                return self.strike(kind, role, for_s=draw.choice(BACK_S), step=self._draw_step())
            case "partition":
                role, server = draw.choice(LINKS)
                ways = draw.choice((("up", "down"), ("up",), ("down",)))
                return self.strike(kind, role, server=server, ways=ways, for_s=draw.choice(FREEZE_S))
            case "disk-full":
                return self.strike(kind, "ledger", for_s=draw.choice(BACK_S))
            case "sync-error":
                return self.strike(kind, draw.choice(WITH_DISK))
            case _:
                return self.strike(kind, draw.choice(ROLES), for_s=draw.choice(FREEZE_S))

    def strike(self, kind: Kind, role: str, **fields: Any) -> PlannedStrike:
        at_s = self.draw.random() * self.draw.choice(WITHIN_S)
        return PlannedStrike(kind=kind, role=role, after=f"in-{self.draw.randrange(self.turns)}", at_s=at_s, **fields)

    def _draw_step(self) -> int | None:
        """Return the await behind which every second crash comes; None: it comes at a time."""
        return self.draw.randint(1, self.draw.choice(STEPS)) if self._is_heads() else None

    def _is_heads(self) -> bool:
        return self.draw.random() < 0.5  # noqa: PLR2004 - a fair coin


def _draw_strikes(moments: _Moments, values: dict[str, float]) -> list[PlannedStrike]:
    found = [moments.strike_of(kind) for kind in _KINDS for _ in range(int(values.get(kind, 0)))]
    if jump := values.get("clock-jump"):
        found += [moments.strike("clock-jump", "", by_s=moments.draw.uniform(-jump, jump)) for _ in range(2)]
    return found
