"""Every screen and everything that can be done from one, by path."""

from __future__ import annotations

from starlette.routing import Route

from hobus.launch.cli.web import frames
from hobus.launch.cli.web.app import Action, Page
from hobus.launch.cli.web.approvals import show_approvals
from hobus.launch.cli.web.cluster import leave, scale, show_cluster
from hobus.launch.cli.web.configured import show_configuration, show_tools
from hobus.launch.cli.web.gateway import show_gateway
from hobus.launch.cli.web.memory import change, show_memory
from hobus.launch.cli.web.record import record, show_entry, show_verification, verify
from hobus.launch.cli.web.session import ask, show_session, tell
from hobus.launch.cli.web.sessions import show_sessions
from hobus.launch.cli.web.talks import TALKS
from hobus.launch.cli.web.turn import show_difference, show_turn

PAGES = (
    Page("/", show_cluster, "Cluster"),
    Page("/approvals", show_approvals, "Approvals"),
    Page("/sessions", show_sessions, "Sessions"),
    Page("/sessions/{session_id}", show_session),
    Page("/sessions/{session_id}/turns/{turn}", show_turn),
    Page("/diff", show_difference),
    Page("/record", record, "Record"),
    Page("/record/verify", show_verification),
    Page("/record/{sequence}", show_entry),
    Page("/bus", frames.show_bus, "Bus"),
    Page("/bus/diagram", frames.show_diagram),
    Page("/gateway", show_gateway, "Gateway"),
    Page("/memory", show_memory, "Memory"),
    Page("/tools", show_tools, "Tools"),
    Page("/config", show_configuration, "Configuration"),
)
ACTIONS = (
    Action("/cluster/leave", leave),
    Action("/cluster/scale", scale),
    Action("/ask", ask),
    Action("/sessions/{session_id}/commands", tell),
    Action("/record/verify", verify, only_looks=True),
    Action("/memory/change", change),
)
STREAMS = (
    Route("/talks/{input_id}", TALKS.stream),
    Route("/bus/frames", frames.stream_frames),
    Route("/bus/capture.tap", frames.send_capture),
)
