"""What a model that sees is shown: images that tools or a message brought, read from the record by their refs.

Another model is not shown those of tools: the text of a result names each of them. It is not asked about a person's.
"""

from __future__ import annotations

from hobus.bus.errors import GatewayError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import PromptMessage, SeenImage
from hobus.bus.tool import find_image_type
from hobus.gateway_service.limits import IMAGES_MAX_BYTES
from hobus.gateway_service.records import PromptCall, change_request
from hobus.gateway_service.sending import make_unavailable


async def fill_images(ask: PromptCall, ledger: LedgerClient) -> PromptCall:
    """Return the request with its images in place, the newest where there are too many, without erased ones.

    Raises GatewayError(UNAVAILABLE) where the record does not answer.
    """
    found: dict[str, SeenImage] = {}
    left, messages = IMAGES_MAX_BYTES, ask.prompt.messages
    for file in reversed([file for message in messages for segment in message.segments for file in segment.files]):
        if file.media_type.startswith("image/") and file.size_bytes <= left:
            try:
                data = await ledger.body(file.ref)
            except RuntimeFault as fault:
                if fault.code not in ("erased", "not_found"):
                    raise make_unavailable(fault) from None
                continue
            if kind := find_image_type(
                data
            ):  # what it is counts: for a wrong word its provider would refuse the request
                found[file.ref] = make_from(SeenImage, file, data=data, media_type=kind)
                left -= len(data)
    return change_request(ask, ask.route, messages=[_with(message, found) for message in messages]) if found else ask


def demand_none(ask: PromptCall) -> None:
    """Raise GatewayError(MODEL_UNFIT) where a person's message brings images to a model that does not see.

    Its text names them; those of earlier messages, which stand beside them, such a model is told of alone.
    """
    said = [one for message in ask.prompt.messages if message.role == "user" for one in message.segments]
    if [file for segment in said for file in segment.files if file.name in segment.text]:
        provider_id, model_id = ask.route.provider_id, ask.route.model_id
        raise GatewayError(
            "MODEL_UNFIT",
            f"{model_id[:80]} of provider {provider_id} takes no images: name a model that does, say `sees: true` of "
            f"this one in gateway.providers.{provider_id}.models if it does, or send the message without images",
        )


def _with(message: PromptMessage, found: dict[str, SeenImage]) -> PromptMessage:
    segments = [
        one.model_copy(update={"files": [found.get(file.ref, file) for file in one.files]}) for one in message.segments
    ]
    return message.model_copy(update={"segments": segments})
