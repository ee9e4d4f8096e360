"""Stream `prompts`: what the gateway records of a call, of a budget, of a breaker.

A call's key and the number of its attempt stand in an entry's id (`<event>:<call key>/<attempt>`), who and what it is
about in its provenance, and the code of what ended it in its reason. Texts stand apart from the figures, so that
erasing one forgets no spending: the request is body 1 of PROMPT_SENT, the answer body 1 of PROMPT_RECEIVED and the
tools that it asks for body 2, where there are any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import OWN_SESSION
from hobus.bus.messages.work_order import Sampling, ToolCall
from hobus.bus.record.entry import Provenance


class PromptSent(NamedTuple):
    """PROMPT_SENT: a provider is about to be called, with this request and reservation."""

    provider_id: Annotated[str, Meta(description="a configured provider instance")]
    model_id: Annotated[str, Meta(description="the model of it that is asked")]
    contract_id: Annotated[str, Meta(description="`PRC-<NAME>-<nnn>`")]
    prompt_pack_id: Annotated[str, Meta(description="`PRM-<NAME>-<nnn>`")]
    config_sha256: Annotated[bytes, Meta(description="of the configuration snapshot; empty: none")]
    max_tokens: Annotated[int, Meta(description="longest answer, tokens")]
    temperature: Annotated[float, Meta(description="0 to 2")]
    budget_mode: Annotated[Literal["enforce", "warn", "off"], Meta(description="what a reached limit does")]
    reserved_tokens: Annotated[int, Meta(description="held in every scope until its end")]
    estimated_tokens: Annotated[int, Meta(description="of them, for the prompt")]
    token_budget: Annotated[int | None, Meta(description="tokens of its order; None: it has none")]
    tools: Annotated[tuple[str, ...], Meta(description="ids of the tools that the model is told of")] = ()
    domain_tags: Annotated[tuple[str, ...], Meta(description="the first one with a route chose it")] = ()
    structured_output: Annotated[bool, Meta(description="the provider is asked to keep the schema")] = False
    reasoning_effort: Annotated[str | None, Meta(description="None: as the model likes")] = None
    provider_profile_id: Annotated[str | None, Meta(description="a key of gateway.profiles; None: none")] = None
    degraded: Annotated[bool, Meta(description="the last resort of a session's host")] = False
    sampling: Annotated[Sampling | None, Meta(description="of whoever asked; None: none")] = None
    vector_numbers: Annotated[int | None, Meta(description="of each vector, 0: any number; None: an answer")] = None
    principal: Annotated[str, Meta(description="of vectors: whose they are; else who its session is of")] = ""
    called_in: Annotated[tuple[str, ...], Meta(description="sessions of the agents that called it, nearest first")] = ()

    @property
    def config_digest(self) -> str:
        """Return the digest of the configuration snapshot as everything else names it; empty: none."""
        return f"sha256:{self.config_sha256.hex()}" if self.config_sha256 else ""


def list_scopes(about: Provenance, sent: PromptSent) -> tuple[str, ...]:
    """Return the names of the budgets that a send holds its tokens in, the narrowest first."""
    order = () if sent.token_budget is None else (name_order_scope(about.work_order_id),)
    sessions = map(name_session_scope, (about.session_id, *sent.called_in))
    return *order, *sessions, name_agent_scope(about.agent_id), name_provider_scope(sent.provider_id)


def name_order_scope(work_order_id: str) -> str:
    """Return the budget of an order, which lasts as long as the order calls, and a while after."""
    return f"work_order:{work_order_id}"


def name_session_scope(session_id: str) -> str:
    return f"session:{session_id}"


def name_agent_scope(agent_id: str) -> str:
    return f"agent:{agent_id}"


def name_provider_scope(provider_id: str) -> str:
    return f"provider:{provider_id}"


class SentText(NamedTuple):
    """A text of a request: by its ref where another entry holds it, else as it is."""

    name: Annotated[str, Meta(description="what prompt packs call it")]
    ref: Annotated[
        str | None,
        Meta(description="`<submission id>/<n>` of its body, `~` for the entry's session; None: here"),
    ] = None
    text: Annotated[str, Meta(description="the text itself; blank where its ref is named")] = ""


def shorten_ref(ref: str, session_id: str) -> str:
    """Return a ref as a prompt of this session has it."""
    return ref.replace(session_id, OWN_SESSION) if session_id else ref


class SentMessage(NamedTuple):
    """A message of a request."""

    role: Annotated[
        Literal["system", "user", "assistant", "tool", "history"],
        Meta(description="who speaks; history: the earlier turns, of which a provider gets messages"),
    ]
    parts: Annotated[
        tuple[int | SentText, ...],
        Meta(description="in order; a number: the n-th text, from 0, that stands in the prompt pack itself"),
    ]
    tool_calls: Annotated[tuple[ToolCall, ...], Meta(description="assistant only")] = ()
    tool_call_id: Annotated[str, Meta(description="tool only: the call this answers")] = ""


def hash_messages(messages: Iterable[tuple[str, str, Sequence[ToolCall], str]]) -> bytes:
    """Digest a transcript: of each message its role, text, tool calls and tool call id."""
    return hashlib.sha256(pack([*messages])).digest()


class SentRequest(NamedTuple):
    """Body 1 of PROMPT_SENT."""

    sha256: Annotated[bytes, Meta(description="of the exact request as its provider is asked")]
    asked_sha256: Annotated[bytes, Meta(description="of what the call's key stands for, whoever is asked")]
    messages: Annotated[tuple[SentMessage, ...], Meta(description="the transcript")]
    messages_sha256: Annotated[bytes, Meta(description="of its texts, for a reader to check; empty: not known")] = b""
    images: Annotated[tuple[str, ...], Meta(description="refs of the images that the model is shown")] = ()

    def spell_refs(self, session_id: str) -> SentRequest:
        """Return the request with whole refs (`shorten_ref`)."""

        def spell(part: int | SentText) -> int | SentText:
            if isinstance(part, int) or part.ref is None or not session_id:
                return part
            return part._replace(ref=part.ref.replace(OWN_SESSION, session_id))

        messages = [message._replace(parts=tuple(map(spell, message.parts))) for message in self.messages]
        return self._replace(messages=tuple(messages))


class AnswerCalls(NamedTuple):
    """Body 2 of PROMPT_RECEIVED."""

    tool_calls: Annotated[tuple[ToolCall, ...], Meta(description="in the order of the answer")]


class PromptReceived(NamedTuple):
    """PROMPT_RECEIVED: it answered; usage and settlement."""

    provider_id: Annotated[str, Meta(description="as it was sent")]
    model_id: Annotated[str, Meta(description="as it was sent")]
    input_tokens: Annotated[int, Meta(description="tokens of the prompt")]
    output_tokens: Annotated[int, Meta(description="tokens of the answer")]
    cost_usd: Annotated[float | None, Meta(description="money; None: a price is unknown")]
    budget_remaining: Annotated[int | None, Meta(description="tokens left in its session; None: no limit")]
    latency_ms: Annotated[int, Meta(description="from sending to the whole answer")]
    finish_reason: Annotated[str, Meta(description="why the model stopped, in its provider's words")]
    cached_tokens: Annotated[int, Meta(description="part of the input that the provider had cached")] = 0
    reasoning_tokens: Annotated[int, Meta(description="part of the output that was only thought")] = 0
    usage_is_estimated: Annotated[bool, Meta(description="the provider did not say what was used")] = False
    answered_by: Annotated[str, Meta(description="what its provider calls the model; empty: the same")] = ""

    @property
    def tokens(self) -> int:
        """Return the tokens at which the call was settled: of the prompt and of the answer."""
        return self.input_tokens + self.output_tokens


class PromptFailed(NamedTuple):
    """PROMPT_FAILED: it failed, or its outcome is unknown; progress and settlement."""

    provider_id: Annotated[str, Meta(description="as it was sent")]
    model_id: Annotated[str, Meta(description="as it was sent")]
    message: Annotated[str, Meta(description="facts, no prompt text")]
    retryable: Annotated[bool, Meta(description="whether another try may help")]
    tokens: Annotated[int, Meta(description="as settled: used, or reserved where nobody knows")]
    cost_usd: Annotated[float | None, Meta(description="money; None: unknown")]
    is_unknown: Annotated[bool, Meta(description="nobody could say what was used")]
    was_sent: Annotated[bool, Meta(description="whether the provider was called")]


class PromptRejected(NamedTuple):
    """PROMPT_REJECTED: a call ended before its (next) send, and why."""

    contract_id: Annotated[str, Meta(description="`PRC-<NAME>-<nnn>`")]
    message: Annotated[str, Meta(description="facts, no prompt text")]
    outcome: Annotated[str, Meta(description="REJECTED: no provider was called; else an earlier send's records say")]
    degraded: Annotated[bool, Meta(description="the last resort of a session's host")] = False


class BudgetAllocated(NamedTuple):
    """BUDGET_ALLOCATED: a new scope, or a new limit."""

    scope: Annotated[str, Meta(description="`session:<id>`, `agent:<id>` or `provider:<id>`")]
    limit: Annotated[int, Meta(description="tokens")]


class BudgetReleased(NamedTuple):
    """BUDGET_RELEASED: an unsent attempt's reservation is free."""

    tokens: Annotated[int, Meta(description="free again")]
    scopes: Annotated[tuple[str, ...], Meta(description="where they were held")]


class BudgetCrossed(NamedTuple):
    """BUDGET_WARNING: a limit was crossed in mode warn."""

    scope: Annotated[str, Meta(description="`work_order:<id>`, `session:<id>`, `agent:<id>` or `provider:<id>`")]
    limit: Annotated[int, Meta(description="tokens")]
    used: Annotated[int, Meta(description="tokens settled")]
    reserved: Annotated[int, Meta(description="tokens of calls in flight, this one's among them")]


class ScopeFigures(NamedTuple):
    """What one scope comes to."""

    limit: Annotated[int | None, Meta(description="tokens; None: no limit")]
    used: Annotated[int, Meta(description="tokens settled")] = 0
    reserved: Annotated[int, Meta(description="tokens of calls in flight")] = 0
    calls: Annotated[int, Meta(description="calls settled")] = 0
    cost_usd: Annotated[float | None, Meta(description="money; None: a part of it is unknown")] = 0.0
    unknown_calls: Annotated[int, Meta(description="calls settled at their reservation")] = 0
    is_over: Annotated[bool, Meta(description="used and reserved are more than the limit")] = False


class BudgetSnapshot(NamedTuple):
    """BUDGET_SNAPSHOT: totals of the stream so far."""

    after: Annotated[int, Meta(description="sequence up to which")]
    scopes: Annotated[dict[str, ScopeFigures], Meta(description="by name; orders at rest are left out")]
    open: Annotated[tuple[str, ...], Meta(description="`<call key>/<attempt>` of the calls in flight")]


class BreakerChanged(NamedTuple):
    """BREAKER_CHANGED: a breaker closed, opened or half-opened."""

    provider_id: Annotated[str, Meta(description="a configured provider instance")]
    model_id: Annotated[str, Meta(description="a model of that provider")]
    before: Annotated[str, Meta(description="closed, open or half_open")]
    after: Annotated[str, Meta(description="closed, open or half_open")]
    failures: Annotated[int, Meta(description="of the provider, in a row")]
    until_us: Annotated[int, Meta(description="when it is to be tried; microseconds since 1970 UTC")]
