"""Every screen and everything that can be done from one, by path."""

from __future__ import annotations

from shlex import quote

from starlette.routing import Route

from hobus.bus.limits import HITS_MAX
from hobus.bus.messages.ids import shorten_session
from hobus.launch.cli.web import frames, limits
from hobus.launch.cli.web.app import Action, Page, PageRequest
from hobus.launch.cli.web.cluster import leave, scale, show_cluster
from hobus.launch.cli.web.configured import show_configuration, show_tools
from hobus.launch.cli.web.gateway import show_gateway
from hobus.launch.cli.web.memory import change, show_memory
from hobus.launch.cli.web.record import record, show_entry, show_verification, verify
from hobus.launch.cli.web.session import ask, show_session, tell
from hobus.launch.cli.web.sessions import show_approvals, show_sessions
from hobus.launch.cli.web.talks import TALKS
from hobus.launch.cli.web.turn import show_difference, show_turn


def _join(command: str, *words: str) -> str:
    """Return the command with those of these words that are given, for a shell."""
    return " ".join([command, *(quote(one) for one in words if one)])


def _given(look: PageRequest, command: str, *options: str) -> str:
    return _join(command, *(word for name in options if look.text(name) for word in (f"--{name}", look.text(name))))


def _name_session(look: PageRequest) -> str:
    return shorten_session(look.path["session_id"].removeprefix("SES-"))


def _turn(look: PageRequest) -> str:
    turn = look.path["turn"]
    return _join("why", f"{_name_session(look)}{'-' if turn.isdigit() else '/'}{turn}")


def _tap(look: PageRequest, wanted: str, *more: str) -> str:
    return _join("tap", wanted, *(("-r", str(look.source.capture)) if look.source.capture else more))


def _record(look: PageRequest) -> str:
    words, before = look.text("words"), look.text("before")
    if words:
        return _join("ledger search", words, "--limit", str(HITS_MAX))
    return _join("ledger show", look.text("filter"), before and f"sequence<{before}")


PAGES: tuple[Page, ...] = (
    Page("/", show_cluster, lambda _: "ps", "Cluster"),
    Page(
        "/approvals", show_approvals,
        lambda look: _given(look, "session list --state approval --json", "limit", "before"), "Approvals",
    ),
    Page(
        "/sessions", show_sessions,
        lambda look: _given(
            look, "session list --all", "state", "outcome", "agent", "principal", "words", "limit", "before"
        ),
        "Sessions",
    ),
    Page(
        "/sessions/{session_id}", show_session,
        lambda look: _given(look, _join("session show", _name_session(look)), "limit"),
    ),
    Page("/sessions/{session_id}/turns/{turn}", show_turn, _turn),
    Page("/diff", show_difference, lambda look: _join("diff", look.text("before"), look.text("after"))),
    Page("/record", record, _record, "Record"),
    Page("/record/verify", show_verification, lambda _: "ledger verify"),
    Page("/record/{sequence}", show_entry, lambda look: _join("ledger show", look.path["sequence"], "--bodies")),
    Page("/bus", frames.show_bus, lambda look: _tap(look, look.text("filter")), "Bus", "console --capture FILE"),
    Page(
        "/bus/diagram", frames.show_diagram,
        lambda look: _tap(look, f"turn={look.text('turn')}", "--since", look.text("since") or limits.RING),
    ),
    Page("/gateway", show_gateway, lambda look: _given(look, "cost", "by", "since"), "Gateway"),
    Page(
        "/memory", show_memory, lambda look: _given(look, "memory overlays --all", "agent"), "Memory",
        "ledger show stream=overlays --bodies",
    ),
    Page("/tools", show_tools, lambda _: "tools", "Tools"),
    Page(
        "/config", show_configuration, lambda look: ""  # of two recorded ones, what differs
        if look.text("before") and look.text("after") else f"{_join('config show', look.text('setting'))} --origin",
        "Configuration",
    ),
)  # fmt: skip
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
