"""G2, in part: no secret stands in the configuration. Pure; a value is never repeated, only its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hobus.config.assets import AgentFile
from hobus.config.gates.finding import Finding
from hobus.config.own_settings import settings_in
from hobus.config.schema import AdminConfig
from hobus.config.secret_refs import looks_secret, redacted

_MEND = "put it into the environment or a file, and write `env:NAME` or `file:PATH` here"


def secrets(
    config: AdminConfig, packs: Mapping[str, str], agents: Mapping[str, AgentFile], paths: Mapping[str, str]
) -> Iterator[Finding]:
    """A setting that holds one fails; a text of a prompt that looks like one is a warning: it may be an example."""
    whole: dict[str, Any] = config.model_dump(mode="json")
    shown = settings_in(redacted(whole))
    place = paths.get("admin_config.json", "admin_config.json")
    for path, value in settings_in(whole).items():
        if shown[path] != value:
            yield Finding("G2", place, f"{path}: holds a secret, by its name or form", _MEND)
    texts = {f"prompt_packs/{name}.txt": text for name, text in packs.items()}
    texts |= {f"agents/{name}.json": agent.system_prompt for name, agent in agents.items()}
    for name, text in texts.items():
        if looks_secret(text):
            reason = "a text in it has the form of a secret, and every prompt would show it"
            yield Finding("G2", paths.get(name, name), reason, "take it out, unless it is an example", "warn")
