"""What programs use: `Agent`, `tool`, and `Cluster`, which starts one; `Client` (HTTP), `ClusterClient` (the bus).

Clusters and clients have a sister with `Async` before its name, for programs with an event loop; all of them raise
`HobusError` alone. What offers tools to agents imports `tool`, `Invocation`, `ToolFault`, `Image` and `File`. A name is
loaded when it is asked for: every process of a cluster reads this file.

The folders of the repository are packages in here, by links beside this file: `bus/peer.py` is `hobus.bus.peer`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hobus.bus.messages.session import CommandVerdict, SessionView, TurnResult
    from hobus.bus.tool import File, Image, Invocation, ToolFault, tool
    from hobus.launch.app.agent import Agent
    from hobus.launch.app.cluster import AsyncCluster, Cluster
    from hobus.launch.sessions.client_errors import ClusterError, HobusError, HttpError, RequestError
    from hobus.launch.sessions.cluster_client import AsyncClusterClient, ClusterClient
    from hobus.launch.sessions.http_client import AsyncClient, Client
    from hobus.launch.sessions.session_client import Event, Piece
    from hobus.launch.sessions.summary import SessionRow

__all__ = [
    "Agent",
    "AsyncClient",
    "AsyncCluster",
    "AsyncClusterClient",
    "Client",
    "Cluster",
    "ClusterClient",
    "ClusterError",
    "CommandVerdict",
    "Event",
    "File",
    "HobusError",
    "HttpError",
    "Image",
    "Invocation",
    "Piece",
    "RequestError",
    "SessionRow",
    "SessionView",
    "ToolFault",
    "TurnResult",
    "tool",
]

_FROM = {
    "hobus.bus.messages.session": ("CommandVerdict", "SessionView", "TurnResult"),
    "hobus.bus.tool": ("File", "Image", "Invocation", "ToolFault", "tool"),
    "hobus.launch.app.agent": ("Agent",),
    "hobus.launch.app.cluster": ("AsyncCluster", "Cluster"),
    "hobus.launch.sessions.client_errors": ("ClusterError", "HobusError", "HttpError", "RequestError"),
    "hobus.launch.sessions.cluster_client": ("AsyncClusterClient", "ClusterClient"),
    "hobus.launch.sessions.http_client": ("AsyncClient", "Client"),
    "hobus.launch.sessions.session_client": ("Event", "Piece"),
    "hobus.launch.sessions.summary": ("SessionRow",),
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    for module, names in _FROM.items():
        if name in names:
            try:
                return getattr(import_module(module), name)
            except ModuleNotFoundError as error:
                if error.name != "httpx2":
                    raise
                raise ImportError(f"hobus.{name} needs an HTTP library: pip install 'hobus[http]'") from None
    raise AttributeError(f"module 'hobus' has no attribute {name!r}")
