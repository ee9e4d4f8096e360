"""Which texts of a prompt stand in its pack itself: the record names them by number, and holds them once.

A pack's texts are in the record with the configuration that a cluster runs under (CONFIG_SNAPSHOT). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from hobus.bus.messages.gateway import Prompt

_NONE: Mapping[str, int] = {}


class PackTexts:
    """Of the packs of this gateway's own configuration; what another one says is not known here."""

    def __init__(self, config_digest: str, texts: Mapping[str, tuple[str, ...]]) -> None:
        """`texts`: by pack id, in order."""
        self._config_digest = config_digest
        self._numbers: dict[str, Mapping[str, int]] = {
            pack_id: {text: number for number, text in enumerate(found)} for pack_id, found in texts.items()
        }

    def of(self, prompt: Prompt) -> Mapping[str, int]:
        """The texts of the pack that this prompt was made from, each with its number there.

        None of them where it was made under another configuration.
        """
        if prompt.config_digest != self._config_digest:
            return _NONE
        return self._numbers.get(prompt.prompt_pack_id, _NONE)
