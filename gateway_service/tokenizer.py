"""A model's own tokenizer, from a file on this machine: by it a prompt is counted before it is sent.

The library is imported only where a tokenizer is configured. It reads a large vocabulary for a second, in which its
process does nothing else: that is done before the process is on the bus, and not again. Nothing is downloaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt
from hobus.config.sections.gateway import GatewayConfig, Route, TokenizerConfig
from hobus.gateway_service import pricing
from hobus.gateway_service.providers.keys import unusable

_BEFORE = ", before the gateway is started again"


class Tokenizer:
    """Counts the prompts of one model; a fault of it is the fault of its provider, and never a guess."""

    def __init__(self, config: TokenizerConfig, *, max_chars: int, beside: Callable[..., Awaitable[Any]]) -> None:
        """Reads the file. `beside` runs a function beside the event loop, as `asyncio.to_thread` does."""
        self._config = config
        self._max_chars = max_chars
        self._beside = beside
        self._encoder: Any = None  # the library's class, which has no types
        self.fault = ""
        """Why it cannot count, with the fix; empty: it can."""
        try:
            self._encoder = self._loaded()
        except GatewayError as fault:
            self.fault = fault.detail

    async def count(self, prompt: Prompt) -> int | None:
        """Tokens of the prompt with `message_tokens` around its parts; None where it is longer than is counted.

        Raises GatewayError(PROVIDER_UNUSABLE).
        """
        if self._encoder is None:
            raise GatewayError("PROVIDER_UNUSABLE", self.fault)
        texts = [text for text in pricing.texts(prompt) if text]
        if sum(map(len, texts)) > self._max_chars:
            return None
        parts = len(prompt.messages) + len(prompt.tools) + sum(len(message.tool_calls) for message in prompt.messages)
        return await self._beside(self._counted, self._encoder, texts) + self._config.message_tokens * (parts + 1)

    def _loaded(self) -> Any:
        try:
            library = importlib.import_module("tokenizers")
        except ImportError as error:
            raise self._unusable(
                f"needs {error.name or 'tokenizers'}, which is not installed",
                f"pip install 'hobus[tokenizers]'{_BEFORE}",
            ) from None
        path = self._readable()
        try:
            encoder = library.Tokenizer.from_file(str(path))
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - a panic of the library is no Exception
            # Without the library's words: they quote the file, which may be another one than was meant.
            raise self._unusable("is not a tokenizer.json", self._fix) from None
        encoder.no_truncation()  # what a file may ask for, and no server does
        encoder.no_padding()
        return encoder

    def _readable(self) -> Path:
        try:
            path = Path(self._config.file).expanduser()
            if not path.is_file():  # a pipe would wait for a writer for ever
                raise self._unusable("is not a file", self._fix)
            with path.open("rb"):
                return path
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}", self._fix) from None
        except RuntimeError:
            raise self._unusable("cannot be found: there is no such user", self._fix) from None

    def _counted(self, encoder: Any, texts: list[str]) -> int:
        try:
            # Other threads run meanwhile, which is not so with `encode`.
            return sum(map(len, encoder.encode_batch_fast(texts, add_special_tokens=False)))
        except BaseException:  # noqa: BLE001 - the same; its words may quote the prompt
            raise self._unusable("has no tokens for this prompt", self._fix) from None

    @property
    def _fix(self) -> str:
        return f"put the tokenizer.json of {self._config.model_id[:80]} there, or correct gateway.tokenizers{_BEFORE}"

    def _unusable(self, what: str, fix: str) -> GatewayError:
        where = f"the tokenizer of {self._config.model_id[:80]}, {self._config.file},"
        return unusable(self._config.provider_id, f"{where} {what}", fix)


def tokenizers_of(config: GatewayConfig, *, beside: Callable[..., Awaitable[Any]]) -> dict[Route, Tokenizer]:
    """Every configured tokenizer by its model, loaded, or with its fault."""
    return {
        Route(provider_id=one.provider_id, model_id=one.model_id): Tokenizer(
            one, max_chars=config.tokenizer_max_chars, beside=beside
        )
        for one in config.tokenizers
    }
