"""`hobus ps`: the processes of a cluster, as the launcher and the broker see them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import click
import psutil

from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import LAG, LAGGING_MS
from hobus.bus.messages.base import Record
from hobus.bus.messages.control import PeerRow, Peers
from hobus.bus.paging import read_peers
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cluster.client import connect_bus, place_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import list_unread_spools
from hobus.launch.cluster.run_file import ChildRow, RunFile, find_running, find_stall
from hobus.launch.console.errors import CommandError, format_next_here
from hobus.launch.console.output import format_count, format_duration, format_size, note, print_table
from hobus.launch.limits import LOG_TAIL_LINES
from hobus.ledger_service.limits import explain_shortage

_WORSE = {"ready": ("degraded", "draining", "lost"), "degraded": ("draining", "lost")}
"""For each word of the launcher the broker's words that are worse: those are what counts for a request."""

_ZYGOTE = {
    "": "",
    "starting": "loads; whatever is started meanwhile waits for it",
    "ready": "forks the others; not needed once they run",
    "failed": "ended before it was loaded: processes are fresh interpreters; tried again later",
}

_HEADINGS = ("ACTOR", "STATE", "PID", "UP", "RESTARTS", "RSS", "IN FLIGHT", "LAST BEAT", "HOST", "NOTE")
_SPARE = ("RSS", "IN FLIGHT", "RESTARTS", "PID", "HOST", "UP", "LAST BEAT")
"""Left out where a terminal is too narrow, the first of them first."""

_NOTES = {"draining": "takes no new work (broker.drain)"}


class ActorRow(Record):
    """One line of `hobus ps`; the shape of `--json` is stable."""

    actor: str
    instance: str
    state: str
    pid: int | None
    up_s: float
    restarts: int
    next_try_s: float | None
    rss_bytes: int | None
    in_flight: int | None
    last_beat_ms: int | None
    note: str
    host: str = ""
    """Name and address of its machine, for a worker on another one."""
    slots: int | None = None
    tools: tuple[str, ...] = ()
    version: str = ""


@click.command()
@with_json
def ps(*, home: Home) -> Output:
    """List the processes of the cluster and their states."""
    run, now = find_running(home), SystemClock().now()
    answer, rows = read_rows(home, run, now)
    return Output(make_document(home, run, answer, rows), lambda: _show(home, run, now, answer, rows))


def make_document(home: Home, run: RunFile, answer: Peers | None, rows: list[ActorRow]) -> dict[str, Any]:
    """Return the same facts for programs, in a stable shape."""
    return {
        "home": str(home.root),
        "phase": run.phase,
        "launcher_pid": run.launcher_pid,
        "launcher_stalled": find_stall(run.launcher_pid) is not None,
        "zygote_pid": run.zygote_pid,
        "zygote_restarts": run.zygote_restarts,
        "zygote_state": run.zygote_state,
        "config_digest": run.config_digest,
        "broker_answers": answer is not None,
        "listens": answer.listens if answer is not None else "",
        "http": home.bound(http=True),
        "refused_keys": answer.refused_keys if answer is not None else [],
        "actors": rows,
    }


def _show(home: Home, run: RunFile, now: float, answer: Peers | None, rows: list[ActorRow]) -> None:
    print_table(_HEADINGS, [*make_own_lines(run, now), *map(format_row, rows)], coloured=1, spare=_SPARE)
    if answer is None:
        note("the broker does not answer, or no token can be written: figures of the bus are missing")
    for line in [*(list_listening(answer) if answer is not None else ()), *list_unread_spools(home)]:
        note(line)
    if http := home.bound(http=True):
        note(f"the HTTP door is http://{http} ({format_next_here('token create --role http')})")
    for row in (one for one in run.children if one.state == "failed"):
        from hobus.launch.launcher.operate import show_tail  # noqa: PLC0415 - loads a launcher's rooms

        show_tail(home, row, LOG_TAIL_LINES)


def read_rows(home: Home, run: RunFile, now: float) -> tuple[Peers | None, list[ActorRow]]:
    """Return what the broker says (None: no answer), and a row for each process, then for each worker elsewhere."""
    answer = asyncio.run(ask_peers(home, run))
    return answer, make_rows(home, run, now, answer)


def make_rows(home: Home, run: RunFile, now: float, answer: Peers | None) -> list[ActorRow]:
    peers = None if answer is None else {row.instance: row for row in answer.peers}
    room = explain_no_room(home, run)
    rows = [make_actor_row(child, peers, now, no_room=room) for child in run.children]
    return rows + [make_remote_row(peer) for peer in (peers or {}).values() if peer.address]


def make_own_lines(run: RunFile, now: float) -> list[tuple[str, ...]]:
    """Return the launcher's own line, and the zygote's where there is one."""
    state = "draining" if run.phase == "draining" else "ready"
    fault = find_stall(run.launcher_pid)
    if fault is not None:
        state = "stalled"
    why = "" if fault is None else f"stopped by a signal: kill -CONT {run.launcher_pid}"
    up = format_duration(now - run.started_at)
    lines: list[tuple[str, ...]] = [
        ("launcher", state, str(run.launcher_pid), up, "-", _format_size(run.launcher_pid), "-", "-", "local", why)
    ]
    if run.zygote_state:
        pid, rss = (str(run.zygote_pid), _format_size(run.zygote_pid)) if run.zygote_pid else ("-", "-")
        what = _ZYGOTE[run.zygote_state]
        lines.append(("zygote", run.zygote_state, pid, "-", str(run.zygote_restarts), rss, "-", "-", "local", what))
    return lines


def _format_size(pid: int) -> str:
    rss = _read_rss(pid)
    return format_size(rss) if rss is not None else "-"


def list_listening(peers: Peers) -> list[str]:
    if not peers.listens:
        return []
    lines = [f"listens at {peers.listens} for workers on other hosts ({format_next_here('token create')})"]
    lines += [
        f"refused {key.key} from {key.address}, {format_count(key.count, 'time')}, "
        f"last {format_duration(key.last_ms / 1000)} ago: it is not enrolled here"
        for key in peers.refused_keys
    ]
    counters = next((row.counters for row in peers.peers if row.role == "broker"), {})
    if strange := counters.get("handshakes_failed"):
        lines.append(f"{strange} connections did not speak CURVE, or used another cluster's key")
    return lines


def make_remote_row(peer: PeerRow) -> ActorRow:
    """Return a worker on another host, by the broker's word alone."""
    return ActorRow(
        actor=peer.instance.partition("@")[0],
        instance=peer.instance,
        state=peer.state,
        pid=None,
        up_s=round(peer.connected_ms / 1000, 3),
        restarts=0,
        next_try_s=None,
        rss_bytes=None,
        in_flight=peer.in_flight,
        last_beat_ms=peer.last_beat_ms,
        note=peer.reason or _NOTES.get(peer.state, "") or _describe_missing_tools(peer),
        host=f"{peer.host} {peer.address}".strip(),
        slots=peer.slots,
        tools=tuple(peer.tools),
        version=peer.version,
    )


async def ask_peers(home: Home, run: RunFile) -> Peers | None:
    """Return what the broker says; None if it does not answer."""
    place = place_of(home, run)
    timeout_s = place.snapshot.config.bus.peer_timeout_ms / 1000
    try:
        async with asyncio.timeout(2 * timeout_s), connect_bus(place, "operator") as bus:
            return await read_peers(bus, timeout_s=timeout_s)
    except (RuntimeFault, CommandError, TimeoutError):  # CommandError: the disk is full, no token can be written
        return None


def explain_no_room(home: Home, run: RunFile) -> str:
    """Return why the record takes nothing now, by the ledger's own rule; empty while there is space."""
    with suppress(OSError):
        return explain_shortage(RealDisk(home.ledger).free_bytes(), place_of(home, run).snapshot.config.ledger)
    return ""


def make_actor_row(child: ChildRow, peers: dict[str, PeerRow] | None, now: float, *, no_room: str) -> ActorRow:
    """Return the launcher's word on a process, completed by the broker's, the kernel's, and the ledger's disk."""
    peer = (peers or {}).get(child.instance)
    is_missing = peers is not None and child.role != "broker" and (peer is None or peer.state == "lost")
    is_cut_off = is_missing and child.state in ("ready", "degraded")
    silent_s = now - child.silent_since if is_cut_off and child.silent_since else None
    is_worse = peer is not None and peer.state in _WORSE.get(child.state, ())
    state: str = peer.state if peer is not None and is_worse else child.state
    if is_cut_off:
        state = "stalled"
    why = peer.reason or _NOTES.get(peer.state, "") if peer is not None and is_worse else ""
    if no_room and child.role == "ledger" and state == "ready":
        state, why = "degraded", no_room
    return ActorRow(
        actor=child.actor,
        instance=child.instance,
        state=state,
        pid=child.pid or None,
        up_s=round(now - child.started_at, 3) if child.pid else 0.0,
        restarts=child.restarts,
        next_try_s=max(0.0, round(child.next_try_at - now, 3)) if child.state == "backoff" else None,
        rss_bytes=_read_rss(child.pid),
        in_flight=peer.in_flight if peer is not None else None,
        last_beat_ms=peer.last_beat_ms if peer is not None and not is_missing else _convert_ms(silent_s),
        note=(_describe_silence(silent_s) if is_cut_off and not child.note else "")
        or why
        or child.note
        or (_describe_missing_tools(peer) or _describe_bound(peer) if peer is not None else ""),
    )


def _convert_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _describe_silence(silent_s: float | None) -> str:
    known = "alive, but not on the bus" if silent_s is None else f"no beat for {format_duration(silent_s)}"
    return f"{known}: frozen or cut off"


def _describe_missing_tools(peer: PeerRow) -> str:
    return (
        f"without the tools of {', '.join(peer.missing_tools)} ({format_next_here('tools')})"
        if peer.missing_tools
        else ""
    )


def _describe_bound(peer: PeerRow) -> str:
    told, count = peer.counters.get, format_count
    states = (("breakers_open", "not called"), ("breakers_half_open", "tried again"))
    models = [f"{count(number, 'model')} {what}" for name, what in states if (number := told(name, 0))]
    said = [f"{', '.join(models)} ({format_next_here('breaker')})"] if models else []
    return "; ".join([*said, *waits_for(peer)])


def waits_for(peer: PeerRow) -> list[str]:
    """Return what bounds the work of a process, by the counters of its beats: processor time, or a provider."""
    told, count, said = peer.counters.get, format_count, list[str]()
    if waiting := told("runs_waiting", 0):
        said.append(f"{count(waiting, 'turn')} wait{'s' * (waiting == 1)} to begin: no processor time is left")
    if waiting := told("places_waiting", 0):
        said.append(f"{count(waiting, 'call')} wait{'s' * (waiting == 1)} for a provider that takes no more at once")
    if (lag_ms := told(LAG, 0)) >= LAGGING_MS:
        said.append(f"its loop is {lag_ms} ms behind: it gets no more work until it has caught up")
    return said


def _read_rss(pid: int) -> int | None:
    if not pid:
        return None
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None


def format_row(row: ActorRow) -> tuple[str, ...]:
    """Return the row's cells; what is not known is a dash."""
    state = row.state
    if row.next_try_s is not None:
        state = f"backoff({row.restarts + 1}, next try {format_duration(row.next_try_s)})"
    return (
        row.actor,
        state,
        str(row.pid or "-"),
        format_duration(row.up_s) if row.pid or row.host else "-",
        str(row.restarts),
        format_size(row.rss_bytes) if row.rss_bytes is not None else "-",
        str(row.in_flight) if row.in_flight is not None else "-",
        "-" if row.last_beat_ms is None else _format_ago(row.last_beat_ms),
        row.host or "local",
        f"{describe_elsewhere(row)}  {row.note}".strip() if row.host else row.note,
    )


def describe_elsewhere(row: ActorRow) -> str:
    return f"{format_count(row.slots or 0, 'slot')}, {format_count(len(row.tools), 'tool')}, hobus {row.version}"


def _format_ago(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else format_duration(ms / 1000)  # noqa: PLR2004 - from there on in seconds
