"""What a model that sees is shown: the images that tools brought, read from the record by their refs.

Another model is not: the text of a result names each of them.
"""

from __future__ import annotations

from hobus.bus.errors import RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.base import made_of
from hobus.bus.messages.gateway import PromptMessage, SeenImage
from hobus.bus.tool import image_type
from hobus.gateway_service.limits import IMAGES_MAX_BYTES


async def shown(messages: list[PromptMessage], ledger: LedgerClient) -> list[PromptMessage]:
    """The messages with their images in place, the newest where there are too many; one that was erased is left out.

    Raises LedgerError(unavailable).
    """
    found: dict[str, SeenImage] = {}
    left = IMAGES_MAX_BYTES
    files = [file for message in messages for segment in message.segments for file in segment.files]
    for file in reversed(files):
        if not file.media_type.startswith("image/") or file.size_bytes > left:
            continue
        try:
            data = await ledger.body(file.ref)
        except RuntimeFault as fault:
            if fault.code in ("erased", "not_found"):
                continue
            raise
        if kind := image_type(data):  # what it is counts: a wrong word of its tool would have the request refused
            found[file.ref] = made_of(SeenImage, file, data=data, media_type=kind)
            left -= len(data)
    return [_with(message, found) for message in messages] if found else messages


def _with(message: PromptMessage, found: dict[str, SeenImage]) -> PromptMessage:
    segments = [
        segment.model_copy(update={"files": [found.get(file.ref, file) for file in segment.files]})
        for segment in message.segments
    ]
    return message.model_copy(update={"segments": segments})
