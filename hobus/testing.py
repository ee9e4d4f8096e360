"""Tests of agents with pytest (docs/testing.md): the fixture `hobus_cluster` comes by itself, these are imported."""

from hobus.launch.testing.cluster import ScriptedCluster
from hobus.launch.testing.model import Request, ScriptedCall, ScriptedModel, ShownMessage, call

__all__ = ["Request", "ScriptedCall", "ScriptedCluster", "ScriptedModel", "ShownMessage", "call"]
