"""What is asked of Linux and its C library."""

import subprocess
import sys

import pytest

HOLED = """
import psutil
from hobus.launch.cluster.kernel import return_free_memory

def own_mb():
    return psutil.Process().memory_full_info().uss / 1e6

before = own_mb()
pieces = [bytes(4000) for _ in range(10_000)]
kept = pieces[::50]
del pieces
holed = own_mb()
return_free_memory()
print(before, holed, own_mb())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone keeps it")
def test_what_is_free_between_pieces_in_use_is_returned():
    """40 MB, of which a fiftieth stays in use, everywhere among the others."""
    said = subprocess.run([sys.executable, "-c", HOLED], check=True, capture_output=True, text=True).stdout
    before, holed, after = map(float, said.split())
    assert holed - before > 30 and after - before < 15, said
