"""How a worker on another host becomes one: it enrols its own key with a token, and fetches the configuration."""

from __future__ import annotations

import asyncio

from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.errors import BusError, ConfigError, RuntimeFault
from hobus.bus.limits import BODY_MAX_BYTES, LEDGER_REQUEST_TIMEOUT_MS
from hobus.bus.messages.control import Join, Joined, Refused
from hobus.bus.messages.ids import derive_body_ref, derive_snapshot_id
from hobus.bus.messages.ledger import Body, GetBody
from hobus.bus.peer import Peer
from hobus.bus.port import Clock
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve_link import CurveEnds, CurveLink, Happened
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot, compute_digest
from hobus.launch.cluster.endpoints import split_address
from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, RefusedFault, UnreachableFault
from hobus.launch.console.output import note
from hobus.launch.limits import JOIN_ANSWER_S, WATCH_INTERVAL_MS
from hobus.launch.worker.home import JoinedCluster, WorkerHome

NEW_TOKEN = "on the cluster's host: hobus token create"  # noqa: S105 - a sentence
_FIXES = {
    **dict.fromkeys(("token_expired", "token_used", "bad_token", "not_enrolled"), NEW_TOKEN),
    **dict.fromkeys(
        ("bad_version", "bad_protocol", "malformed"), "install the cluster's version of hobus here: hobus --version"
    ),
    "role_mismatch": f"{NEW_TOKEN}, then here: hobus worker join TOKEN --home DIR, a directory of its own",
    "name_taken": "another process works under this key: stop it, or join with a directory of its own (--home DIR)",
    "unavailable": "fix that on the cluster's host, then run the same command again",
}
"""What to do about each no of the broker."""


def make_not_let_in(ends: CurveEnds) -> CommandError:
    return RefusedFault(
        f"the cluster at {ends.address} refused the key {ends.pair.fingerprint}: "
        "nobody enrolled it there, or it was revoked",
        hint=f"{NEW_TOKEN}, then here, in a new directory: hobus worker join TOKEN --home DIR",
    )


def make_other_cluster(ends: CurveEnds) -> CommandError:
    return RefusedFault(
        f"the server at {ends.address} does not hold the cluster's key {curve.compute_fingerprint(ends.broker_key)}: "
        "another cluster listens there, its keys were replaced, or it is not a cluster",
        hint=f"{NEW_TOKEN}, and use that one",
    )


def make_refused(code: str, detail: str) -> CommandError:
    return RefusedFault(f"the cluster refused this worker ({code}): {detail}", hint=_FIXES.get(code, ""))


async def join(ends: CurveEnds, pair: curve.KeyPair, config: AdminConfig, *, clock: Clock, host: str) -> JoinedCluster:
    """Enrol this key by a token's, or by the one before. Raises CommandError: refused, or nobody answers."""
    wanted = Join(public_key=pair.public.decode(), role="ho1", version=__version__, protocol=HEADER_VERSION, host=host)
    heard: asyncio.Queue[Happened | tuple[bytes, bytes]] = asyncio.Queue()
    await _require_host(ends.address)
    zeromq, why = ZeroMQ(config.bus), ""
    link = CurveLink(zeromq, config.bus, ends, clock=clock, on_happened=heard.put_nowait)
    link.attach(lambda head, body: heard.put_nowait((head, body)))
    try:
        async with asyncio.timeout(config.launcher.client_timeout_ms / 1000) as limit:
            while True:
                event = await heard.get()
                if not isinstance(event, Happened):
                    if joined := _answer_in(*event):
                        return JoinedCluster(
                            address=ends.address, broker_key=ends.broker_key.decode(), name=joined.name
                        )
                elif event.what == "connected":
                    if not why:  # one of many is let in after the other: each is a synced write
                        limit.reschedule(asyncio.get_running_loop().time() + JOIN_ANSWER_S)
                    why = " (it let this worker in and then said nothing)"
                    link.send(pack_header(make_header(Kind.JOIN, "", type=Join.TYPE)), encode(wanted, BODY_MAX_BYTES))
                elif event.what == "refused":
                    raise make_not_let_in(ends)
                elif event.what == "no_handshake":
                    raise make_other_cluster(ends)
                elif event.why:
                    why = f" ({event.why})"
    except TimeoutError:
        raise UnreachableFault(
            f"nobody answers at {ends.address}{why}: no worker joined",
            hint="is the cluster up, does it listen there, does a firewall stand between? on its host: hobus ps",
        ) from None
    finally:
        link.close()
        zeromq.close()


async def _require_host(address: str) -> None:
    try:
        await asyncio.get_running_loop().getaddrinfo(*split_address(address))
    except OSError as error:
        raise UnreachableFault(f"{address} is no address that this host knows: {error.strerror}") from error


def _answer_in(head_bytes: bytes, body: bytes) -> Joined | None:
    """Return the broker's yes; None for anything that is no answer. Raises CommandError."""
    try:
        kind = unpack_header(head_bytes).type
        if kind == Refused.TYPE:
            said = decode(Refused, body, BODY_MAX_BYTES)
            raise make_refused(said.code, said.detail)
        return decode(Joined, body, BODY_MAX_BYTES) if kind == Joined.TYPE else None
    except BusError as fault:
        raise make_refused("malformed", fault.detail) from None


async def read_snapshot(peer: Peer, home: WorkerHome) -> Snapshot:
    """Return the configuration that the cluster runs under: kept here, or fetched over the bus and kept.

    Raises CommandError (integrity) for bytes that are not what their digest says; waits while the record is away.
    """
    digest = peer.cluster_digest
    kept = home.snapshot()
    if kept is not None and kept.digest == digest:
        return kept
    data = await _fetch(peer, digest)
    if compute_digest(data) != digest:
        raise CommandError(
            f"the configuration recorded as {digest} has other bytes: this worker does not use it",
            hint="on the cluster's host: hobus ledger verify",
            exit_code=exit_codes.INTEGRITY,
        )
    try:
        snapshot = Snapshot.from_bytes(data)
    except ConfigError as fault:
        raise CommandError(f"the configuration {digest}: {fault.detail}", exit_code=exit_codes.INTEGRITY) from None
    home.keep_snapshot(data)
    return snapshot


async def _fetch(peer: Peer, digest: str) -> bytes:
    question = GetBody(ref=derive_body_ref(derive_snapshot_id(digest), 0))
    timeout_s = LEDGER_REQUEST_TIMEOUT_MS / 1000
    has_said = False
    while True:
        try:
            return (await peer.request("ledger", question, expect=Body, timeout_s=timeout_s)).data
        except RuntimeFault as fault:
            # A cluster that has just started has not recorded its configuration yet.
            if not fault.retryable and fault.code != "not_found":
                raise
            if not has_said:
                note(f"the configuration is not there yet ({fault.code}): waiting for the cluster's record")
            has_said = True
        await peer.sleep(WATCH_INTERVAL_MS / 1000)
