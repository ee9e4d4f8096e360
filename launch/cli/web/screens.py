"""Every screen and everything that can be done from one, by path."""

from __future__ import annotations

from starlette.routing import Route

from hobus.launch.cli.web import frames
from hobus.launch.cli.web.app import Action, Page
from hobus.launch.cli.web.approvals import approvals
from hobus.launch.cli.web.cluster import cluster, leave, scale
from hobus.launch.cli.web.configured import configuration, tools
from hobus.launch.cli.web.gateway import gateway
from hobus.launch.cli.web.memory import change, memory
from hobus.launch.cli.web.record import entry, record, verification, verify
from hobus.launch.cli.web.session import ask, session, tell
from hobus.launch.cli.web.sessions import sessions
from hobus.launch.cli.web.talks import TALKS
from hobus.launch.cli.web.turn import difference, turn

PAGES = (
    Page("/", cluster, "Cluster"),
    Page("/approvals", approvals, "Approvals"),
    Page("/sessions", sessions, "Sessions"),
    Page("/sessions/{session_id}", session),
    Page("/sessions/{session_id}/turns/{turn}", turn),
    Page("/diff", difference),
    Page("/record", record, "Record"),
    Page("/record/verify", verification),
    Page("/record/{sequence}", entry),
    Page("/bus", frames.bus, "Bus"),
    Page("/bus/diagram", frames.diagram),
    Page("/gateway", gateway, "Gateway"),
    Page("/memory", memory, "Memory"),
    Page("/tools", tools, "Tools"),
    Page("/config", configuration, "Configuration"),
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
    Route("/bus/frames", frames.live_frames),
    Route("/bus/capture.tap", frames.captured),
)
