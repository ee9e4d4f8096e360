"""Bounded memories: replies kept for duplicates of the requests they answered, and the newest of anything. Plain rules.

Receivers keep message ids in a bounded window and answer a duplicate with the recorded
reply. A request is known by its sender's role, its type and its id: under a derived id (a work order's) the successor
of a dead requester joins. Clients are different people: each has its own ids; and a counted id is its counter's alone
(`bus.lanes.is_foreign`, asked by broker and lanes): nobody reads another's reply, or answers his next question, by
guessing an id.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TypeVar

from msgspec import Struct

from hobus.bus.envelope import Kind

RequestKey = tuple[str, str, str]
"""(role of the sender, or the client itself, type, message id)."""


K = TypeVar("K")
V = TypeVar("V")


def remember(table: OrderedDict[K, V], key: K, value: V, *, at_most: int) -> None:
    """Add the table's newest entry; drop the oldest when there are more than `at_most`."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > at_most:
        table.popitem(last=False)


class KeptReply(Struct, frozen=True):
    """A reply or a final failure as it can be sent again."""

    kind: Kind
    type: str
    type_version: int
    body: bytes


class DuplicateWindow:
    """The most recent answers; the oldest go first when any bound is reached."""

    def __init__(self, *, ids_max: int, bytes_max: int, age_max_s: float) -> None:
        self._ids_max = ids_max
        self._bytes_max = bytes_max
        self._age_max_s = age_max_s
        self._bytes = 0
        self._answers: OrderedDict[RequestKey, KeptReply] = OrderedDict()  # its front goes in constant time
        self._given_at: OrderedDict[RequestKey, float] = OrderedDict()  # in the same order
        self._look_at = -math.inf  # until then none is too old
        self.recorded = self._answers.get
        """The answer that was given to a request, if it is still remembered."""

    def __len__(self) -> int:
        return len(self._answers)

    def record(self, key: RequestKey, answer: KeptReply, now: float) -> None:
        """Remember `answer` for duplicates of this request; `now`: monotonic seconds."""
        answers, given_at = self._answers, self._given_at
        if key in answers:
            self._bytes -= len(answers.pop(key).body)
            del given_at[key]
        answers[key], given_at[key] = answer, now
        self._bytes += len(answer.body)
        if now <= self._look_at and len(answers) <= self._ids_max and self._bytes <= self._bytes_max:
            return
        until = now - self._age_max_s
        while answers and (
            len(answers) > self._ids_max or self._bytes > self._bytes_max or next(iter(given_at.values())) < until
        ):
            oldest, gone = answers.popitem(last=False)
            del given_at[oldest]
            self._bytes -= len(gone.body)
        self._look_at = next(iter(given_at.values()), now) + self._age_max_s

    def list_recent_ids(self, count: int) -> list[str]:
        """Return the message ids answered last, oldest of them first."""
        keys = list(self._answers)[-count:]
        return [message_id for _, _, message_id in keys]
