"""Functions that a custom stage may name. Pure: each gives fragments for a request.

A new one gets its name in `config/attention_template.py` (`Handler`) too, by which templates are checked at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hobus.actors.ho2_supervisor.attention.context import AttentionRequest, Fragment, plain
from hobus.bus.messages.ids import us_of_iso


def moment(request: AttentionRequest) -> list[Fragment]:
    """When the message was sent, as its turn has it: no clock is asked."""
    return [plain("custom", "moment", f"The message was sent at {request.at} (UTC).", at_us=us_of_iso(request.at))]


HANDLERS: Mapping[str, Callable[[AttentionRequest], list[Fragment]]] = {"moment": moment}
