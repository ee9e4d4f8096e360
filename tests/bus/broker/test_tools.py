"""An order that needs a tool goes to a worker that announced it; the others do not get in its way, nor it in theirs."""

from __future__ import annotations

import pytest

from hobus.bus.codec import decode
from hobus.bus.envelope import Kind, make_header
from hobus.bus.messages.control import AnnounceTools, ReadPeers, ReadTools, Tools, ToolSource, ToolWord
from tests.bus.broker.rig import BIG, Rig

GRACE_S = Rig().settings.service_grace_ms / 1000


@pytest.fixture
def ho2(rig):
    """Who sends orders."""
    return rig.client("ho2/1@a")


def test_only_workers_that_announced_the_tool_get_the_order(rig, ho2):
    """However idle the other is, and however the order came to wait."""
    local = rig.worker("ho1/1@a", slots=1, tools=["verify", "list"])
    remote = rig.worker("ho1/remote-1@a", slots=8, tools=["list"])
    for number in range(3):
        rig.order(ho2, f"V-{number}", key="verify")
    assert (rig.requests(local), rig.requests(remote)) == (["V-0"], [])
    for number in range(3):
        rig.order(ho2, f"L-{number}", key="list")
    assert (rig.requests(local), rig.requests(remote)) == ([], ["L-0", "L-1", "L-2"])
    rig.order(ho2, "M-0")
    assert rig.requests(remote) == ["M-0"]
    for number in range(3):
        rig.reply(local, f"V-{number}")
    assert rig.answers(ho2) == [("V-0", ""), ("V-1", ""), ("V-2", "")]
    assert rig.requests(local) == ["V-1", "V-2"]


def test_least_loaded_among_those_that_can(rig, ho2):
    workers = [rig.worker(f"ho1/{n}@a", slots=2, tools=["list"]) for n in range(2)]
    for number in range(4):
        rig.order(ho2, f"L-{number}", key="list")
    assert [len(rig.requests(worker)) for worker in workers] == [2, 2]
    assert [row.keys for row in _peers(rig) if row.role == "ho1"] == [0, 0]


def test_an_order_whose_tool_nobody_has_fails_after_the_grace_naming_it(rig, ho2):
    """Typed, final, and not before: a worker that has it may be starting."""
    rig.worker("ho1/1@a", tools=["list"])
    rig.order(ho2, "V-1", key="verify")
    rig.advance(GRACE_S - 0.01)
    assert rig.got(ho2) == []
    rig.advance(0.02)
    (got,) = rig.got(ho2)
    assert (got.failure.code, got.failure.retryable) == ("no_route", False)
    assert "verify" in got.failure.detail


def test_an_order_that_waits_for_its_tool_holds_up_nobody_and_goes_to_the_first_who_has_it(rig, ho2):
    """A worker without the tool is served as ever; one that comes with it gets what waits."""
    other = rig.worker("ho1/1@a", slots=1, tools=["list"])
    rig.order(ho2, "V-1", key="verify")
    rig.order(ho2, "L-1", key="list")
    rig.order(ho2, "L-2", key="list")
    rig.reply(other, "L-1")
    assert rig.requests(other) == ["L-1", "L-2"]
    rig.advance(GRACE_S / 2)
    late = rig.worker("ho1/2@a", state="starting", tools=["verify"])
    rig.advance(GRACE_S)
    rig.ready(late)
    assert rig.requests(late) == ["V-1"]
    assert [code for _, code in rig.answers(ho2)] == [""]


@pytest.mark.parametrize("how", ["lost", "draining", "say_bye"])
def test_the_grace_begins_when_the_last_one_that_had_the_tool_leaves(rig, ho2, how):
    """It had no room and went: what waits for it waits the whole grace for another."""
    able = rig.worker("ho1/1@a", slots=1, tools=["verify"])
    rig.worker("ho1/2@a", tools=["list"])
    rig.order(ho2, "V-1", key="verify")
    rig.order(ho2, "V-2", key="verify")
    rig.advance(2 * GRACE_S)
    rig.got(ho2)
    if how == "draining":
        rig.ready(able, "draining")
        rig.advance(2 * GRACE_S)
        assert rig.got(ho2) == [], "it may end what it has, and come back"
    getattr(rig, "lost" if how == "lost" else "say_bye")(able)
    rig.silent.add(able)
    rig.advance(GRACE_S - 0.01)
    assert rig.got(ho2) == []
    rig.advance(0.02)
    assert ("V-2", "no_route") in rig.answers(ho2)


def test_work_of_a_lost_worker_is_redelivered_to_one_with_the_tool(rig, ho2):
    first = rig.worker("ho1/1@a", tools=["verify"])
    rig.order(ho2, "V-1", key="verify")
    without = rig.worker("ho1/2@a", tools=["list"])
    second = rig.worker("ho1/3@a", tools=["verify"])
    rig.lost(first)
    assert (rig.requests(without), rig.requests(second)) == ([], ["V-1"])


def test_a_restarted_broker_collects_before_it_judges():
    rig = Rig(reannounce_grace_ms=300)
    ho2 = rig.client("ho2/1@a")
    rig.order(ho2, "V-1", key="verify")
    rig.worker("ho1/1@a", tools=["list"])
    able = rig.worker("ho1/2@a", tools=["verify"])
    assert rig.requests(able) == []
    rig.advance(0.4)
    assert rig.requests(able) == ["V-1"]


def test_without_any_worker_the_service_is_what_is_missing(rig, ho2):
    rig.order(ho2, "V-1", key="verify")
    rig.advance(GRACE_S + 0.1)
    (got,) = rig.got(ho2)
    assert got.failure.code == "no_route"


def _peers(rig):
    return rig.core._operations._read_peers(ReadPeers()).peers


def announcement(*tools: str, **source: str) -> AnnounceTools:
    """What a worker says when its tools have changed."""
    words = [
        ToolWord(tool_id=tool, source="files", description=tool, parameters="{}", idempotent=True, writes=False)
        for tool in tools
    ]
    fields = {"name": "files", "kind": "mcp", "state": "ready"} | source
    return AnnounceTools(tools=words, sources=[ToolSource.model_validate(fields)])


def test_a_tool_that_comes_after_the_hello_gets_what_waits_for_it(rig, ho2):
    """A worker is there before the servers that it has tools from."""
    worker = rig.worker("ho1/1@a", slots=4, tools=["list"])
    rig.order(ho2, "V-1", key="verify")
    rig.advance(GRACE_S / 2)
    assert rig.requests(worker) == []
    rig.control(worker, Kind.TOOLS, announcement("list", "verify"))
    assert rig.requests(worker) == ["V-1"]


def test_a_call_waits_for_a_server_that_a_worker_still_starts(rig, ho2):
    """Begun at a worker that died, it is not given up while its successor connects to the server, however slowly."""
    first = rig.worker("ho1/1@a", tools=["files__read"])
    rig.order(ho2, "V-1", key="files__read")
    assert rig.requests(first) == ["V-1"]
    rig.say_bye(first)
    second = rig.worker("ho1/1@b", tools=["list"])
    rig.control(second, Kind.TOOLS, announcement("list", state="starting"))
    rig.advance(5 * GRACE_S)
    assert rig.got(ho2) == []
    rig.control(second, Kind.TOOLS, announcement("list", "files__read"))
    assert rig.requests(second) == ["V-1"]


@pytest.mark.parametrize(
    ("tool", "then"),
    [
        ("files__read", {"state": "failed"}),  # the server cannot be reached
        ("files__read", {"state": "ready"}),  # it does not list it
        ("other__read", {"state": "starting"}),  # of another server, which is not on its way
        ("verify", {"state": "starting"}),  # no server's
    ],
)
def test_nobody_waits_longer_than_the_grace_for_what_no_start_can_bring(rig, ho2, tool, then):
    """As far as workers have told: a server that failed, has not the tool, or is another one."""
    worker = rig.worker("ho1/1@a", tools=["list"])
    rig.control(worker, Kind.TOOLS, announcement("list", state="starting"))
    rig.order(ho2, "V-1", key=tool)
    rig.advance(GRACE_S / 2)
    rig.control(worker, Kind.TOOLS, announcement("list", **then))
    rig.advance(GRACE_S / 2 + 0.01)
    (got,) = rig.got(ho2)
    assert (got.failure.code, got.failure.retryable) == ("no_route", False)


def test_a_server_that_never_comes_is_said_before_the_deadline(rig, ho2):
    """What ran over its time would be told as that; that its worker had begun it is worth more."""
    first = rig.worker("ho1/1@a", tools=["files__read"])
    rig.order(ho2, "V-1", key="files__read", deadline_ms=int(4 * GRACE_S * 1000))
    rig.say_bye(first)
    second = rig.worker("ho1/1@b", tools=["list"])
    rig.control(second, Kind.TOOLS, announcement("list", state="starting"))
    rig.advance(4 * GRACE_S)
    (got,) = rig.got(ho2)
    assert (got.failure.code, got.failure.retryable) == ("peer_lost", False)


def test_a_tool_that_goes_takes_what_waits_for_it_elsewhere(rig, ho2):
    """Its queue is looked at anew: whoever else has the tool gets the order, else the grace begins."""
    first = rig.worker("ho1/1@a", slots=1, tools=["verify"])
    rig.order(ho2, "V-1", key="verify")
    rig.order(ho2, "V-2", key="verify")
    assert rig.requests(first) == ["V-1"]
    rig.control(first, Kind.TOOLS, announcement("list"))
    rig.reply(first, "V-1")
    assert rig.requests(first) == []
    rig.advance(GRACE_S + 0.1)
    answers = [got for got in rig.got(ho2) if got.header.correlation_id == "V-2"]
    assert answers[-1].failure.code == "no_route"


def test_an_order_whose_worker_died_and_whose_tool_nobody_has_is_lost_and_not_unknown_to_all(rig, ho2):
    """That it was delivered before is said: the tool may have run."""
    first = rig.worker("ho1/1@a", tools=["verify"])
    rig.order(ho2, "V-1", key="verify")
    assert rig.requests(first) == ["V-1"]
    rig.worker("ho1/2@a", tools=["list"])
    rig.say_bye(first)
    rig.advance(GRACE_S + 0.1)
    answers = [got for got in rig.got(ho2) if got.header.correlation_id == "V-1"]
    assert (answers[-1].failure.code, answers[-1].failure.retryable) == ("peer_lost", False)


def test_the_broker_tells_each_tool_once_with_all_its_workers_and_every_source(rig, ho2):
    for name in ("ho1/2@a", "ho1/1@a"):
        rig.control(rig.worker(name), Kind.TOOLS, announcement("verify", "list", detail=f"of {name}"))
    operator = rig.client("operator/1@a")
    told = decode(Tools, rig.call(operator, "r1", ReadTools()).body, BIG)
    assert [(row.tool_id, row.workers) for row in told.tools] == [
        ("list", ["ho1/1@a", "ho1/2@a"]),
        ("verify", ["ho1/1@a", "ho1/2@a"]),
    ]
    assert [(row.instance, row.detail) for row in told.sources] == [
        ("ho1/1@a", "of ho1/1@a"),
        ("ho1/2@a", "of ho1/2@a"),
    ]
    rig.worker("ho1/1@a", tools=["verify"])
    told = decode(Tools, rig.call(operator, "r2", ReadTools()).body, BIG)
    assert [row.workers for row in told.tools] == [["ho1/2@a"], ["ho1/2@a"]]


def test_an_announcement_that_is_none_changes_nothing(rig, ho2):
    worker = rig.worker("ho1/1@a", tools=["verify"])
    rig.frame(worker, make_header(Kind.TOOLS, "", type=AnnounceTools.TYPE), b"\x81\xa5tools\x01")
    rig.order(ho2, "V-1", key="verify")
    assert rig.requests(worker) == ["V-1"]
    assert rig.core._state.counts["malformed"] == 1


def test_calls_for_one_holder_at_one_server_go_to_one_worker(rig, ho2):
    """Whatever tool of it they need, however busy that worker is; another holder, or server, is another matter."""
    tools = ["browser__open", "browser__read", "shell__run"]
    workers = {name: rig.worker(name, slots=2, tools=tools) for name in ("ho1/1@a", "ho1/2@a")}
    for number in range(4):
        rig.order(ho2, f"A-{number}", key=f"browser__{'open' if number % 2 else 'read'} session-a")
    got = {name: rig.requests(worker) for name, worker in workers.items()}
    assert sorted(got.values()) == [[], ["A-0", "A-1"]]
    (mine,) = [name for name, requests in got.items() if requests]
    (other,) = set(workers) - {mine}
    for number in range(2):
        rig.reply(workers[mine], f"A-{number}")
    assert (rig.requests(workers[mine]), rig.requests(workers[other])) == (["A-2", "A-3"], [])
    for number in range(20):
        rig.order(ho2, f"B-{number}", key=f"browser__open session-{number}")
    assert rig.requests(workers[other]), "twenty holders, and none at the other worker"


@pytest.mark.parametrize("how", ["lost", "withdrawn"])
def test_when_its_worker_is_gone_a_holder_gets_another(rig, ho2, how):
    """Who waited for that one too; a broker that starts anew chooses as before."""
    workers = {name: rig.worker(name, slots=1, tools=["browser__open"]) for name in ("ho1/1@a", "ho1/2@a")}
    for number in range(2):
        rig.order(ho2, f"A-{number}", key="browser__open session-a")
    (mine,) = [name for name, worker in workers.items() if rig.requests(worker) == ["A-0"]]
    (other,) = set(workers) - {mine}
    if how == "lost":
        rig.lost(workers[mine])
        assert rig.requests(workers[other]) == ["A-0"]
        rig.reply(workers[other], "A-0")
    else:
        rig.control(workers[mine], Kind.TOOLS, announcement())
        rig.reply(workers[mine], "A-0")
    assert rig.requests(workers[other]) == ["A-1"]
    again = Rig()
    workers = {name: again.worker(name, slots=2, tools=["browser__open"]) for name in ("ho1/2@b", "ho1/1@b")}
    again.order(again.client("ho2/1@a"), "A-0", key="browser__open session-a")
    assert again.requests(workers[mine.replace("@a", "@b")]) == ["A-0"]
