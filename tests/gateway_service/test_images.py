"""Which images of tools a request shows a model that sees."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bench.builders import prompt
from hobus.bus.errors import BusError, GatewayError, LedgerError
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment, ToolFile
from hobus.config.sections.gateway import Route
from hobus.gateway_service import images, records
from hobus.gateway_service.limits import IMAGES_MAX_BYTES

PNG = b"\x89PNG\r\n\x1a\n"


class Bodies:
    """A ledger that holds these, and raises those that are faults."""

    def __init__(self, **bodies: bytes | Exception) -> None:
        self.bodies = bodies

    async def body(self, ref: str) -> bytes:
        found = self.bodies[ref]
        if isinstance(found, Exception):
            raise found
        return found


async def shown(size_bytes: int = len(PNG), /, **bodies: bytes | Exception) -> tuple[list[str], bool]:
    """Refs that the request shows of a tool's images behind these, and whether it is another one than without."""
    files = [ToolFile(name="a", media_type="image/png", size_bytes=size_bytes, ref=ref) for ref in bodies]
    message: Any = PromptMessage(role="tool", segments=[Segment(text="t", files=files)], tool_call_id="1")
    wanted = prompt().model_copy(update={"messages": [message]})
    ask = records.ask_of(wanted, Route(provider_id="p", model_id="m"), trace="", is_degraded=False)
    found = await images.fill_images(ask, cast("LedgerClient", Bodies(**bodies)))
    assert found.asked == ask.asked
    return [image.ref for image in found.prompt.messages[0].images], found.digest != ask.digest


async def test_what_is_there_is_shown_under_a_digest_of_its_own() -> None:
    gone = {"b": LedgerError("erased", "b"), "c": BusError("not_found", "c")}
    assert await shown(a=PNG, **gone) == (["a"], True)
    assert await shown(**gone) == ([], False)


async def test_of_too_many_the_newest_are_shown() -> None:
    """A provider would refuse the whole request."""
    third = PNG.ljust(IMAGES_MAX_BYTES // 2, b"x")
    assert await shown(len(third), a=third, b=third, c=third) == (["b", "c"], True)


async def test_without_the_record_nothing_is_sent() -> None:
    with pytest.raises(GatewayError) as caught:
        await shown(a=LedgerError("unavailable", "away", retryable=True))
    assert (caught.value.code, caught.value.retryable) == ("UNAVAILABLE", True)
