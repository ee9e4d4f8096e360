"""The provider's own count of its calls beside what the record says of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bench.gateway.parts import Call
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptFailed
from hobus.launch.lab.simulation.record import ENDS, call_of


@dataclass(slots=True)
class Compared:
    """What of the two is the same, and what is not."""

    counted: int = 0  # by the provider
    answered: int = 0  # attempts that ended as PROMPT_RECEIVED
    failed: int = 0  # as a fault after a send whose outcome is known, or that the gateway gave up itself
    unknown: int = 0  # as UNKNOWN_OUTCOME: their gateway died before it recorded an end
    unknown_reached: int = 0  # of these the calls that the provider counted
    never_sent: int = 0  # attempts whose end says that nothing left
    told_and_unknown: int = 0  # answers that somebody was given before their end was durable, and that is unknown now
    faults: list[str] = field(default_factory=list[str])

    @property
    def difference(self) -> int:
        """Calls that only one of the two sides knows of."""
        return len(self.faults)


def compared(entries: Iterable[Entry], calls: Iterable[Call], told: Mapping[str, str]) -> Compared:
    """By call key. `told`: content of the answers that somebody was given, by key.

    A call that the provider counted must be one of an attempt that was recorded as sent; an attempt with an end of
    which the gateway is sure must be one that the provider counted. In between are the unknown outcomes, which say of
    themselves that they may have arrived or not: as many of them as the provider's count needs.
    """
    found = Compared()
    sent: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    sure: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    contents: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        name = call_of(entry)
        key = name.rpartition("/")[0]
        if entry.event_type == "PROMPT_SENT":
            sent[name] += 1
        if entry.event_type not in ENDS:
            continue
        ends[name] += 1
        if entry.event_type == "PROMPT_RECEIVED":
            contents[key].append((entry.bodies[1] or b"").decode())
            found.answered += 1
            sure[key] += 1
        elif (failed := read_payload(PromptFailed, entry)) is None or not failed.was_sent:
            found.never_sent += 1
        elif entry.reason == "UNKNOWN_OUTCOME":
            found.unknown += 1
            unsure[key] += 1
        elif entry.reason in MAY_NOT_HAVE_ARRIVED:
            found.failed += 1
            unsure[key] += 1
        else:
            found.failed += 1
            sure[key] += 1
    found.faults += [
        f"{name}: {sent[name]} PROMPT_SENT, {ends[name]} ends"
        for name in sent | ends
        if not (sent[name] == ends[name] == 1)
    ]
    counted: Counter[str] = Counter()
    whole: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        counted[call.key] += 1
        if call.is_whole:
            whole[call.key].add(call.content)
    found.counted = counted.total()
    for key in counted | sure | unsure:
        found.unknown_reached += max(0, counted[key] - sure[key])
        if counted[key] > sure[key] + unsure[key]:
            found.faults.append(f"{key}: {counted[key]} calls counted, {sure[key] + unsure[key]} recorded as sent")
        if counted[key] < sure[key]:
            found.faults.append(f"{key}: {counted[key]} calls counted, {sure[key]} recorded as made")
    for key, answers in contents.items():
        if len(answers) > 1:
            found.faults.append(f"{key}: {len(answers)} recorded answers")
        found.faults += [
            f"{key}: recorded {answer!r}, which was never said" for answer in answers if answer not in whole[key]
        ]
    for key, text in told.items():
        if key not in contents and unsure[key]:
            found.told_and_unknown += 1
        elif contents.get(key) != [text]:
            found.faults.append(f"{key}: told {text!r}, recorded {contents.get(key)}")
    return found


MAY_NOT_HAVE_ARRIVED = frozenset({"CANCELLED", "DEADLINE_EXCEEDED"})
"""Ends of calls that the gateway itself gave up, perhaps before their first byte was there: unknown as well."""
