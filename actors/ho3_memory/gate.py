"""Whether a signal may be consolidated now, and why in words.

Pure. Two modes behind one result: `counting` compares counts of all events with two thresholds; `bistable` asks
whether decayed evidence stands between its two thresholds, and for sessions all the same.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hobus.actors.ho3_memory.event_time import convert_hours, format_timestamp
from hobus.actors.ho3_memory.evidence import Level
from hobus.actors.ho3_memory.signals import EventTally
from hobus.bus.messages.memory import GateResult, OverlayState
from hobus.config.sections.record import Ho3Config

STATED = "explicit:"
"""The kind of signals that are statements: each is learnt when it is made, and counting adds nothing to it."""


_NOT_IN_FORCE: dict[str, str] = {
    "off": "a person switched it off, until it is stated again or `hobus memory activate {0} --reason …`",
    "pending": "it waits for a person: `hobus memory confirm {0}`",
    "silent": "the weight of {0} is 0",
    "expired": "{0} has expired",
    "superseded": "{0} is superseded by what was learned later",
    "faded": "{0} has faded: nobody stated it for long",
}


class LearnedStatement(NamedTuple):
    """What was learned of a statement."""

    artifact_id: str
    state: OverlayState | Literal["faded"]


class GateFacts(NamedTuple):
    """What a gate is judged on, all as of one moment."""

    tally: EventTally
    level: Level | None  # None: the mode is counting
    consolidated_us: int | None  # newest window_end of an overlay that names the signal, not after the moment
    failed_us: int | None  # newest recorded failure, not after the moment
    principal: str | None  # whose events; None: everybody's, as for the types that are shared
    switched_off: str = ""  # the artifact by which a person switched it off; empty: nobody did
    learned: LearnedStatement | None = (
        None  # of a statement alone: how what was learned of it stands; None: nothing was
    )


def judge(signal_id: str, facts: GateFacts, as_of_us: int, config: Ho3Config) -> GateResult:
    tally, level = facts.tally, facts.level
    is_consolidated = _is_consolidated(facts.consolidated_us, as_of_us, config)
    closed_by = _find_closing(signal_id, facts, as_of_us, config, is_consolidated=is_consolidated)
    is_shared = facts.principal is None
    is_enough = (
        tally.session_count >= config.gate_session_threshold
        and (tally.event_count >= config.gate_count_threshold if level is None else level.is_open)
        and (not is_shared or tally.principal_count >= config.gate_principal_threshold)
    )
    found = _explain_found(tally, level, config, is_shared=is_shared)
    return GateResult(  # all of its fields: nothing here comes from outside
        signal_id=signal_id,
        crossed=is_enough and not closed_by,
        count=tally.event_count,
        session_count=tally.session_count,
        already_consolidated=is_consolidated,
        reason=f"{found}; {closed_by}" if closed_by else found,
        evidence=0.0 if level is None else level.evidence,
        principal=facts.principal,
        principal_count=tally.principal_count,
    )


def _is_consolidated(consolidated_us: int | None, as_of_us: int, config: Ho3Config) -> bool:
    """Return whether an overlay of the window that ends now names the signal; both borders belong to the window."""
    return (
        consolidated_us is not None
        and as_of_us - convert_hours(config.gate_window_hours) <= consolidated_us <= as_of_us
    )


def _find_closing(signal_id: str, facts: GateFacts, as_of_us: int, config: Ho3Config, *, is_consolidated: bool) -> str:
    """Return what keeps the gate closed whatever was counted; '' if nothing does."""
    if signal_id in config.gate_excluded_signals:
        return "never crosses alone (ho3.gate_excluded_signals)"
    if signal_id.startswith(STATED):
        if not facts.tally.event_count:
            return "nobody asked about stated it; what its principal states is in force without a gate"
        return _explain_stated(facts.learned)
    if facts.principal is None and not config.shared_types:
        return "nothing is shared between principals (ho3.shared_types)"
    if facts.switched_off:
        return f"switched off by a person with {facts.switched_off}, until it is switched on again"
    if facts.failed_us is not None and as_of_us < compute_closed_until(facts.failed_us, config):
        until = format_timestamp(compute_closed_until(facts.failed_us, config))
        return f"closed until {until} after a failed consolidation"
    if facts.consolidated_us is None:
        return ""
    consolidated_at = format_timestamp(facts.consolidated_us)
    if is_consolidated:
        return f"consolidated already at {consolidated_at}, once per {config.gate_window_hours:g} h"
    last_us = facts.tally.last_us
    if config.require_fresh_evidence and (last_us is None or last_us <= facts.consolidated_us):
        return f"no event since the consolidation at {consolidated_at}"
    return ""


def _explain_stated(learned: LearnedStatement | None) -> str:
    if learned is None:
        return "stated by its principal, which needs no gate; nothing that was learned of it is there"
    if learned.state == "active":
        return "stated by its principal, and so in force without a gate"
    return f"stated by its principal, but not in force: {_NOT_IN_FORCE[learned.state].format(learned.artifact_id)}"


def compute_closed_until(failed_us: int, config: Ho3Config) -> int:
    """Return when a gate may open again that a failed consolidation closed."""
    return failed_us + convert_hours(config.consolidation_cooldown_hours)


def _explain_found(tally: EventTally, level: Level | None, config: Ho3Config, *, is_shared: bool) -> str:
    sessions = _describe_count(tally.session_count, config.gate_session_threshold, "sessions")
    if is_shared:
        sessions += f", {_describe_count(tally.principal_count, config.gate_principal_threshold, 'principals')}"
    if level is None:
        return f"{_describe_count(tally.event_count, config.gate_count_threshold, 'events')}, {sessions}"
    stand = f"open until below {config.gate_low:g}" if level.is_open else f"opens at {config.gate_high:g}"
    events = f"{tally.event_count} event{'s' * (tally.event_count != 1)}"
    return f"evidence {level.evidence:.3f} of {events} ({stand}), {sessions}"


def _describe_count(count: int, needed: int, what: str) -> str:
    """Return `2 of 3 sessions`; of more than are needed: `5 sessions (3 needed)`."""
    return f"{count} of {needed} {what}" if count <= needed else f"{count} {what} ({needed} needed)"
