"""The screens of tools and of the configuration."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool

from hobus.bus.messages.base import unpack
from hobus.bus.paging import read_tools
from hobus.config.own_settings import flatten_settings
from hobus.config.secret_refs import redact
from hobus.launch.cli.commands.config import list_rows
from hobus.launch.cli.commands.tools import list_notes, make_source_rows, make_tool_rows
from hobus.launch.cli.provenance_view import change_in_words, read_configurations
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.cluster.config_changed import find_changes
from hobus.launch.cluster.run_file import find_running
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.sessions.provenance import Configuration, list_changed

_NONE = object()


async def show_tools(look: PageRequest) -> PageAnswer:
    """`hobus tools`: each, where it comes from, who may use it, whether it writes or needs an approval."""
    place, bus = await look.source.connection("broker")
    told = await read_tools(bus, timeout_s=place.client_timeout_s)
    rows, sources = make_tool_rows(told, place.snapshot), make_source_rows(told, place.snapshot)
    notes = list(list_notes(rows, sources, place.snapshot))
    document = {"home": str(look.source.home.root), "tools": rows, "sources": sources, "notes": notes}
    shown = {"rows": rows, "sources": sources, "notes": notes}
    return PageAnswer("tools.html", "Tools", document, shown, live="beats")


async def show_configuration(look: PageRequest) -> PageAnswer:
    """`hobus config show --origin`, whether the running cluster goes by it, and which ones the record has."""
    home = look.source.home
    said, before, after = map(look.text, ("setting", "before", "after"))
    rows, hidden = await run_in_threadpool(list_rows, home, said)
    known = await run_in_threadpool(read_configurations, home)
    shown: dict[str, Any] = {
        "rows": rows, "hidden": hidden, "said": said, "known": list(known.values())[::-1], "in_force": "",
        "changed": None, "before": before, "after": after, "difference": None,
    }  # fmt: skip
    with suppress(CommandError):
        run = find_running(home)
        shown |= {"in_force": run.config_digest, "changed": await run_in_threadpool(find_changes, home, run)}
    document: dict[str, Any] = {name: shown[name] for name in ("hidden", "in_force", "changed")} | {
        "settings": rows, "recorded": [{"digest": one.digest, "at_us": one.at_us} for one in shown["known"]],
    }  # fmt: skip
    if before and after:
        shown["difference"] = document["difference"] = compare(_find_named(known, before), _find_named(known, after))
    return PageAnswer("config.html", "Configuration", document, shown)


def compare(one: Configuration, other: Configuration) -> dict[str, Any]:
    """Return files and settings that are not the same under both. Pure."""
    left, right = (flatten_settings(redact(unpack(each.body)["config"])) if each.body else {} for each in (one, other))
    paths = [path for path in {**left, **right} if left.get(path, _NONE) != right.get(path, _NONE)]
    return {
        "assets": [(asset.path, *change_in_words(asset)) for asset in list_changed(one, other)],
        "settings": [{"setting": path, "before": left.get(path), "after": right.get(path)} for path in paths],
    }


def _find_named(known: dict[str, Configuration], digest: str) -> Configuration:
    given = digest.removeprefix("sha256:")
    found = [one for name, one in known.items() if name.removeprefix("sha256:").startswith(given)]
    if len(found) != 1:
        raise UsageFault(f"{digest[:80]}: {len(found)} configurations of the record begin so")
    return found[0]
