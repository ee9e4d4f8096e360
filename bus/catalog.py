"""One table: every message type, where it goes, who may send it, how it is delivered.

The broker's policy, the shell's dispatch and `bus/PROTOCOL.md` are made from this table. Source: spec page "The bus".

Columns. `service`: who answers. `reply`: class of the answer (None: a post). `senders`: roles. `mode`: `slot` (takes
one of the worker's slots: credit), `ordered` (one at a time per routing key, takes a slot), `immediate` (no credit:
admission, commands, reads: each one a synchronous step between awaits). `redeliver`: goes to another worker when its
worker is lost.
`sensitive`: the body is shown on the tap only to readers with that right. `low`: waits behind other work.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from bus.messages import control, gateway, ledger, session, work_order
from bus.messages.base import Message

Mode = Literal["slot", "ordered", "immediate"]

ROLES = ("broker", "ledger", "gateway", "ho1", "ho2", "ho3", "host", "door", "operator", "launcher")
EVERY_ROLE = frozenset(ROLES)
CLIENT_ROLES = frozenset({"door", "operator"})
_OPERATION = frozenset({"operator", "launcher"})


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


_ROWS = (
    # host
    Row(session.StartSession, "host", session.SessionReady, CLIENT_ROLES),
    Row(session.ProcessTurn, "host", session.TurnResult, CLIENT_ROLES, sensitive=True),
    Row(session.EndSession, "host", session.SessionClosed, CLIENT_ROLES),
    # ho2 (StartSession and EndSession are passed on by the host)
    Row(session.TurnRequest, "ho2", session.TurnReply, frozenset({"host"}), sensitive=True),
    Row(session.ReadSession, "ho2", session.SessionView, frozenset({"host", "operator"})),
    # ho1
    Row(work_order.ExecuteWorkOrder, "ho1", work_order.Receipt, frozenset({"ho2"}), "slot", sensitive=True),
    # gateway
    Row(gateway.Prompt, "gateway", gateway.PromptResponse, frozenset({"ho1"}), "slot", sensitive=True),
    Row(gateway.DegradedPrompt, "gateway", gateway.PromptResponse, frozenset({"host"}), sensitive=True),
    Row(gateway.ReadBudget, "gateway", gateway.Budget, frozenset({"ho1", "ho2", "operator"})),
    Row(gateway.ReadBreakers, "gateway", gateway.Breakers, frozenset({"ho1", "ho2", "operator"})),
    # ledger
    Row(ledger.Write, "ledger", ledger.Written, EVERY_ROLE, sensitive=True),
    Row(ledger.Lookup, "ledger", ledger.Found, EVERY_ROLE, sensitive=True),
    Row(ledger.Read, "ledger", ledger.Entries, EVERY_ROLE, sensitive=True),
    Row(ledger.Query, "ledger", ledger.Entries, EVERY_ROLE, sensitive=True),
    Row(ledger.Tail, "ledger", ledger.Entries, EVERY_ROLE, sensitive=True),
    Row(ledger.GetBody, "ledger", ledger.Body, EVERY_ROLE, sensitive=True),
    Row(ledger.ReadLedgerStats, "ledger", ledger.LedgerStats, EVERY_ROLE),
    # broker
    Row(control.ReadPeers, "broker", control.Peers, _OPERATION | {"ho1", "ho2", "gateway", "host"}),
    Row(control.ReadPeer, "broker", control.PeerRow, _OPERATION | {"ho1", "ho2"}),
    Row(control.ReadQueues, "broker", control.Queues, _OPERATION),
    Row(control.Drain, "broker", control.Done, _OPERATION, redeliver=False),
    Row(control.InstanceLost, "broker", None, frozenset({"launcher"}), redeliver=False),
    Row(control.ServiceGivenUp, "broker", None, frozenset({"launcher"}), redeliver=False),
)

# StartSession and EndSession go to two services: client -> host, host -> ho2.
_FORWARDED = (
    Row(session.StartSession, "ho2", session.SessionReady, frozenset({"host"})),
    Row(session.EndSession, "ho2", session.SessionClosed, frozenset({"host"})),
)

ROWS: tuple[Row, ...] = _ROWS + _FORWARDED
BY_ROUTE: dict[tuple[str, str], Row] = {(row.service, row.cls.TYPE): row for row in ROWS}
"""(service, type) -> row: what the policy asks."""

CLASSES: dict[str, type[Message]] = {row.cls.TYPE: row.cls for row in ROWS} | {
    row.reply.TYPE: row.reply for row in ROWS if row.reply is not None
}
"""type -> class for every routed body, replies included."""


def row_of(service: str, type_name: str) -> Row | None:
    """The row for a message of this type to this service; None if the service does not take it."""
    return BY_ROUTE.get((service, type_name))
