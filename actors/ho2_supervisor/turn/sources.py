"""What a supervisor cannot reach itself: old texts of a session, by their words, and files of the cluster's machine.

Both are questions to others, and aids: whoever asks goes on without an answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.files import AT_HOME, FileText, ReadFile
from hobus.bus.messages.ledger import Hit, Search
from hobus.bus.port import Bus


class FoundInHistory(NamedTuple):
    """An old text of the session that answers."""

    ref: str  # where all of it stands
    kind: str  # message, steer, reply, or result of a tool
    text: str  # all of it, or the part around the words
    is_whole: bool
    score: float  # 0 to 1, as the ledger's search has it
    sequence: int  # of its entry: what is older has a smaller one


class HistorySearched(NamedTuple):
    """The answer to one search, best first."""

    found: list[FoundInHistory]
    warning: str  # empty, or what was not searched


async def found_in_history(  # noqa: PLR0913 - a question has these parts
    words: str,
    session_id: str,
    *,
    ledger: LedgerClient,
    limit: int,
    score_min: float,
    shown: Collection[str] = (),
    before: int | None = None,
) -> HistorySearched:
    """Texts of this session alone that have any of the words, in whatever turn they were said.

    `shown`: refs of texts that the prompt has anyway, the message being answered among them: they are no find.
    `before`: only entries with a smaller sequence. Raises RuntimeFault where the record cannot be asked or searched.
    """
    hits = await ledger.search(
        Search(
            words=words,
            session_id=session_id,
            streams=["session"],
            before=before,
            score_min=score_min,
            limit=limit + len(shown),
        )
    )
    found = [_found(hit) for hit in hits.hits if hit.ref not in shown][:limit]
    target = hits.head if before is None else min(before - 1, hits.head)
    behind = target - hits.reached
    warning = f"the newest {behind} entries of the record were not searched" if behind > 0 else ""
    return HistorySearched(found, warning)


def _found(hit: Hit) -> FoundInHistory:
    is_whole = len(hit.excerpt) == hit.text_chars
    return FoundInHistory(hit.ref, hit.kind, hit.excerpt, is_whole, hit.score, hit.sequence)


async def file_text(  # noqa: PLR0913 - a question has these parts
    bus: Bus, path: str, *, agent_id: str, config_digest: str, max_bytes: int, timeout_s: float
) -> FileText:
    """The file, as far as this agent may read it, from a worker on the cluster's own machine.

    Raises RuntimeFault where none of them answers.
    """
    question = ReadFile(agent_id=agent_id, config_digest=config_digest, path=path, max_bytes=max_bytes)
    return await bus.request("ho1", question, expect=FileText, timeout_s=timeout_s, key=AT_HOME)
