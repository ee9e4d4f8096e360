"""A process is known by its pid together with its start mark."""

import os
import signal
import subprocess
import sys

from hobus.launch.cluster.identity import end, is_alive, is_stopped, start_mark


def test_a_living_process_has_one_unchanging_mark():
    mark = start_mark(os.getpid())
    assert mark is not None and mark == start_mark(os.getpid())
    assert is_alive(os.getpid(), mark)


def test_another_process_under_the_same_pid_is_never_meant():
    """A mark that does not fit is a stranger: not alive, not signalled."""
    assert not is_alive(os.getpid(), "other-boot:1")
    assert not end(os.getpid(), "other-boot:1", signal.SIGKILL)


def test_no_process_has_no_mark():
    """A pid beyond any, and the empty mark of a member without process."""
    assert start_mark(2**22 + 1) is None
    assert start_mark(0) is None
    assert not is_alive(os.getpid(), "")


def test_who_stands_still_after_a_sigstop_is_told_apart():
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_stopped(process.pid)
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED | os.WNOWAIT)
        assert not is_stopped(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert not is_stopped(process.pid)
