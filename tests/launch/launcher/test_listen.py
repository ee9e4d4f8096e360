"""Where a cluster may listen, checked before anything is started."""

from __future__ import annotations

import socket

import pytest

from bench.builders import shipped_snapshot
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.endpoints import is_every_host, parts_of
from hobus.launch.cluster.home import home_of
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import check_free, make_plan


@pytest.mark.parametrize(
    "address", ["", "5570", "host", "host:", ":5570", "host:x", "host:99999", "a b:1", "::1:5", "tcp://h:1"]
)
def test_what_is_no_address_is_a_mistake_of_usage(address: str) -> None:
    """The sentence shows what was given and a good one."""
    with pytest.raises(CommandError) as caught:
        parts_of(address)
    assert (caught.value.exit_code, "HOST:PORT" in caught.value.message) == (2, True)


@pytest.mark.parametrize(
    ("address", "every"),
    [("127.0.0.1:0", False), ("worker.example:5570", False), ("[::1]:1", False), ("0.0.0.0:1", True), ("*:1", True)],
)
def test_addresses(address: str, every: bool) -> None:
    """Names, numbers, IPv6 in brackets; those that mean every address are known."""
    assert parts_of(address)[1] == int(address.rpartition(":")[2])
    assert is_every_host(address) == every


def test_a_port_in_use_and_a_name_of_nobody_are_said_before_the_start() -> None:
    """Exit 4 with the address and the fix; a free one passes."""
    check_free("127.0.0.1:0", "--listen")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CommandError) as caught:
            check_free(f"127.0.0.1:{taken.getsockname()[1]}", "--listen")
    assert (caught.value.exit_code, "port 0" in caught.value.hint) == (4, True)
    with pytest.raises(CommandError):
        check_free("198.51.100.1:1", "--listen")  # nobody's address here


def test_the_option_stands_for_the_setting_and_changes_nothing_else(tmp_path) -> None:
    """The snapshot's own `bus.listen`, under its own digest, and the same again as bytes."""
    shipped = shipped_snapshot()
    home = home_of(tmp_path)
    snapshot = make_plan(home, StartOptions(listen="127.0.0.1:0")).snapshot
    assert snapshot.config.bus.listen == "127.0.0.1:0"
    assert snapshot.digest != shipped.digest
    assert Snapshot.from_bytes(snapshot.to_bytes()) == snapshot
    assert snapshot.listening("bus", "") == shipped
    assert make_plan(home, StartOptions()).snapshot.config.bus.listen == ""


def test_the_bound_address_is_the_broker_s_word(tmp_path) -> None:
    """None before it has said so."""
    home = home_of(tmp_path)
    assert home.bound() == ""
    home.run.mkdir()
    home.listening.write_text("127.0.0.1:41817\n")
    assert home.bound() == "127.0.0.1:41817"
