"""The cluster of a test module, whose model is scripted by each test in turn."""

from __future__ import annotations

import asyncio
import os
import socketserver
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
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
from hobus.launch.testing.model import Request, ScriptedModel

M = TypeVar("M", bound=ScriptedModel)
_UNSCRIPTED = (
    "nobody scripted an answer: hobus_cluster.use(ScriptedModel([...])), or pytest --hobus-record for a cassette"
)
_LOOKS_MAX, _POLL_S = 400, 0.05
"""Looks whether labels are still asked for: for a little longer than `ho2.classify_timeout_ms` as shipped."""


def answer_of(model: ScriptedModel | None, asked: Request) -> dict[str, Any]:
    """Return what the model of the moment says."""
    return {"fault": _UNSCRIPTED} if model is None else model.reply(asked)


class _Script(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answer the gateway's requests, each a line, by the model of the moment."""

    daemon_threads = True
    model: ScriptedModel | None = None


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        if line := self.rfile.readline():
            model = self.server.model if isinstance(self.server, _Script) else None
            answer = answer_of(model, msgjson.decode(line, type=Request))
            self.wfile.write(msgjson.encode(answer) + b"\n")


class ScriptedCluster(Cluster):
    """A `Cluster` with a home of its own; its model answers by script, unless `is_real`: then it is the agents' own.

    Nothing is classified and no memory is kept, so that a script holds the agents' answers alone; `settings` (dotted
    path -> value) have it otherwise.
    """

    def __init__(self, agents: Sequence[Agent], *, settings: Mapping[str, Any], is_real: bool = False) -> None:
        self.is_real = is_real
        with ExitStack() as held:
            self._held = held
            root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="hobus-test-")))
            self.tool_answers = root / "tool_answers.json"
            """What a cassette has of tools; where it is, they bring that."""
            os.environ[ANSWERS] = str(self.tool_answers)
            self._script = held.enter_context(_Script(str(root / "model"), _Handler))
            threading.Thread(target=self._script.serve_forever, name="scripted model", daemon=True).start()
            held.callback(self._script.shutdown)
            home = make_home(root / "home")
            given = {"ho2.classify": False, "ho3.enabled": False, **({} if is_real else self._scripted()), **settings}
            given["tools.environment"] = [*given.get("tools.environment", ()), ANSWERS]
            own = dict[str, Any]()
            for path, value in given.items():
                own = lay_over(own_config.read_shipped(), own, path, value)
            with own_config.lock_alone(home):
                own_config.put(home.config / ADMIN_CONFIG, own)
            if not is_real:
                agents = [replace(one, model=None) for one in agents]
            self._open(home, agents)
            self._held = held.pop_all()

    def _open(self, home: Home, agents: Sequence[Agent]) -> None:
        super().__init__(home.root, agents=agents)
        self._held.callback(super().close)

    def close(self) -> None:
        """Close as `Cluster.close` does."""
        self._held.close()

    def use(self, model: M) -> M:
        """Let this model answer from now on; return it. Skips the test while cassettes are recorded."""
        if self.is_real:
            pytest.skip("it scripts its model: there is nothing to record")
        self._script.model = model
        return model

    @property
    def model(self) -> ScriptedModel | None:
        """Return what answers now."""
        return self._script.model

    def rest(self) -> str:
        """Wait until no turn is under way, stop using the model, return what is wrong with what it was asked."""
        for one in self.sessions():
            if one.active_input_id is not None:  # of a test that failed: the next one's script is not its
                self.cancel(one.session_id, "its test is over")
        for _ in range(_LOOKS_MAX):
            if all(one.lifecycle != "Completed" for one in self.sessions()):
                break  # no message is classified any more, for which the next one's script has no answer
            self.wait_for(asyncio.sleep(_POLL_S))
        model, self._script.model = self._script.model, None
        return "" if model is None else model.fault()

    def _scripted(self) -> dict[str, Any]:
        shipped = own_config.read_shipped()["gateway"]["providers"]["offline"]
        row = shipped["models"][0] | {"model_id": "scripted", "sees": True}
        instance = {
            "kind": "plugin", "entry_point": "scripted", "options": {"socket": self._script.server_address},
            "key": None, "models": [row], "any_model": False, "concurrency_max": shipped["concurrency_max"],
        }  # fmt: skip
        route = {"provider_id": "scripted", "model_id": "scripted"}
        return {"gateway.providers.scripted": instance, "gateway.default_route": route}
