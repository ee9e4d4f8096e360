"""An executor with its tool processes."""

from __future__ import annotations

from actors.ho1_executor.actor import Executor
from actors.ho1_executor.tools.children import ChildToolRunner
from actors.ho1_executor.tools.registry import BUILTIN
from actors.ho1_executor.tools.view import snapshot_view
from launch.endpoints import Place
from launch.roles import Made

VERIFIER = "ledger_service.verify:verify_directory"
"""What the tool that checks the record runs, by name: an actor imports no service."""


def make(place: Place) -> Made:
    """The executor; its tool processes run already, before there is a socket that they could inherit."""
    snapshot, config = place.snapshot, place.snapshot.config
    runner = ChildToolRunner(
        children=config.tools.children,
        tools=BUILTIN,
        view=snapshot_view(snapshot, BUILTIN),
        output_max_bytes=config.tools.output_max_bytes,
        kill_grace_ms=config.tools.kill_grace_ms,
        ledger_dir=str(place.home.ledger),
        verifier=VERIFIER,
    )
    runner.start()
    actor = Executor(snapshot, runner, BUILTIN)
    return Made(actor, slots=config.ho1.slots, tools=runner.available(), close=runner.close)
