"""Tools that prompts tell their models of: those of all prompts that wait are held once."""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.work_order import ToolSpec
from hobus.bus.window import remember
from hobus.gateway_service.limits import TOLD_TOOLS_MAX


class ToldTools:
    """The newest description of each tool; the one told longest ago goes first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, ToolSpec] = OrderedDict()

    def share(self, prompt: Prompt) -> None:
        """Each tool of the prompt that an earlier one told in the same words is that one's own."""
        known = self._known
        for place, tool in enumerate(prompt.tools):
            earlier = known.get(tool.tool_id)
            prompt.tools[place] = tool if earlier is None or earlier != tool else earlier
            remember(known, tool.tool_id, prompt.tools[place], at_most=TOLD_TOOLS_MAX)
