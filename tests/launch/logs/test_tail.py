"""What a log tells of the process that wrote its end."""

import json

import pytest

from hobus.launch.cluster.home import make_home, prepare
from hobus.launch.logs.tail import find_reason, measure_log, read_incarnation, tail


def line(**fields):
    return json.dumps({"event": "process_failed", "level": "error"} | fields) + "\n"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "ledger-1.log"
    path.write_text(line(reason="of an earlier run"))
    return path


def append(path, text):
    begins_at = measure_log(path)
    path.write_text(path.read_text() + text)
    return begins_at


def test_only_lines_of_this_run_are_shown(log):
    """Nothing before the byte at which this run's writer began, also when more lines are asked for."""
    begins_at = append(log, "one\ntwo\n")
    assert tail(log, 20, start=begins_at) == ["one", "two"]
    assert tail(log, 1, start=begins_at) == ["two"]
    assert len(tail(log, 20)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (line(reason="damaged: segments/0.seg, byte 353: x"), "damaged: segments/0.seg, byte 353: x"),
        (line(code="disk_full", detail="5 bytes are free"), "disk_full: 5 bytes are free"),
        (line(reason="first") + line(reason="last") + line(reason="ending", level="info"), "last"),
        ("Traceback (most recent call last):\n  File x\nImportError: no module\n", "ImportError: no module"),
        ("  | Traceback:\n  +-+---------------- 1 ----\n    | OSError: no\n    +------\n", "OSError: no"),
        (line(level="warning", reason="odd"), ""),
        ('{"torn": \n[1]\n' + line(level="info"), ""),
        ("[" * 100_000 + "\n", "[" * 299 + "…"),
        ("", ""),
    ],
)
def test_a_process_says_why_it_ended(log, text, said):
    """Its last error record, or the last line of a traceback; never the words of an earlier run."""
    assert find_reason(log, start=append(log, text)) == said


def test_only_this_incarnations_lines_in_the_form_for_people(tmp_path):
    """Lines of earlier ones are left out, a traceback stays, and no line is JSON."""
    home = make_home(tmp_path)
    prepare(home)
    log = (
        line(event="earlier", instance="ho1/1@a")
        + "Traceback of a\n"
        + line(event="later", instance="ho1/1@b")
        + "ValueError: b\n"
    )
    home.log("ho1/1").write_text(log)
    first, second = read_incarnation(home.log("ho1/1"), "ho1/1", "ho1/1@b", 20)
    assert "error later" in first and second.endswith("ValueError: b")
    assert "{" not in first + second and "earlier" not in first + second
    assert read_incarnation(home.log("ho1/2"), "ho1/2", "ho1/2@a", 20) == []
