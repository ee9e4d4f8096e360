"""Where a cluster may listen, checked before anything is started."""

from __future__ import annotations

import socket

import pytest

from hobus.launch.cluster.endpoints import is_every_host, split_address
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.plan import check_free


@pytest.mark.parametrize(
    ("address", "every"),
    [("127.0.0.1:0", False), ("worker.example:5570", False), ("[::1]:1", False), ("0.0.0.0:1", True), ("*:1", True)],
)
def test_addresses(address: str, every: bool) -> None:
    """Names, numbers, IPv6 in brackets; those that mean every address are known."""
    assert split_address(address)[1] == int(address.rpartition(":")[2])
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


def test_the_bound_address_is_the_broker_s_word(tmp_path) -> None:
    home = make_home(tmp_path)
    assert home.bound() == ""
    home.run.mkdir()
    home.listening.write_text("127.0.0.1:41817\n")
    assert home.bound() == "127.0.0.1:41817"
