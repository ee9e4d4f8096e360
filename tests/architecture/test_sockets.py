"""No socket has both ZMTP heartbeats and a receive limit: libzmq aborts the process when such a peer dies at its limit."""

from __future__ import annotations

import ast

import pytest
import zmq

from hobus.bus import limits
from hobus.bus.zeromq.context import ZeroMQ
from tests.architecture.source import modules, nodes, uses
from tests.bus.broker.rig import settings_with

MAKER = "hobus.bus.zeromq.context"
HEARTBEATS = {"zmq.HEARTBEAT_IVL", "zmq.HEARTBEAT_TIMEOUT", "zmq.HEARTBEAT_TTL"}
LIMITS = {"zmq.RCVHWM", "zmq.HWM"}


@pytest.mark.parametrize("kind", ["bound", "feed", "connecting"])
def test_each_kind_has_one_of_the_two(kind: str) -> None:
    """As libzmq itself says it."""
    zeromq = ZeroMQ(settings_with())
    with getattr(zeromq, kind)(zmq.DEALER) as socket:
        has_limit, has_heartbeats = socket.getsockopt(zmq.RCVHWM) > 0, socket.getsockopt(zmq.HEARTBEAT_IVL) > 0
    zeromq.close()
    assert (has_limit, has_heartbeats) == ((False, True) if kind == "connecting" else (True, False))


def test_each_kind_has_its_own_limit() -> None:
    """`limits.RECEIVE_MAX` for servers, `limits.TAP_HWM` for the tap."""
    zeromq = ZeroMQ(settings_with())
    with zeromq.bound(zmq.ROUTER) as router, zeromq.feed(zmq.SUB) as reader:
        assert (router.getsockopt(zmq.RCVHWM), reader.getsockopt(zmq.RCVHWM)) == (limits.RECEIVE_MAX, limits.TAP_HWM)
    zeromq.close()


def test_nobody_else_makes_sockets_or_gives_them_either() -> None:
    """Contexts, heartbeats and limits are named in one module."""
    named = {module: {name for name, _ in uses(tree)} for module, tree in modules().items() if module != MAKER}
    assert {name for name, _ in uses(modules()[MAKER])} >= HEARTBEATS
    assert {module for module, names in named.items() if names & (HEARTBEATS | {"zmq.Context"})} == set()
    assert {module for module, names in named.items() if names & LIMITS} == set()
    attributes = {"hwm", "rcvhwm", "set_hwm", "heartbeat_ivl", "HEARTBEAT_IVL"}
    assert [
        module
        for module, tree in modules().items()
        if module.startswith("hobus.bus.zeromq") and module != MAKER
        for node in nodes(tree, ast.Attribute)
        if node.attr in attributes
    ] == []
