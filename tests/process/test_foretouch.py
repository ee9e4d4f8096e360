"""Memory that siblings wrote to is made a waiting process's own: what three quarters of them wrote to, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
import ctypes, json, mmap, os
from hobus.launch.launcher.foretouch import Area, foretouch, own_pages

PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 64 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(64):
    memory[page * PAGE] = 1
area = Area(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 64)

def own():
    (count,) = own_pages(os.getpid(), [area])
    return [page for page in range(64) if count >> 8 * page & 1]

def forked(pages):
    said, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        for page in pages:
            memory[page * PAGE] = 2
        os.write(tell, b"done")
        os.read(held, 1)
        os._exit(0)
    os.read(said, 4)
    return pid

held, hold = os.pipe()
siblings = [forked([3, 4, 5, 60]), forked([3, 4, 5, 6]), forked([4, 5, 6, 7]), forked([])]
gone = os.fork()
if gone == 0:
    os._exit(0)
os.waitpid(gone, 0)
said, tell = os.pipe()
if os.fork() == 0:
    shared = own()
    touched = foretouch([*siblings, gone])
    os.write(tell, json.dumps([shared, touched, own(), [memory[page * PAGE] for page in (4, 5, 7)]]).encode())
    os._exit(0)
print(os.read(said, 65536).decode())
os.write(hold, b"....")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of pages in /proc")
def test_what_most_of_the_siblings_wrote_to_is_the_process_s_own():
    """Of four, one of which wrote nothing; one that is gone has no say; what stands in the pages stays as it was."""
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=True)
    shared, touched, own, content = json.loads(done.stdout)
    if not set(own) - set(shared):
        pytest.skip("a kernel before Linux 5.14 makes no page a process's own on demand")
    assert not {4, 5}.intersection(shared)
    assert {4, 5}.issubset(own) and not {3, 6, 7, 60}.intersection(own)
    assert touched >= 2 and content == [1, 1, 1]


def test_without_siblings_nothing_is_touched():
    """None that lives."""
    program = "from hobus.launch.launcher.foretouch import foretouch; print(foretouch([]), foretouch([2**22 + 1]))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0"]
