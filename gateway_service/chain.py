"""Fallback chains: which model is asked after which, and how much time each of them gets. Pure.

On faults of the provider alone: what one model refuses for the caller's
sake, the next one would refuse as well. A provider that takes no more for now (429) is as good as one at fault.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from hobus.bus.errors import GatewayError
from hobus.config.assets import Agent
from hobus.config.schema import GatewayConfig, Route
from hobus.gateway_service import retry
from hobus.gateway_service.breaker import said_by


def chain_of(route: Route, agent: Agent, config: GatewayConfig) -> list[Route]:
    """The route itself, then those that follow it (`gateway.fallbacks`) and that the agent may use."""
    asked = route.provider_id, route.model_id
    following = next((link.routes for link in config.fallbacks if (link.provider_id, link.model_id) == asked), [])
    allowed = agent.permissions.allows
    return [
        route,
        *(one for one in following if allowed("providers", one.provider_id) and allowed("models", one.model_id)),
    ]


def may_follow(fault: GatewayError, config: GatewayConfig) -> bool:
    """Whether the next model is asked after this fault: the provider's, an open breaker, or no room at it in time.

    Not where nobody knows whether the call was made and the configuration has such calls fail.
    """
    if retry.is_unknown(fault) and config.on_unknown_outcome == "fail":
        return False
    return (
        said_by(fault) == "fault"
        or fault.code in ("CIRCUIT_OPEN", "PROVIDER_RATE_LIMITED")
        or fault.facts.get("no_place") is True
        or fault.facts.get("is_share") is True
    )


def told(said: Sequence[str]) -> str:
    """What the models of a chain that failed whole said, in the words of their faults: the newest first."""
    newest, *before = dict.fromkeys(reversed(said))
    return "; before that: ".join([newest, *before])


class LastFaults:
    """Which providers have failed each session since it was last answered, and how; of the newest sessions alone."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._failed: OrderedDict[str, dict[str, str]] = OrderedDict()

    def failed(self, session_id: str, provider_id: str, said: str) -> None:
        """This provider has just failed a call of the session, with these words."""
        self._failed.setdefault(session_id, {}).pop(provider_id, None)
        self._failed[session_id][provider_id] = said
        self._failed.move_to_end(session_id)
        if len(self._failed) > self._sessions_max:
            self._failed.popitem(last=False)

    def answered(self, session_id: str) -> str:
        """What failed it before, for the last time: it is no news any more. Empty: nothing."""
        said = self.said(session_id)
        self._failed.pop(session_id, None)
        return told(said) if said else ""

    def said(self, session_id: str) -> list[str]:
        """The words of those that have just failed this session, the newest last."""
        return list(self._failed.get(session_id, {}).values())

    def last(self, session_id: str, links: Sequence[Route]) -> list[Route]:
        """The same chain, those behind whose providers have just failed this session: for its one last try."""
        failed = self._failed.get(session_id, ())
        return sorted(links, key=lambda link: link.provider_id in failed)


def time_for(left_s: float, following: int, reserve_s: float) -> float:
    """Of the time that is left, what a model gets with so many still behind it: each of these keeps its reserve.

    Where there is not enough for that, all get the same.
    """
    return max(left_s - following * reserve_s, left_s / (following + 1))
