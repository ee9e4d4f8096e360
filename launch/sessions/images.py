"""Images of a person's message: their sentence in its text, and their bytes in the record, once in each session.

The text of a message names every image (`GivenImage.told`), also in later prompts, as that of a tool's result does; the
bytes are shown with the message that brought them, and with the next few (`IMAGES_TURNS`).
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from hobus.bus.errors import LedgerError
from hobus.bus.messages.ids import derive_body_ref, derive_image_id
from hobus.bus.messages.ledger import Provenance, Write, WriteEntry, Written
from hobus.bus.messages.work_order import ToolFile
from hobus.bus.port import Bus
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import TurnImage
from hobus.bus.tool import find_image_type
from hobus.launch.limits import IMAGE_NAME_CHARS


class GivenImage(NamedTuple):
    """An image that somebody gives with a message."""

    media_type: str
    digest: str
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.digest[:IMAGE_NAME_CHARS]}{mimetypes.guess_extension(self.media_type) or ''}"

    @property
    def told(self) -> str:
        """Return the line that stands for the image in its message, where a model is not shown it."""
        return self.in_session("").told

    def in_session(self, session_id: str) -> ToolFile:
        ref = derive_body_ref(derive_image_id(session_id, self.digest), 1)
        return ToolFile(name=self.name, media_type=self.media_type, size_bytes=len(self.data), ref=ref)


def make_image(data: bytes) -> GivenImage:
    """Return the image that these bytes are. Raises ValueError for what no model takes."""
    media_type = find_image_type(data)
    if not media_type:
        raise ValueError("not an image that models accept: PNG, JPEG, GIF or WebP")
    return GivenImage(media_type, sha256(data).hexdigest(), data)


async def keep_images(bus: Bus, session_id: str, images: Iterable[GivenImage], *, timeout_s: float) -> None:
    """Put each image into the record, unless it is there. Raises RuntimeFault."""
    for image in images:
        entry = WriteEntry(
            submission_id=derive_image_id(session_id, image.digest),
            stream="governance",
            event_type="TURN_IMAGE",
            provenance=Provenance(session_id=session_id),
            trace=session_id,
            at_us=round(bus.now() * 1_000_000),
            bodies=[pack_payload(TurnImage(image.media_type)), image.data],
        )
        done = await bus.request("ledger", Write(entries=[entry]), expect=Written, timeout_s=timeout_s)
        for failure in (*done.failures.values(), *(ack for ack in done.acks if ack.outcome == "refused")):
            raise LedgerError(failure.code, f"the image {image.name} was not recorded: {failure.code}")
