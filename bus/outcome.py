"""How a handler's end becomes an answer, and what follows it.

A fault is a Failure, a programming error is `internal` without its text.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Sequence

from hobus.bus.codec import encode
from hobus.bus.envelope import Header, Kind
from hobus.bus.errors import BusError, MessageTooLarge, RuntimeFault
from hobus.bus.log import Logger
from hobus.bus.messages.base import Message
from hobus.bus.window import KeptReply

_log = Logger("bus")


def answer_of(kind: Kind, message: Message, max_bytes: int) -> KeptReply:
    """Return a reply, failure or stream frame that says this message. Raises RuntimeFault as `encode` does."""
    return KeptReply(kind, message.TYPE, message.VERSION, encode(message, max_bytes))


def make_failure_answer(fault: RuntimeFault, max_bytes: int) -> KeptReply:
    """Return the Failure frame of a fault; one whose facts are too large says that instead."""
    try:
        return answer_of(Kind.FAILURE, fault.as_failure(), max_bytes)
    except MessageTooLarge as too_large:
        return answer_of(Kind.FAILURE, too_large.as_failure(), max_bytes)


def make_internal_fault(request: Header, error: BaseException) -> BusError:
    """Return `internal` with the error's class and place: its text may hold a prompt or a secret, and goes nowhere."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_qualname}:{place.tb_lineno}" if place is not None else "?"
    _log.error(
        "handler_failed",
        type=request.type,
        message_id=request.message_id,
        error=type(error).__name__,
        where=where,
        trace="".join(traceback.format_tb(error.__traceback__)),
    )
    return BusError("internal", f"the handler of {request.type} failed: {type(error).__name__} at {where}")


async def follow_up(request: Header, steps: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run the steps in order, after the reply has left; a fault of one is logged and is nobody else's."""
    for step in steps:
        try:
            await step()
        except RuntimeFault as fault:
            _log.warning("after_reply_failed", type=request.type, message_id=request.message_id, code=fault.code)
