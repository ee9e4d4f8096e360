"""The cluster of a test module, whose model is scripted by each test in turn."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import json as msgjson

from hobus.bus.tool import ANSWERS
from hobus.config.files import ADMIN_CONFIG
from hobus.config.own_settings import lay_over
from hobus.launch.app.agent import Agent
from hobus.launch.app.cluster import Cluster
from hobus.launch.cluster import own_config
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.limits import SCRIPTED_REQUEST_MAX_BYTES, SCRIPTED_TURN_S
from hobus.launch.testing.model import Reply, Request, ScriptedModel

M = TypeVar("M", bound=ScriptedModel)
_UNSCRIPTED = (
    "nobody scripted an answer: hobus_cluster.use(ScriptedModel([...])), or pytest --hobus-record for a cassette"
)
_LOOKS_MAX, _POLL_S = 400, 0.05
"""Looks whether labels are still asked for: for a little longer than `ho2.classify_timeout_ms` as shipped."""


class ScriptedCluster(Cluster):
    """A `Cluster` whose home lies below `root`; its model answers by script, or is the agents' own (`is_real`).

    Nothing is classified and no memory is kept, so that a script holds the agents' answers alone; `settings` (dotted
    path -> value) have it otherwise.
    """

    def __init__(self, root: Path, agents: Sequence[Agent], settings: Mapping[str, Any], *, is_real: bool) -> None:
        self.is_real = is_real
        self.model: ScriptedModel | None = None
        """What answers now."""
        self._tool_answers, self._socket = root / "tool_answers.json", root / "model"
        os.environ[ANSWERS] = str(self._tool_answers)
        shipped, own, home = own_config.read_shipped(), dict[str, Any](), make_home(root / "home")
        given = {"ho2.classify": False, "ho3.enabled": False, **({} if is_real else self._script(shipped)), **settings}
        given["tools.environment"] = [*given.get("tools.environment", ()), ANSWERS]
        for path, value in given.items():
            own = lay_over(shipped, own, path, value)
        with own_config.lock_alone(home):
            own_config.put(home.config / ADMIN_CONFIG, own)
        self._open(home, agents if is_real else [replace(one, model=None) for one in agents])

    def _open(self, home: Home, agents: Sequence[Agent]) -> None:
        super().__init__(home.root, agents=agents, **({} if self.is_real else {"timeout_s": SCRIPTED_TURN_S}))
        hearing = asyncio.start_unix_server(self._hear, self._socket, limit=SCRIPTED_REQUEST_MAX_BYTES)
        self._hearing = self.wait_for(hearing)

    def close(self) -> None:
        """Close as `Cluster.close` does."""
        if not self.client.is_closed:
            self._loop.call_soon_threadsafe(self._hearing.close)
        super().close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the gateway's request, which is a line; a function in a script may take its time."""
        try:
            asked = msgjson.decode(await reader.readline(), type=Request)
            writer.write(msgjson.encode(await asyncio.to_thread(self.reply, asked)) + b"\n")
        finally:
            writer.close()

    def reply(self, asked: Request) -> Reply:
        """Return what the model of the moment says."""
        return Reply(fault=_UNSCRIPTED) if self.model is None else self.model.reply(asked)

    def use(self, model: M) -> M:
        """Let this model answer from now on; return it. Skips the test while cassettes are recorded."""
        if self.is_real:
            pytest.skip("it scripts its model: there is nothing to record")
        self._tool_answers.write_text(json.dumps(model.tool_answers()), encoding="utf-8")
        self.model = model
        return model

    def rest(self) -> str:
        """Wait until no turn is under way, stop using the model, return what is wrong with what it was asked."""
        for one in self.sessions():
            if one.active_input_id is not None:  # of a test that failed: the next one's script is not its
                self.cancel(one.session_id, "its test is over")
        for _ in range(_LOOKS_MAX):
            if all(one.lifecycle != "Completed" for one in self.sessions()):
                break  # no message is classified any more, for which the next one's script has no answer
            self.wait_for(asyncio.sleep(_POLL_S))
        model, self.model = self.model, None
        return "" if model is None else model.fault()

    def _script(self, shipped: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings by which the gateway asks this process."""
        offline = shipped["gateway"]["providers"]["offline"]
        instance = {
            "kind": "plugin", "entry_point": "scripted", "options": {"socket": str(self._socket)}, "key": None,
            "models": [offline["models"][0] | {"model_id": "scripted", "sees": True}], "any_model": False,
            "concurrency_max": offline["concurrency_max"],
        }  # fmt: skip
        route = {"provider_id": "scripted", "model_id": "scripted"}
        return {"gateway.providers.scripted": instance, "gateway.default_route": route}
