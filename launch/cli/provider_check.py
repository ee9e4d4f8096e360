"""Whether a configured provider can be used from here: library, key, address, models, one by one.

Asks for the list of models and for nothing else: a prompt goes through the gateway alone, which records it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hobus.bus.errors import GatewayError
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import AnyProvider
from hobus.gateway_service.providers.http.provider import HttpProvider
from hobus.launch.console.finding import DoctorFinding, fail, make_ok, warn
from hobus.launch.process.roles.gateway import make_provider

_UNKNOWN_HERE = frozenset({400, 404, 405, 501})
"""What a server without a list of its models says."""

_REFUSED_KEY = frozenset({401, 403})


def check(provider_id: str, whole: AdminConfig, given: Mapping[str, str]) -> list[DoctorFinding]:
    """Return what was looked at, up to a failure that the rest needs; `given`: this shell's variables."""
    config = whole.gateway.providers[provider_id]
    return asyncio.run(_check(provider_id, config, whole, given))


async def _check(
    provider_id: str, config: AnyProvider, whole: AdminConfig, given: Mapping[str, str]
) -> list[DoctorFinding]:
    made = make_provider(provider_id, config, whole, given)
    try:
        await made.prepare()
    except GatewayError as fault:
        return [_make_failed(f"{provider_id} setup", fault.detail)]
    key = "" if config.kind == "offline" else config.key or ""
    about = f"its library is loaded, its key read ({key})" if key else "it needs no key"
    found = [make_ok(f"{provider_id} setup", f"kind {config.kind}; {about}")]
    if isinstance(made, HttpProvider) and config.kind in ("openai", "anthropic"):
        found += await _ask_provider(provider_id, made, config, whole)
    return found


def _make_failed(check: str, detail: str) -> DoctorFinding:
    """Return a fault whose last part is its fix."""
    what, _, fix = detail.rpartition("; ")
    return fail(check, what or detail, fix)


async def _ask_provider(
    provider_id: str, made: HttpProvider, config: AnyProvider, whole: AdminConfig
) -> list[DoctorFinding]:
    timeout_s = whole.launcher.client_timeout_ms / 1000
    try:
        offered = await made.models(timeout_s=timeout_s)
    except GatewayError as fault:
        return [_make_refused(provider_id, fault)]
    finally:
        await made.close()
    found = [make_ok(f"{provider_id} connection", f"it answers, and offers {len(offered)} models")]
    missing = [model.model_id for model in config.models if model.model_id not in offered]
    if missing:
        known = ", ".join(list(offered)[:8]) + (" …" if len(offered) > 8 else "")  # noqa: PLR2004 - enough to see the kind of name
        said = f"it does not offer {', '.join(missing)}; it offers {known or 'none'}"
        fix = f"correct gateway.providers.{provider_id}.models, or let the server load it"
        found.append(fail(f"{provider_id} models", said, fix))
    elif config.models:
        named = ", ".join(model.model_id for model in config.models)
        found.append(make_ok(f"{provider_id} models", f"it offers {named}"))
    for number, model in enumerate(config.models):
        if model.context_tokens is None and (window := offered.get(model.model_id)):
            said = (
                f"{model.model_id} reads {window} tokens, which the configuration does not say: no history is cut to it"
            )
            fix = f"set gateway.providers.{provider_id}.models.{number}.context_tokens to {window}"
            found.append(warn(f"{provider_id} window", said, fix))
    return found


def _make_refused(provider_id: str, fault: GatewayError) -> DoctorFinding:
    status = fault.facts.get("status")
    if status in _REFUSED_KEY:
        return fail(f"{provider_id} key", fault.detail, "give it a valid key")
    if status in _UNKNOWN_HERE:
        said = (
            f"it answers ({status}), but lists no models: the first question shows whether it has the configured ones"
        )
        return warn(f"{provider_id} models", said, "is base_url right?")
    fix = f"{'start it' if fault.retryable else 'do that'}, or correct gateway.providers.{provider_id}.base_url"
    return fail(f"{provider_id} connection", fault.detail, fix)
