"""One table: every message type, where it goes, who may send it, how it is delivered.

The broker's policy, the shell's dispatch and `bus/PROTOCOL.md` are made from this table. What goes to a service
is loaded when somebody asks about that service: a command that asks one thing is not to build the messages of all.

Columns. `service`: who answers. `reply`: class of the answer (None: a post). `senders`: roles. `mode`: `slot` (takes
one of the worker's slots: credit), `ordered` (one at a time per routing key, takes a slot), `immediate` (no credit:
admission, commands, reads: each one a synchronous step between awaits). `redeliver`: goes to another worker when its
worker is lost.
`sensitive`: the body is shown on the tap only to readers with that right. `low`: waits behind other work.
`about`: a command about what its sender has open: counted apart from that, so that it never waits behind it.
`reads`: changes nothing, so that it is answered anew when it comes again, and no answer is kept for that.
`pages`: reads pages of the record, each made while nobody else is answered: its principal's next one waits for a turn.
`timed`: the histogram of the broker that counts how long it took, from request to answer (`bus/histogram.py`).
`by_tool`: its key is the tool that it needs; it goes to workers that announce that tool. For a tool of a server that
keeps state the key goes on with a space and whom for: all such go to one worker while it has the tool.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hobus.bus.messages.base import Message

Mode = Literal["slot", "ordered", "immediate"]

ROLES = ("broker", "ledger", "gateway", "ho1", "ho2", "ho3", "host", "http", "door", "operator", "launcher")
EVERY_ROLE = frozenset(ROLES)
CLIENT_ROLES = frozenset({"door", "operator", "http"})
"""Those that ask and answer nobody: commands of the command line, operators, the HTTP door."""
_OPERATOR = frozenset({"operator"})
_OPERATION = frozenset({"operator", "launcher"})
_MEMORY = _SEARCHERS = frozenset({"ho2", "operator"})


class Row(NamedTuple):
    """One message type."""

    cls: type[Message]
    service: str
    reply: type[Message] | None
    senders: frozenset[str]
    mode: Mode = "immediate"
    redeliver: bool = True
    sensitive: bool = False
    low: bool = False
    by_tool: bool = False
    about: bool = False
    reads: bool = False
    pages: bool = False
    timed: str = ""


def _list_host_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import gateway, session

    return (
        Row(session.StartSession, "host", session.SessionReady, CLIENT_ROLES),
        Row(session.ProcessTurn, "host", session.TurnResult, CLIENT_ROLES, sensitive=True, timed="turn"),
        Row(session.EndSession, "host", session.SessionClosed, CLIENT_ROLES, about=True),
        Row(gateway.Embed, "host", gateway.PromptResponse, frozenset({"http"}), sensitive=True),  # passed on
    )


def _list_ho2_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import session

    return (
        Row(session.TurnRequest, "ho2", session.TurnReply, frozenset({"host", "ho2"}), sensitive=True),
        Row(session.ReadSession, "ho2", session.SessionView, frozenset({"host", "operator", "http"})),
        Row(
            session.SessionCommand,
            "ho2",
            session.CommandVerdict,
            CLIENT_ROLES | {"host"},
            sensitive=True,
            about=True,
        ),
        Row(session.LeaveSession, "ho2", session.SessionView, _OPERATOR),
        Row(session.Consolidate, "ho2", None, frozenset({"host", "ho2"}), "ordered", redeliver=False, low=True),
        # StartSession and EndSession are passed on by the host. A supervisor that finds a session without an owner, or
        # whose agent calls another, asks as the host does.
        Row(session.StartSession, "ho2", session.SessionReady, frozenset({"host", "ho2"})),
        Row(session.EndSession, "ho2", session.SessionClosed, frozenset({"host", "ho2"})),
    )


def _list_ho1_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import files, work_order

    return (
        Row(
            work_order.ExecuteWorkOrder,
            "ho1",
            work_order.Receipt,
            frozenset({"ho2"}),
            "slot",
            sensitive=True,
            by_tool=True,
        ),
        Row(files.ReadFile, "ho1", files.FileText, frozenset({"ho2"}), sensitive=True, by_tool=True, reads=True),
    )


def _list_gateway_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import gateway

    return (
        Row(
            gateway.Prompt, "gateway", gateway.PromptResponse, frozenset({"ho1"}), "slot", sensitive=True, timed="call"
        ),
        Row(gateway.DegradedPrompt, "gateway", gateway.PromptResponse, frozenset({"host"}), sensitive=True),
        Row(gateway.Embed, "gateway", gateway.PromptResponse, frozenset({"host"}), sensitive=True),
        Row(gateway.ReadBudget, "gateway", gateway.Budget, frozenset({"ho1", "ho2", "operator"})),
        Row(gateway.ReadBreakers, "gateway", gateway.Breakers, frozenset({"ho1", "ho2", "operator"})),
    )


def _list_ho3_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import memory

    return (
        Row(memory.ReadSignals, "ho3", memory.Signals, _MEMORY),
        Row(memory.ReadOverlays, "ho3", memory.Overlays, _MEMORY | {"http"}, sensitive=True),
        Row(memory.ReadActiveBiases, "ho3", memory.Biases, _MEMORY, sensitive=True),
        Row(memory.ReadReview, "ho3", memory.Review, _OPERATOR, sensitive=True),
        Row(memory.CheckGate, "ho3", memory.GateChecked, _MEMORY),
        Row(memory.ReadMemoryStats, "ho3", memory.MemoryStats, _MEMORY),
        Row(memory.LogSignal, "ho3", memory.SignalsLogged, _MEMORY),
        Row(memory.LogSignals, "ho3", memory.SignalsLogged, _MEMORY),
        Row(memory.LogOverlay, "ho3", memory.OverlayLogged, _MEMORY, sensitive=True),
        Row(memory.DeactivateOverlay, "ho3", memory.OverlayChanged, _OPERATOR | {"http"}, sensitive=True),
        Row(memory.ActivateOverlay, "ho3", memory.OverlayChanged, _OPERATOR | {"http"}, sensitive=True),
        Row(memory.ConfirmOverlay, "ho3", memory.OverlayChanged, _OPERATOR | {"http"}, sensitive=True),
        Row(memory.UpdateOverlayWeight, "ho3", memory.OverlayChanged, _OPERATOR | {"http"}, sensitive=True),
        Row(memory.LogConsolidationFailure, "ho3", memory.ConsolidationFailureLogged, _MEMORY, sensitive=True),
    )


def _list_ledger_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import ledger

    return (
        Row(ledger.Write, "ledger", ledger.Written, EVERY_ROLE, sensitive=True),
        Row(ledger.Import, "ledger", ledger.Written, _OPERATOR, sensitive=True),
        Row(ledger.Lookup, "ledger", ledger.Found, EVERY_ROLE, sensitive=True, reads=True),
        Row(ledger.Read, "ledger", ledger.Entries, EVERY_ROLE, sensitive=True, reads=True, pages=True),
        Row(ledger.Query, "ledger", ledger.Entries, EVERY_ROLE, sensitive=True, reads=True, pages=True),
        Row(ledger.Tail, "ledger", ledger.Entries, EVERY_ROLE, sensitive=True, reads=True, pages=True),
        Row(
            ledger.Search,
            "ledger",
            ledger.Hits,
            frozenset({"ho1", "ho2", "operator"}),
            sensitive=True,
            reads=True,
            pages=True,
        ),
        Row(ledger.GetBody, "ledger", ledger.Body, EVERY_ROLE, sensitive=True, reads=True),
        Row(ledger.ReadLedgerStats, "ledger", ledger.LedgerStats, EVERY_ROLE),
    )


def _list_broker_rows() -> tuple[Row, ...]:
    from hobus.bus.messages import control

    return (
        Row(control.ReadPeers, "broker", control.Peers, _OPERATION | {"ho1", "ho2", "ho3", "gateway", "host", "http"}),
        Row(control.ReadPeer, "broker", control.PeerRow, _OPERATION | {"ho1", "ho2"}),
        Row(control.ReadTools, "broker", control.Tools, _OPERATION | {"ho1", "ho2", "host"}),
        Row(control.ReadQueues, "broker", control.Queues, _OPERATION | {"http"}),
        Row(control.Drain, "broker", control.Done, _OPERATION, redeliver=False),
        Row(control.CreateToken, "broker", control.TokenCreated, _OPERATOR),
        Row(control.RevokeKey, "broker", control.Done, _OPERATOR, redeliver=False),
        Row(control.RotateKey, "broker", control.Done, _OPERATOR, redeliver=False),
        Row(control.InstanceLost, "broker", None, frozenset({"launcher"}), redeliver=False),
        Row(control.ServiceGivenUp, "broker", None, frozenset({"launcher"}), redeliver=False),
        Row(control.UseSnapshot, "broker", control.Done, frozenset({"launcher"}), redeliver=False),
        Row(control.LaneFrames, "broker", None, frozenset({"gateway", "ho1"}), redeliver=False),
    )


_TABLES = {
    "host": _list_host_rows, "ho2": _list_ho2_rows, "ho1": _list_ho1_rows, "gateway": _list_gateway_rows,
    "ho3": _list_ho3_rows, "ledger": _list_ledger_rows, "broker": _list_broker_rows,
}  # fmt: skip

if TYPE_CHECKING:
    ROWS: tuple[Row, ...]
    """Of all services."""
    CLASSES: dict[str, type[Message]]
    """type -> class for every routed body, replies and stream frames included."""


@cache
def map_rows(service: str) -> dict[str, Row]:
    """Map type to row of what this service takes; empty for what is no service."""
    table = _TABLES.get(service)
    return {} if table is None else {row.cls.TYPE: row for row in table()}


def find_row(service: str, type_name: str) -> Row | None:
    """Return the row for a message of this type to this service; None if the service does not take it."""
    return map_rows(service).get(type_name)


@cache
def map_streamed() -> dict[str, type[Message]]:
    """Map type to class of what comes before a reply."""
    from hobus.bus.messages import streams

    return {cls.TYPE: cls for cls in (streams.StreamDelta, streams.StreamReset, streams.StreamWaiting)}


@cache
def _all(name: str) -> Any:
    rows = tuple(row for table in _TABLES.values() for row in table())
    if name == "ROWS":
        return rows
    asked = {row.cls.TYPE: row.cls for row in rows}
    return asked | {row.reply.TYPE: row.reply for row in rows if row.reply is not None} | map_streamed()


def __getattr__(name: str) -> Any:
    if name in ("ROWS", "CLASSES"):
        return _all(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
