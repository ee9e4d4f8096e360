"""Tests of agents with pytest (docs/testing.md): the fixture `hobus_cluster` comes by itself, these are imported."""

from hobus.launch.testing.cluster import ScriptedCluster
from hobus.launch.testing.model import Call, Message, Request, ScriptedModel, call

__all__ = ["Call", "Message", "Request", "ScriptedCluster", "ScriptedModel", "call"]
