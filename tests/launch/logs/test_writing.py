"""Logs are for operators: that they cannot be written ends nothing."""

import os

from hobus.launch.logs.writing import LossyLines


def test_a_full_disk_costs_a_line_and_nothing_else():
    """Neither the write nor the flush fails, and what is written later arrives."""
    read_fd, write_fd = os.pipe()
    lines = LossyLines(write_fd)
    lines.write("one é\n")
    assert os.read(read_fd, 100) == "one é\n".encode()
    full = os.open("/dev/full", os.O_WRONLY)
    kept = os.dup(write_fd)
    os.dup2(full, write_fd)
    assert lines.write("lost\n") == 5
    lines.flush()
    os.dup2(kept, write_fd)
    lines.write("two\n")
    assert os.read(read_fd, 100) == b"two\n"
    for fd in (read_fd, write_fd, kept, full):
        os.close(fd)
