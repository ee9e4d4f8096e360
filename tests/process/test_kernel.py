"""What is asked of the kernel for memory's sake."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
import hashlib, json
import pydantic
from hobus.config.json_schema import validator_of
from hobus.launch.cluster.kernel import give_back_code, mappings

def held():
    sizes, counted = {}, False
    for line in open("/proc/self/smaps"):
        words = line.split()
        if not words[0].endswith(":"):
            counted = words[1] == "r-xp" and len(words) > 5 and words[5].startswith("/")
        elif words[0] == "Rss:" and counted:
            sizes["rss"] = sizes.get("rss", 0) + int(words[1])
    return sizes.get("rss", 0)

def works():
    assert not validator_of({"type": "object", "required": ["a"]}).is_valid({})
    assert pydantic.TypeAdapter(list[int]).validate_python(["1"]) == [1]
    return hashlib.sha256(b"x").hexdigest()

before, said = held(), works()
assert {one.file for one in mappings(b"r-xp") if b"jsonschema_rs" in one.file}
give_back_code()
print(json.dumps([before, held(), works() == said]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of mappings in /proc")
def test_code_that_was_run_is_given_back_and_runs_again():
    """Most of it goes, and everything works as before."""
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=True)
    before, after, is_as_before = json.loads(done.stdout)
    assert after < before / 2 and is_as_before
