"""What a launcher shows of its cluster."""

import pytest
from msgspec.structs import replace

from hobus.launch.cluster import run_file
from hobus.launch.cluster.home import make_home, prepare
from hobus.launch.console import exit_codes
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan
from hobus.launch.launcher.restart_policy import CrashHistory
from hobus.launch.launcher.starting import show
from hobus.launch.launcher.status import Board, list_rows
from hobus.launch.launcher.supervision import Member

READY = Member(actor="ho1/1", role="ho1", state="ready", instance="ho1/1@a", pid=7, mark="m")
STARTING = replace(READY, actor="ho1/2", state="starting")


@pytest.fixture
def words():
    return []


@pytest.fixture
def board(tmp_path, words):
    home = make_home(tmp_path)
    prepare(home)
    plan = make_plan(home, StartOptions())
    return Board(home=home, plan=plan, started_at=100.0, report=words.append)


def test_readiness_is_reported_once_when_everybody_is_ready(board, words, tmp_path):
    """Nothing is said before, nothing again afterwards; the run file then says `running`."""
    board.report_readiness([READY, STARTING], 101.0)
    assert words == []
    board.report_readiness([READY, replace(STARTING, state="ready")], 101.5)
    board.report_readiness([READY, replace(STARTING, state="ready")], 102.0)
    assert [word.is_ready for word in words] == [True] and words[0].elapsed_ms == 1500
    written = run_file.read(tmp_path / "run" / "run.json")
    assert written is not None and written.directory_mark and written.phase == "running"
    assert written.model_copy(update={"directory_mark": ""}) == words[0].run


def test_damage_is_one_sentence_and_an_exit_code_of_its_own(board, words, capsys, tmp_path):
    """No log lines: the sentence names file and byte, the next command is verify."""
    (tmp_path / "logs" / "ledger-1.log").write_text("many\nlines\n")
    why = "damaged: segments/0.seg, byte 353: a body's mark is damaged"
    ledger = replace(READY, actor="ledger/1", role="ledger", state="failed", is_damaged=True, note=why)
    board.report_readiness([ledger, STARTING], 100.5)
    assert words[0].tails == {} and words[0].damaged == why
    assert show(make_home(tmp_path), words[0]) == exit_codes.INTEGRITY
    err = capsys.readouterr().err.splitlines()
    assert err[0] == f"error: {why}" and f"hobus ledger verify --home {tmp_path}" in err[1] and len(err) == 2


@pytest.mark.parametrize(
    ("state", "streak", "is_said"),
    [("failed", 1, True), ("backoff", 3, True), ("backoff", 2, False), ("starting", 9, False)],
)
def test_who_cannot_start_is_said_early(board, words, state, streak, is_said):
    """START_CRASHES crashes in a row, or given up: waiting longer would tell nothing."""
    board.report_readiness([READY, replace(STARTING, state=state, history=CrashHistory(streak=streak))], 100.5)
    assert bool(words) == is_said


def test_a_full_disk_does_not_end_the_cluster(board, tmp_path):
    """The run file cannot be written: the launcher goes on, and writes it when it can."""
    (tmp_path / "run").rename(tmp_path / "away")
    board.write([READY], "running")
    (tmp_path / "away").rename(tmp_path / "run")
    board.write([READY])
    written = run_file.read(tmp_path / "run" / "run.json")
    assert written is not None and written.children == [READY.row()] and written.phase == "running"


@pytest.mark.parametrize(
    ("broker", "seen"), [("ready", ("ready", "")), ("backoff", ("degraded", "the broker is not ready"))]
)
def test_each_is_shown_as_it_says_itself_while_there_is_a_broker_to_tell(broker, seen):
    """Who is not ready itself keeps its own state and note."""
    stopped = replace(READY, actor="ho1/2", state="stopped", note="drained")
    rows = list_rows([Member(actor="broker/1", role="broker", state=broker), READY, stopped])
    assert [(row.state, row.note) for row in rows] == [(broker, ""), seen, ("stopped", "drained")]
