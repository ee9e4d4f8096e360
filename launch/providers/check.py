"""Whether a configured provider can be used from here: its library, its key, its address, its models, one by one.

Asks for the list of models and for nothing else: a prompt goes through the gateway alone, which records it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bus.errors import GatewayError
from config.schema import AnyProvider
from config.snapshot import Snapshot
from gateway_service.providers.http.provider import HttpProvider
from launch.checkup import Finding
from launch.roles.gateway import provider

_UNKNOWN_HERE = frozenset({400, 404, 405, 501})
"""What a server without a list of its models says."""

_REFUSED_KEY = frozenset({401, 403})


def check(provider_id: str, snapshot: Snapshot, given: Mapping[str, str]) -> list[Finding]:
    """What was looked at, in order, up to the first part that fails; `given`: the variables of this shell."""
    config = snapshot.config.gateway.providers[provider_id]
    return asyncio.run(_check(provider_id, config, snapshot, given))


async def _check(provider_id: str, config: AnyProvider, snapshot: Snapshot, given: Mapping[str, str]) -> list[Finding]:
    made = provider(provider_id, config, snapshot, given)
    try:
        await made.prepare()
    except GatewayError as fault:
        what, _, mend = fault.detail.rpartition("; ")
        return [Finding(check=f"{provider_id} setup", verdict="fail", said=what or fault.detail, mend=mend)]
    key = "" if config.kind == "offline" else config.key or ""
    about = f"its library is loaded, its key read ({key})" if key else "it needs no key"
    found = [Finding(check=f"{provider_id} setup", verdict="ok", said=f"kind {config.kind}; {about}")]
    if isinstance(made, HttpProvider) and config.kind in ("openai", "anthropic"):
        found += await _asked(provider_id, made, config, snapshot)
    return found


async def _asked(provider_id: str, made: HttpProvider, config: AnyProvider, snapshot: Snapshot) -> list[Finding]:
    timeout_s = snapshot.config.launcher.client_timeout_ms / 1000
    try:
        offered = await made.models(timeout_s=timeout_s)
    except GatewayError as fault:
        return [_refused(provider_id, fault)]
    found = [
        Finding(check=f"{provider_id} connection", verdict="ok", said=f"it answers, and offers {len(offered)} models")
    ]
    missing = [model.model_id for model in config.models if model.model_id not in offered]
    if missing:
        known = ", ".join(offered[:8]) + (" …" if len(offered) > 8 else "")  # noqa: PLR2004 - enough to see the kind of name
        said = f"it does not offer {', '.join(missing)}; it offers {known or 'none'}"
        mend = f"correct gateway.providers.{provider_id}.models, or let the server load it"
        found.append(Finding(check=f"{provider_id} models", verdict="fail", said=said, mend=mend))
    elif config.models:
        named = ", ".join(model.model_id for model in config.models)
        found.append(Finding(check=f"{provider_id} models", verdict="ok", said=f"it offers {named}"))
    return found


def _refused(provider_id: str, fault: GatewayError) -> Finding:
    status = fault.facts.get("status")
    if status in _REFUSED_KEY:
        return Finding(check=f"{provider_id} key", verdict="fail", said=fault.detail, mend="give it a valid key")
    if status in _UNKNOWN_HERE:
        said = (
            f"it answers ({status}), but lists no models: the first question shows whether it has the configured ones"
        )
        return Finding(check=f"{provider_id} models", verdict="warn", said=said, mend="is base_url right?")
    mend = f"start it, or correct gateway.providers.{provider_id}.base_url"
    return Finding(check=f"{provider_id} connection", verdict="fail", said=fault.detail, mend=mend)
