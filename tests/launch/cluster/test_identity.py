"""A process is known by its pid together with its start mark."""

import os
import signal

from hobus.launch.cluster.identity import end, is_alive, start_mark


def test_a_living_process_has_one_unchanging_mark():
    """The mark of this very process is the same at every look."""
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
