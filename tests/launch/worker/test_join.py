"""The configuration that a worker elsewhere works under is the one that its digest names, or it does not work."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.bus.messages.control import Refused
from hobus.bus.messages.ledger import Body
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.curve_link import CurveEnds
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import CommandError, UnreachableFault
from hobus.launch.worker.home import WorkerHome
from hobus.launch.worker.join import join, make_not_let_in, make_refused, read_snapshot

SNAPSHOT = shipped_snapshot()


class Record:
    """Stands where the peer stands: a cluster's digest, and answers to GetBody in turn."""

    def __init__(self, *answers: bytes | BusError, digest: str = SNAPSHOT.digest) -> None:
        self.cluster_digest = digest
        self.answers = list(answers)
        self.asked: list[str] = []

    async def request(self, _service: str, message: Any, **_: Any) -> Body:
        self.asked.append(message.ref)
        answer = self.answers.pop(0)
        if isinstance(answer, BusError):
            raise answer
        return Body(ref=message.ref, data=answer)

    async def sleep(self, _seconds: float) -> None:
        """At once."""


async def fetched(home: WorkerHome, record: Record) -> Any:
    return await read_snapshot(record, home)  # pyright: ignore[reportArgumentType]


async def test_it_is_fetched_once_checked_and_kept(tmp_path) -> None:
    """By the ref of its record; the next start asks nobody."""
    home, record = WorkerHome(make_home(tmp_path)), Record(SNAPSHOT.to_bytes())
    assert await fetched(home, record) == SNAPSHOT
    assert record.asked == [f"CONFIG_SNAPSHOT:{SNAPSHOT.digest}/0"]
    assert await fetched(home, Record()) == SNAPSHOT


async def test_a_record_that_is_away_or_not_written_yet_is_waited_for(tmp_path) -> None:
    """A cluster that has just started records its configuration a moment later."""
    record = Record(BusError("no_route", "nobody"), BusError("not_found", "not yet"), SNAPSHOT.to_bytes())
    assert await fetched(WorkerHome(make_home(tmp_path)), record) == SNAPSHOT


async def test_a_refusal_is_final(tmp_path) -> None:
    with pytest.raises(BusError, match="denied"):
        await fetched(WorkerHome(make_home(tmp_path)), Record(BusError("denied", "no")))


@pytest.mark.parametrize("wrong", [b"", b"garbage", SNAPSHOT.listening("bus", "127.0.0.1:1").to_bytes()])
async def test_bytes_that_do_not_match_the_digest_are_not_worked_under(tmp_path, wrong: bytes) -> None:
    home = WorkerHome(make_home(tmp_path))
    with pytest.raises(CommandError) as caught:
        await fetched(home, Record(wrong))
    assert caught.value.exit_code == 3
    assert home.snapshot() is None


async def test_a_host_that_nobody_knows_is_named_at_once(tmp_path) -> None:
    """Not after ten seconds, and not as a firewall."""
    home, pair = WorkerHome(make_home(tmp_path)), curve.draw_pair()
    ends = CurveEnds("no-such-host.invalid:5570", pair.public, pair)
    with pytest.raises(UnreachableFault, match="no address that this host knows") as caught:
        await join(ends, home.pair(), SNAPSHOT.config, clock=SystemClock(), host="here")
    assert (caught.value.exit_code, caught.value.hint) == (4, "")


def test_a_worker_whose_key_was_revoked_is_told_to_join_in_a_new_directory() -> None:
    pair = curve.draw_pair()
    assert "in a new directory" in make_not_let_in(CurveEnds("10.0.0.7:1", pair.public, pair)).hint


def test_every_refusal_of_the_broker_says_what_to_do() -> None:
    """But the one about the configuration, which a worker fixes by itself."""
    for code in get_args(get_type_hints(Refused)["code"]):
        assert bool(make_refused(code, "why").hint) == (code != "other_config"), code
