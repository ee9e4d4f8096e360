"""`hobus cost`: what models have used and cost, by the record; with or without a running cluster.

Prompts are folded into groups. A call counts when it has its end, with the settlement that stands there; what is
unknown is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.ledger import EVERY_SESSION, Entry
from hobus.bus.record.journal import read_principal
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived, PromptRejected, PromptSent
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.console.errors import CommandError, UsageFault, format_next_here
from hobus.launch.console.output import format_count, print_table, say, style
from hobus.launch.console.view import Columns, cells_of
from hobus.launch.filters.quantities import DURATION_FORM, parse_duration
from hobus.launch.sessions.which import make_no_such
from hobus.ledger_service.reader import EntryFilter, read_entries

_DAY = "DAY (UTC)"


STREAM = "prompts"
KEYS = ("agent", "model", "day", "session", "principal")
"""What a report may be grouped by."""


@click.command()
@click.option("--by", default="agent,model", show_default=True, metavar="KEYS", help=f"Of {', '.join(KEYS)}.")
@click.option("--session", metavar="ID", help="Only this session (its id or a prefix).")
@click.option(
    "--since", metavar="WHEN", help="Only since then: a duration ago (1h30m, 7d), or an ISO date or time (UTC)."
)
@with_json
def cost(*, home: Home, by: str, session: str | None, since: str | None) -> Output:
    """Show tokens and cost by agent, model, day, session or principal.

    A principal owns a session: local, key/<name>, key/<name>/<user>.
    """
    keys, since_us = parse_keys(by), parse_since(since)
    groups = sum_spent(home, keys, session=session, since_us=since_us)
    return Output(make_document(keys, groups), lambda: _show(keys, groups))


def sum_spent(home: Home, keys: Sequence[str], *, session: str | None, since_us: int) -> dict[Group, Spent]:
    """Return sums by group, by the record of a home. Raises CommandError."""
    demand_record(home)
    if session is not None and not any(read_entries(home.ledger, EntryFilter(session=session), limit=1)):
        raise make_no_such(session, called="--session")
    entries = read_entries(home.ledger, EntryFilter(stream=STREAM, session=session), with_bodies=True, by_index=False)
    return sum_by(home, entries, keys, since_us=since_us, session=session)


def sum_by(
    home: Home, entries: Iterable[Entry], keys: Sequence[str], *, since_us: int, session: str | None = None
) -> dict[Group, Spent]:
    """Return sums by group of these entries alone. Raises CommandError."""
    try:
        owners = _map_owners(home, session) if "principal" in keys else {}
        return report(entries, keys, since_us=since_us, owners=owners)
    except ValueError as fault:
        raise CommandError(
            f"an entry of the record cannot be read, so there is no sum: {fault}",
            hint=f"{format_next_here('ledger verify')}; --session leaves out entries of other versions",
        ) from None


def make_document(keys: Sequence[str], groups: Mapping[Group, Spent]) -> dict[str, Any]:
    rows = [{**dict(zip(keys, group, strict=True)), **_make_group_document(spent)} for group, spent in groups.items()]
    return {"by": list(keys), "rows": rows, "total": _make_group_document(sum_total(groups.values()))}


def _make_group_document(spent: Spent) -> dict[str, Any]:
    return {**asdict(spent), "cost_is_known": spent.cost_is_known}


def _show(keys: list[str], groups: dict[Group, Spent]) -> None:
    if not groups:
        say("no model was called")
        return
    rows = [[*_names(keys, group), *cells_of(spent, _COLUMNS)] for group, spent in groups.items()]
    if len(groups) > 1:
        rows.append(["total", *["" for _ in keys[1:]], *cells_of(sum_total(groups.values()), _COLUMNS)])
    headings = [*(_DAY if key == "day" else key.upper() for key in keys), *_COLUMNS]
    print_table(headings, rows, spare=("CACHED", "INPUT", "OUTPUT", "CALLS"))
    if any(spent.unknown_outcomes for spent in groups.values()):
        say(style("unknown outcome: nobody can say whether it was answered; what was reserved counts", "bright_black"))


def _names(keys: list[str], group: Group) -> list[str]:
    return [
        shorten_session(name) if key == "session" and name != "-" else name
        for key, name in zip(keys, group, strict=True)
    ]


def _notes(spent: Spent) -> str:
    notes = (
        (spent.failed, "failed"), (spent.rejected, "rejected"), (spent.open_calls, "without an end yet"),
        (spent.unknown_outcomes, f"of unknown outcome ({format_count(spent.unknown_tokens, 'token')})"),
        (spent.unknown_prices, "of unknown price"),
    )  # fmt: skip
    return ", ".join(f"{count} {text}" for count, text in notes if count)


def _format_cost(spent: Spent) -> str:
    if spent.cost_is_known:
        return f"${spent.cost_usd:.4f}"
    return f"${spent.cost_usd:.4f} + unknown" if spent.unknown_prices < spent.calls else "unknown"


_COLUMNS: Columns = {
    "CALLS": "calls", "INPUT": "input_tokens", "CACHED": "cached_tokens", "OUTPUT": "output_tokens",
    "TOKENS": "tokens", "COST": _format_cost, "NOTE": _notes,
}  # fmt: skip


def parse_keys(by: str) -> list[str]:
    """Return what a report is grouped by. Raises UsageFault."""
    keys = [key.strip() for key in by.split(",") if key.strip()]
    wrong = [key for key in keys if key not in KEYS]
    if wrong or not keys or len(set(keys)) < len(keys):
        raise UsageFault(f"--by {by}: expected some of {', '.join(KEYS)}, each once")
    return keys


def parse_since(since: str | None) -> int:
    """Return microseconds since 1970; 0: since the beginning. Raises UsageFault."""
    if since is None:
        return 0
    try:
        return parse_since_us(since, SystemClock().now())
    except (ValueError, OverflowError):
        raise UsageFault(
            f"--since {since[:40]}: expected {DURATION_FORM}, or an ISO date or time such as 2026-01-31"
        ) from None


Group = tuple[str, ...]
_Payload = PromptSent | PromptReceived | PromptFailed | PromptRejected
_PAYLOADS: dict[str, type[_Payload]] = {
    "PROMPT_SENT": PromptSent, "PROMPT_RECEIVED": PromptReceived, "PROMPT_FAILED": PromptFailed,
    "PROMPT_REJECTED": PromptRejected,
}  # fmt: skip


@dataclass(slots=True)
class Spent:
    """Sums of one group."""

    calls: int = 0  # sent to a provider, with an end
    failed: int = 0  # of them, without an answer
    rejected: int = 0  # refused by the gateway, never sent
    input_tokens: int = 0
    cached_tokens: int = 0  # of the input, cached by the provider
    output_tokens: int = 0
    tokens: int = 0  # as settled: also what failed calls used, and what unknown ones had reserved
    cost_usd: float = 0.0  # of the calls whose price is known
    unknown_prices: int = 0
    unknown_outcomes: int = 0
    unknown_tokens: int = 0  # of unknown outcomes, at their reservation
    open_calls: int = 0  # sent, without an end yet

    def add(self, other: Spent) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def cost_is_known(self) -> bool:
        return not self.unknown_prices


def report(
    entries: Iterable[Entry], by: Sequence[str], *, since_us: int = 0, owners: Mapping[str, str] | None = None
) -> dict[Group, Spent]:
    """Return sums by group, sorted. `since_us`: ends (and open calls) recorded before that do not count.

    `owners`: session id -> principal, for the key of that name; a session that it lacks is of "-". Raises ValueError
    that names the entry whose payload cannot be read.
    """
    groups: dict[Group, Spent] = {}
    sent: dict[str, tuple[Group, int]] = {}
    owners = dict(owners or {})
    for entry in entries:
        kind, _, name = entry.submission_id.partition(":")
        if kind not in _PAYLOADS:
            continue
        payload = _read_payload(kind, entry)
        if isinstance(payload, PromptSent) and payload.principal:
            owners[entry.provenance.session_id] = payload.principal  # vectors: asked for outside a session
        if kind == "PROMPT_SENT":
            sent[name] = (_find_group(entry, payload, by, owners), entry.ledger_at_us)
            continue
        if kind != "PROMPT_REJECTED":
            sent.pop(name, None)
        if entry.ledger_at_us >= since_us:
            groups.setdefault(_find_group(entry, payload, by, owners), Spent()).add(_read_spent(kind, payload))
    for group, at_us in sent.values():
        if at_us >= since_us:
            groups.setdefault(group, Spent()).add(Spent(open_calls=1))
    return dict(sorted(groups.items()))


def sum_total(groups: Iterable[Spent]) -> Spent:
    whole = Spent()
    for group in groups:
        whole.add(group)
    return whole


def parse_since_us(text: str, now: float) -> int:
    """Return microseconds since 1970 of a duration ago (`90s`) or an ISO date or time (UTC). Raises ValueError."""
    try:
        return round((now - parse_duration(text)) * 1_000_000)
    except ValueError:
        moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def _read_payload(kind: str, entry: Entry) -> _Payload | None:
    try:
        return read_payload(_PAYLOADS[kind], entry)
    except ValueError as fault:
        raise ValueError(f"#{entry.sequence} {entry.submission_id} of {entry.origin}: {fault}") from None


def _read_spent(kind: str, payload: _Payload | None) -> Spent:
    if kind == "PROMPT_REJECTED":
        return Spent(rejected=1)
    match payload:
        case PromptReceived():
            return Spent(
                calls=1, input_tokens=payload.input_tokens, cached_tokens=payload.cached_tokens,
                output_tokens=payload.output_tokens, tokens=payload.tokens, cost_usd=payload.cost_usd or 0.0,
                unknown_prices=int(payload.cost_usd is None),
            )  # fmt: skip
        case PromptFailed(was_sent=False):
            return Spent()
        case PromptFailed(tokens=tokens, cost_usd=cost, is_unknown=is_unknown):
            return Spent(
                calls=1, failed=1, tokens=tokens, cost_usd=cost or 0.0, unknown_prices=int(cost is None),
                unknown_outcomes=int(is_unknown), unknown_tokens=tokens if is_unknown else 0,
            )  # fmt: skip
        case _:  # erased: that it was is all that is left of it
            return Spent(calls=1, failed=int(kind == "PROMPT_FAILED"), unknown_prices=1, unknown_outcomes=1)


def _find_group(entry: Entry, payload: _Payload | None, by: Sequence[str], owners: Mapping[str, str]) -> Group:
    return tuple(_find_key(name, entry, payload, owners) for name in by)


def _find_key(name: str, entry: Entry, payload: _Payload | None, owners: Mapping[str, str]) -> str:
    session_id = entry.provenance.session_id
    match name:
        case "agent":
            return entry.provenance.agent_id or "-"
        case "model":
            if payload is None or isinstance(payload, PromptRejected) or not payload.provider_id:
                return "-"
            return f"{payload.provider_id}/{payload.model_id}"
        case "day":
            return datetime.fromtimestamp(entry.ledger_at_us / 1_000_000, UTC).strftime("%Y-%m-%d")
        case "principal":
            return owners.get(session_id, "-")
        case _:
            return session_id or "-"


def _map_owners(home: Home, session: str | None) -> dict[str, str]:
    """Map session id to principal, for each session whose beginning says it."""
    wanted = EntryFilter(stream=EVERY_SESSION, event_type="SESSION_START", session=session)
    beginnings = read_entries(home.ledger, wanted, with_bodies=True)
    return {entry.provenance.session_id: owner for entry in beginnings if (owner := read_principal(entry))}
