"""What an assembly is asked for and what it gives: a request, fragments with their provenance, the trace. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from msgspec import Struct

from hobus.bus.messages.base import make_from
from hobus.bus.record.payloads.orders import ContextAssembled, StageTrace
from hobus.bus.record.text_parts import TextPart, merge
from hobus.config.assets import AgentFile, BudgetPurpose, Contract
from hobus.config.attention_rules import USES
from hobus.config.attention_template import Prompts
from hobus.config.prompt_contracts import SHIPPED, list_purposes

Source = Literal["ledger", "registry", "file", "search", "liveness", "memory", "history", "custom"]
Status = Literal["ok", "truncated", "timeout", "empty", "skipped", "failed"]
Stop = Literal["completion", "satisfaction", "tokens", "queries", "time"]
ChosenBy = Literal["selectors", "agent", "override", "default"]
Fallback = Literal["", "return_partial", "fail", "use_cached", "proceed_empty", "use_default"]

_END = "\n"
_CLOSING = (TextPart(None, _END),)


class AttentionRequest(Struct, frozen=True):
    """Say for whom a context is assembled, and under which contract its prompt stands."""

    agent: AgentFile
    contract: Contract
    session_id: str
    work_order_id: str
    at: str
    """Event time of the turn: nothing later is shown."""
    user_input: str
    template_override: str | None = None
    tokens_max: int | None = None
    """What the model's window leaves it; None: the window is not known."""

    @property
    def prompts(self) -> Prompts:
        """Return the kind of prompt. Raises AssertionError for one that has no context."""
        purposes = list_purposes(self.agent, self.contract.contract_id)
        if not purposes:
            raise AssertionError(f"no context is assembled for {self.contract.contract_id}")
        return SHIPPED[purposes[0]]

    @property
    def purpose(self) -> BudgetPurpose:
        return USES[self.prompts][0]


class Fragment(NamedTuple):
    """A piece of context and its provenance."""

    source: Source
    source_id: str
    parts: tuple[TextPart, ...]
    """What it is made of; recorded texts by their refs."""
    relevance_score: float | None = None
    """0 to 1; None: it was asked for by name, which is more than any score."""
    at_us: int = 0
    """Event time, microseconds since 1970; 0: it has none."""
    stage: int = 0
    """Place of its stage in the pipeline."""

    @property
    def content(self) -> str:
        return "".join([part.text for part in self.parts])

    @property
    def chars(self) -> int:
        """Return how many characters the fragment takes in a context: its text and a closing newline."""
        return len(self.content) + (self.closing is _CLOSING)

    @property
    def closing(self) -> tuple[TextPart, ...]:
        """Return the newline that ends the fragment's last line, unless the text ends with one."""
        return () if self.parts and self.parts[-1].text[-1:] == _END else _CLOSING


class AssembledContext(Struct, frozen=True, dict=True):
    """What a prompt is shown beside its message, and how that came about."""

    template_id: str
    template_version: str
    template_hash: bytes
    fragments: tuple[Fragment, ...] = ()
    stages: tuple[StageTrace, ...] = ()
    tokens_assembled: int = 0
    queries_executed: int = 0
    elapsed_ms: int = 0
    max_context_tokens: int = 0
    warnings: tuple[str, ...] = ()
    stopped_by: Stop = "completion"
    fallback: Fallback = ""
    is_cached: bool = False
    chosen_by: ChosenBy = "selectors"

    @cached_property
    def context_text(self) -> str:
        """Return all fragments in order, each on lines of its own."""
        return join_texts(self.fragments)

    @property
    def context_hash(self) -> bytes:
        """Return SHA-256 of the text."""
        return hashlib.sha256(self.context_text.encode()).digest()

    def of(self, *sources: Source) -> list[Fragment]:
        """Return the fragments of these sources, in order."""
        return [fragment for fragment in self.fragments if fragment.source in sources]


def join_texts(fragments: Sequence[Fragment]) -> str:
    """Return the text of fragments in order, each on lines of its own."""
    return "".join([part.text for part in _list_pieces(fragments)])


def list_parts(fragments: Sequence[Fragment]) -> list[TextPart]:
    """Return the parts of which this text is made, as few as possible."""
    return merge(_list_pieces(fragments))


def _list_pieces(fragments: Sequence[Fragment]) -> list[TextPart]:
    pieces = [part for fragment in fragments for part in (*fragment.parts, *fragment.closing)]
    if fragments and fragments[-1].closing:
        pieces.pop()
    return pieces


def make_fragment(source: Source, source_id: str, text: str, *, score: float | None = None, at_us: int = 0) -> Fragment:
    return Fragment(source, source_id, (TextPart(None, text),), relevance_score=score, at_us=at_us)


def count_chars(fragments: Sequence[Fragment]) -> int:
    return sum([fragment.chars for fragment in fragments])


def trace_context(context: AssembledContext, *, as_of_ts: str, as_of_seq: int | None) -> ContextAssembled:
    """Return the record of template, stages and budget, without any line of memory."""
    return make_from(
        ContextAssembled,
        context,
        as_of_ts=as_of_ts,
        as_of_seq=as_of_seq,
        in_force=0,
        budget=0,
        tokens_used=0,
        fragments=(),
    )
