"""Log files: read, followed, moved aside."""

import json
import os

from hobus.launch.logs.files import LogFiles
from hobus.launch.logs.tail import tail
from hobus.launch.logs.writing import LossyLines


def record(number, at=0):
    return json.dumps({"event": "e", "n": number, "at": f"2026-11-22T01:02:{at:02}.000000Z"}) + "\n"


def numbers(lines):
    return [line.record.get("n", line.text) for line in lines]


def test_new_lines_new_files_and_unfinished_lines(tmp_path):
    """Each line is given once, whole, in the order of time over all files."""
    files = LogFiles(tmp_path)
    assert files.more() == []
    one, two = tmp_path / "ho1-1.log", tmp_path / "ho2-1.log"
    one.write_text(record(1, 1) + record(3, 3) + record(5, 5)[:9])
    two.write_text(record(2, 2))
    found = files.more()
    assert numbers(found) == [1, 2, 3] and [line.actor for line in found] == ["ho1/1", "ho2/1", "ho1/1"]
    assert files.more() == []
    with one.open("a") as file:
        file.write(record(5, 5)[9:])
    (tmp_path / "launcher.log").write_text(record(4, 4) + "Traceback\n")
    assert numbers(files.more()) == [4, "Traceback", 5]


def test_a_file_is_moved_aside_and_the_reader_loses_nothing(tmp_path):
    """The writer keeps one older file; a reader in between finishes that one first."""
    path = tmp_path / "ho1-1.log"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    lines = LossyLines(fd)
    lines.limit(path, 3 * len(record(1)))
    files = LogFiles(tmp_path)
    seen = []
    for number in range(1, 9):
        lines.write(record(number, number))
        if number % 2:
            seen += numbers(files.more())
    seen += numbers(files.more())
    assert seen == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ho1-1.log", "ho1-1.log.1"]
    assert numbers(LogFiles(tmp_path).older()) == [4, 5, 6]
    assert path.stat().st_size == 2 * len(record(1))
    assert len(tail(path, 10, start=10**6)) == 2
    os.close(fd)
