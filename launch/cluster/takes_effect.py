"""How each change of the configuration takes effect in a cluster that runs: one table, and what follows from it. Pure.

A process begins new work under another snapshot as soon as the broker says so, and ends what is at work under its own.
What a process makes of the configuration once, at its start, takes effect when it is started anew; what processes agree
on with each other, or with what lies on the disk, only when none of them runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from hobus.config.difference import Difference

How = Literal["at once", "restart", "scale", "stop"]


class EffectRule(NamedTuple):
    """What holds of a setting and all below it, unless a longer path says otherwise."""

    path: str
    how: How
    roles: tuple[str, ...] = ()
    """`restart`: whose processes the reload starts anew."""
    why: str = ""


RULES = (
    EffectRule("", "at once"),  # agents, contracts, prompt packs, templates, packages, and all settings not named below
    EffectRule("bus", "stop", why="every process speaks by it with every other one"),
    EffectRule("ledger", "stop", why="every process writes by it into the record"),
    EffectRule("launcher", "stop", why="the launcher goes by it from its start to its end"),
    EffectRule("http.listen", "stop", why="the door is bound to its address"),
    EffectRule("ho3.enabled", "stop", why="memory is a process of its own, or there is none"),
    EffectRule("ho3.memory_dir", "stop", why="memory's checkpoints lie there"),
    EffectRule("ho1.count", "scale", ("ho1",)),
    EffectRule("ho2.count", "scale", ("ho2",)),
    EffectRule("http.count", "scale", ("http",)),
    EffectRule("tools", "restart", ("ho1",), why="tool processes and MCP servers are started with an executor"),
    EffectRule("tools.approval", "at once"),
    EffectRule("ho1", "restart", ("ho1",), why="an executor has as many slots as it began with"),
    EffectRule("ho2", "restart", ("ho2",), why="a supervisor's places are made at its start"),
    EffectRule("ho3", "restart", ("ho3", "ho2"), why="memory's state is derived by it"),
    EffectRule("classify_labels", "restart", ("ho3",), why="memory takes no line with another label"),
    EffectRule("http", "restart", ("http",), why="a door's server is made at its start"),
)
"""The longest path that a setting begins with decides."""


class ChangeEffects(NamedTuple):
    """What a change means for a cluster that runs."""

    at_once: list[str]
    """Settings and assets under which new turns begin at once."""
    restarts: list[str]
    """Settings for which processes are started anew."""
    roles: tuple[str, ...]
    """Whose processes are, in order."""
    scaled: dict[str, tuple[str, int]]
    """Setting -> role and number: a number of processes that the next start has, and `hobus scale` at once."""
    refused: dict[str, str]
    """Setting -> why it cannot be changed without a stop."""

    def with_roles(self, further: Iterable[str]) -> ChangeEffects:
        wanted = {*self.roles, *further}
        return self._replace(roles=tuple(role for role in _ROLL_ORDER if role in wanted))


_ROLL_ORDER = ("ho3", "ho1", "ho2", "http")


def find_rule(path: str) -> EffectRule:
    found = [rule for rule in RULES if not rule.path or path == rule.path or path.startswith(f"{rule.path}.")]
    return max(found, key=lambda rule: len(rule.path))


def sum_effects(changes: Iterable[Difference]) -> ChangeEffects:
    """Return what these differences mean; assets take effect at once, whatever they are."""
    found = ChangeEffects([], [], (), {}, {})
    roles: set[str] = set()
    for change in changes:
        rule = find_rule(change.name) if change.is_setting else RULES[0]
        match rule.how:
            case "at once":
                found.at_once.append(change.name)
            case "restart":
                found.restarts.append(change.name)
                roles |= set(rule.roles)
            case "scale":
                found.scaled[change.name] = (rule.roles[0], change.after)
            case "stop":
                found.refused[change.name] = rule.why
    return found.with_roles(roles)
