"""The provider `offline`: deterministic, no key, no network; honest about what it is in its metadata.

Its model is asked as a server of the kind `openai` is: this shell writes the
request and reads the answer as that kind does, and hands the model nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.config.sections.gateway import OpenAIProvider
from hobus.gateway_service import pricing
from hobus.gateway_service.providers.http import openai_wire
from hobus.gateway_service.providers.http.reader import AnswerReader
from hobus.gateway_service.providers.http.wire import ToolNames
from hobus.gateway_service.providers.offline import model
from hobus.gateway_service.providers.offline.grammar import Grammar, load_grammar

_DIALECT = OpenAIProvider.model_construct(max_tokens_field="max_tokens", structured="json_schema", omit=[])
_WORD = re.compile(r"\s*\S+|\s+\Z")


@dataclass(eq=False, repr=False)
class OfflineProvider:
    """Implement `bus.port.Provider` by rules."""

    provider_id: str
    latency_ms: int
    chars_per_token: int
    sleep: Callable[[float], Awaitable[None]]
    _grammar: Grammar = field(default_factory=load_grammar)

    async def prepare(self) -> None:
        """Do nothing: rules need nothing."""

    async def complete(
        self,
        prompt: Prompt,
        *,
        model_id: str,
        timeout_s: float,  # noqa: ARG002 - nothing here can outlast it
        on_delta: Callable[[str], None] | None = None,
    ) -> PromptResponse:
        """Return the answer of the rules after the configured thinking time; streamed word by word it takes as long.

        Raises GatewayError(PROVIDER_REFUSED) for an unknown model.
        """
        if model_id not in model.MODELS:
            raise GatewayError(
                "PROVIDER_REFUSED",
                f"provider {self.provider_id} (the embedded rules) has no model {model_id[:80]!r}; "
                f"it has {', '.join(model.MODELS)}",
                facts={"unbilled": True},
            )
        response = self._make_response(prompt, model_id)
        words: list[str] = [""] if on_delta is None else _WORD.findall(response.content) or [""]
        for word in words:
            if self.latency_ms:
                await self.sleep(self.latency_ms / 1000 / len(words))
            if word and on_delta is not None:
                on_delta(word)
        return response

    def _make_response(self, prompt: Prompt, model_id: str) -> PromptResponse:
        """Return what the model answers, with its usage; it counts characters."""
        names = ToolNames.of(prompt)
        request = openai_wire.make_request(prompt, model_id, names, _DIALECT, stream=False)
        answer = AnswerReader(openai_wire.read, names).whole(
            model.complete(request, self._grammar, self.chars_per_token)
        )
        about = {"usage_is_estimated": False, "provider_id": self.provider_id, "model_id": model_id}
        return pricing.with_usage(prompt, answer, self.chars_per_token).model_copy(update=about)
