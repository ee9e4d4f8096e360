"""Which provider and model answer a prompt, how a profile has them asked, and which is asked after a failed send. Pure.

Another model is asked on faults of the provider alone: what one model refuses for the caller's sake, the next one would
refuse as well. A provider that takes no more for now (429) is as good as one at fault.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt
from hobus.bus.window import remember
from hobus.config.assets import AgentFile
from hobus.config.sections.gateway import GatewayConfig, Route
from hobus.gateway_service import limits
from hobus.gateway_service.breaker import judge_end
from hobus.gateway_service.limits import ANSWER_MIN_TOKENS, ESTIMATE_MARGIN


def choose_route(prompt: Prompt, config: GatewayConfig) -> Route:
    """Return the named provider, else the first domain tag that has a route, else the default.

    A named model always wins.

    A provider named without a model keeps the model of the route that would have applied if that route is the
    provider's own, else it gets its first configured model. Whether the provider exists is `check_route`'s question.
    """
    tagged = next(
        (config.domain_tag_routes[tag] for tag in prompt.domain_tags if tag in config.domain_tag_routes), None
    )
    route = tagged or config.default_route
    if prompt.provider_id is not None and prompt.provider_id != route.provider_id:
        provider = config.providers.get(prompt.provider_id)
        model_id = provider.models[0].model_id if provider and provider.models else ""
        route = Route(provider_id=prompt.provider_id, model_id=model_id)
    if prompt.model_id not in (None, route.model_id):
        route = Route(provider_id=route.provider_id, model_id=prompt.model_id)
    return route


def check_route(route: Route, config: GatewayConfig, providers: Collection[str]) -> None:
    """Raise GatewayError unless its provider runs here (PROVIDER_NOT_FOUND) and has the model (MODEL_NOT_FOUND).

    `providers`: those that run here.
    """
    if route.provider_id not in config.providers or route.provider_id not in providers:
        known = ", ".join(sorted(config.providers))
        raise GatewayError(
            "PROVIDER_NOT_FOUND", f"no provider {route.provider_id[:80]!r} in gateway.providers; configured: {known}"
        )

    instance = config.providers[route.provider_id]
    models = [model.model_id for model in instance.models]
    if route.model_id not in models and not (instance.any_model and route.model_id.strip()):
        raise GatewayError(
            "MODEL_NOT_FOUND",
            f"provider {route.provider_id} has no model {route.model_id[:80]!r} in gateway.providers; "
            f"configured: {', '.join(models) or 'none'}",
        )


def answer_cap(max_tokens: int, route: Route, estimate: int, window: int) -> int:
    """Return the cap of an answer that fits into the window behind a prompt of about `estimate` tokens.

    Raises GatewayError(CONTEXT_TOO_LONG) where the prompt alone does not, or leaves too little to say anything.
    """
    room = window - estimate - estimate // ESTIMATE_MARGIN
    if room < min(max_tokens, ANSWER_MIN_TOKENS):
        raise GatewayError(
            "CONTEXT_TOO_LONG",
            f"the prompt has about {estimate} tokens, and the window of {route.model_id} {window}, which leaves no "
            f"room for an answer: {describe_window_mend(route.provider_id)}",
        )
    return min(max_tokens, room)


def describe_window_mend(provider_id: str) -> str:
    """Return what helps where a conversation is longer than its model can read."""
    return (
        "begin a new session, say less in one turn, lower budget.history_budget or tools.output_max_bytes, choose a "
        f"model with a larger window, or correct context_tokens of this one in gateway.providers.{provider_id}.models"
    )


def with_profile(prompt: Prompt, route: Route, config: GatewayConfig) -> Prompt:
    """Return the prompt as its profile has it asked.

    Raises GatewayError(PROVIDER_NOT_FOUND) for an unknown profile, or another provider's.
    """
    name = prompt.provider_profile_id
    if name is None:
        return prompt
    profile = config.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(config.profiles)) or "none"
        raise GatewayError("PROVIDER_NOT_FOUND", f"no profile {name[:80]!r} in gateway.profiles; configured: {known}")
    if profile.provider_id != route.provider_id:
        raise GatewayError(
            "PROVIDER_NOT_FOUND",
            f"profile {name[:80]!r} is of provider {profile.provider_id}, and {route.provider_id[:80]!r} is asked; "
            "name that provider, or another profile",
        )
    update: dict[str, Any] = {}
    if profile.temperature is not None and (prompt.sampling is None or prompt.sampling.temperature is None):
        update["temperature"] = profile.temperature
    if profile.reasoning_effort is not None and prompt.reasoning_effort is None:
        update["reasoning_effort"] = profile.reasoning_effort
    if profile.max_tokens is not None:
        update["max_tokens"] = min(prompt.max_tokens, profile.max_tokens)
    return prompt.model_copy(update=update)


# --- after a failed send ----------------------------------------------------------------------------------------------

_UNKNOWN_CODES = frozenset({"PROVIDER_TIMEOUT", "UNKNOWN_OUTCOME"})


def is_unknown(fault: GatewayError) -> bool:
    """Return whether nobody knows if the provider worked (a fault may say so, by the fact `unknown`)."""
    return fault.code in _UNKNOWN_CODES or fault.facts.get("unknown") is True


def may_try_again(fault: GatewayError, sends: int, config: GatewayConfig) -> bool:
    """Return whether another attempt may follow after `sends` sends of this request.

    A fault after which nobody knows whether the provider worked is tried again only where `gateway.on_unknown_outcome`
    says so.
    """
    if sends >= config.attempts_max or not fault.retryable:
        return False
    return not is_unknown(fault) or config.on_unknown_outcome == "resend"


_OVERLOAD = frozenset({503, 529})


def is_overload(fault: GatewayError) -> bool:
    """Return whether the provider says that this was too much at once, and will not be for ever."""
    return fault.retryable and (fault.code == "PROVIDER_RATE_LIMITED" or fault.facts.get("status") in _OVERLOAD)


def may_outlast(fault: GatewayError, waited_s: float, config: GatewayConfig, *, is_open: bool) -> bool:
    """Return whether a call that nobody else can answer outlasts this fault, however often it was sent.

    Nothing was done for it: its provider cannot be reached, takes no more for now, or has failed so often that its
    breaker is open (`gateway.outage_wait_ms`).
    """
    if not fault.retryable or fault.facts.get("unbilled") is not True:
        return False
    if fault.code == "PROVIDER_RATE_LIMITED" and config.on_rate_limit != "wait":
        return False
    is_away = is_open or fault.facts.get("status") is None or is_overload(fault)
    return is_away and waited_s < config.outage_wait_ms / 1000


def pause_s(fault: GatewayError, sends: int, draw: float) -> float:
    """Return seconds before the next attempt: exponential, jitter in its upper half, at least the retry-after."""
    step = min(limits.BACKOFF_MAX_MS, limits.BACKOFF_MIN_MS * 2 ** (sends - 1)) / 1000
    asked = fault.facts.get("retry_after_ms")
    return max(step * (0.5 + draw / 2), asked / 1000 if isinstance(asked, int) else 0.0)


def list_chain(route: Route, agent: AgentFile, config: GatewayConfig) -> list[Route]:
    """Return the route itself, then those that follow it (`gateway.fallbacks`) and that the agent may use."""
    asked = route.provider_id, route.model_id
    following = next((link.routes for link in config.fallbacks if (link.provider_id, link.model_id) == asked), [])
    allowed = agent.permissions.allows
    return [
        route,
        *(one for one in following if allowed("providers", one.provider_id) and allowed("models", one.model_id)),
    ]


def may_follow(fault: GatewayError, config: GatewayConfig) -> bool:
    """Return whether the next model is asked after this fault: the provider's, an open breaker, or no room in time.

    Not where nobody knows whether the call was made and the configuration has such calls fail.
    """
    if is_unknown(fault) and config.on_unknown_outcome == "fail":
        return False
    return (
        judge_end(fault) == "fault"
        or fault.code in ("CIRCUIT_OPEN", "PROVIDER_RATE_LIMITED")
        or fault.facts.get("no_place") is True
        or fault.facts.get("is_share") is True
    )


def join_faults(said: Sequence[str]) -> str:
    """Return what the models of a chain that failed whole said, in the words of their faults: the newest first."""
    newest, *before = dict.fromkeys(reversed(said))
    return "; before that: ".join([newest, *before])


class LastFaults:
    """Which providers failed each session since it was last answered, and how; of the newest sessions alone."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._failed: OrderedDict[str, dict[str, str]] = OrderedDict()

    def failed(self, session_id: str, provider_id: str, said: str) -> None:
        """Note that this provider has just failed a call of the session, with these words."""
        failed = self._failed.get(session_id, {})
        failed.pop(provider_id, None)
        remember(self._failed, session_id, {**failed, provider_id: said}, at_most=self._sessions_max)

    def answered(self, session_id: str) -> str:
        """Return once more what failed the session before, and forget it. Empty: nothing."""
        failed = self._failed.pop(session_id, None)
        return join_faults(list(failed.values())) if failed else ""

    def said(self, session_id: str) -> list[str]:
        """Return the words of those that have just failed this session, the newest last."""
        return list(self._failed.get(session_id, {}).values())

    def last(self, session_id: str, links: Sequence[Route]) -> list[Route]:
        """Return the chain for a last try: links whose providers have just failed this session come last."""
        failed = self._failed.get(session_id, ())
        return sorted(links, key=lambda link: link.provider_id in failed)


def compute_time(left_s: float, following: int, reserve_s: float) -> float:
    """Return a model's part of the time that is left: each of the `following` ones keeps its reserve.

    Where there is not enough for that, all get the same.
    """
    return max(left_s - following * reserve_s, left_s / (following + 1))
