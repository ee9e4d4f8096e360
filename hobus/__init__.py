"""What programs use: `Agent`, `tool`, and `Cluster`, which starts one; `Client` (HTTP), `ClusterClient` (the bus).

Clusters and clients have a sister with `Async` before its name, for programs with an event loop; all of them raise
`HobusError` alone. What offers tools to agents imports `tool`, `Invocation`, `ToolFault`, `Image` and `File`. A name is
loaded when it is asked for: every process of a cluster reads this file.

The folders of the repository are packages in here, by links beside this file: `bus/peer.py` is `hobus.bus.peer`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # each `as` itself: so it is exported
    from hobus.bus.messages.session import CommandVerdict as CommandVerdict
    from hobus.bus.messages.session import SessionView as SessionView
    from hobus.bus.messages.session import TurnResult as TurnResult
    from hobus.bus.tool import File as File
    from hobus.bus.tool import Image as Image
    from hobus.bus.tool import Invocation as Invocation
    from hobus.bus.tool import ToolFault as ToolFault
    from hobus.bus.tool import tool as tool
    from hobus.launch.app.agent import Agent as Agent
    from hobus.launch.app.cluster import AsyncCluster as AsyncCluster
    from hobus.launch.app.cluster import Cluster as Cluster
    from hobus.launch.cluster.version import __version__ as __version__
    from hobus.launch.sessions.client_errors import ClusterError as ClusterError
    from hobus.launch.sessions.client_errors import HobusError as HobusError
    from hobus.launch.sessions.client_errors import HttpError as HttpError
    from hobus.launch.sessions.client_errors import RequestError as RequestError
    from hobus.launch.sessions.cluster_client import AsyncClusterClient as AsyncClusterClient
    from hobus.launch.sessions.cluster_client import ClusterClient as ClusterClient
    from hobus.launch.sessions.http_client import AsyncClient as AsyncClient
    from hobus.launch.sessions.http_client import Client as Client
    from hobus.launch.sessions.session_client import Event as Event
    from hobus.launch.sessions.session_client import Piece as Piece
    from hobus.launch.sessions.summary import SessionRow as SessionRow

_FROM = {
    "hobus.bus.messages.session": ("CommandVerdict", "SessionView", "TurnResult"),
    "hobus.bus.tool": ("File", "Image", "Invocation", "ToolFault", "tool"),
    "hobus.launch.app.agent": ("Agent",),
    "hobus.launch.app.cluster": ("AsyncCluster", "Cluster"),
    "hobus.launch.cluster.version": ("__version__",),
    "hobus.launch.sessions.client_errors": ("ClusterError", "HobusError", "HttpError", "RequestError"),
    "hobus.launch.sessions.cluster_client": ("AsyncClusterClient", "ClusterClient"),
    "hobus.launch.sessions.http_client": ("AsyncClient", "Client"),
    "hobus.launch.sessions.session_client": ("Event", "Piece"),
    "hobus.launch.sessions.summary": ("SessionRow",),
}


__all__ = [name for names in _FROM.values() for name in names if name[0] != "_"]  # pyright: ignore[reportUnsupportedDunderAll]


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
