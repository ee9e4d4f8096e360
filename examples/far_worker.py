"""A worker on another host joins; here it is another directory. Shows: token create, worker join. Prints: its name.

On two machines `--listen` names an address that the other one reaches; keys are exchanged by the one-time token.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def hobus(*words: str) -> str:
    """Return what a command prints."""
    done = subprocess.run([sys.executable, "-m", "hobus", *words], capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        home, far = str(Path(directory) / "home"), str(Path(directory) / "far")
        hobus("up", "--home", home, "--wait", "--detach", "--listen", "127.0.0.1:0")
        try:
            token = json.loads(hobus("token", "create", "--home", home, "--role", "ho1", "--ttl", "10m", "--json"))[
                "token"
            ]
            join = [sys.executable, "-m", "hobus", "worker", "join", "--home", far, token]
            worker = subprocess.Popen(join, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                far_ones: list[str] = []
                while not far_ones:
                    actors = json.loads(hobus("ps", "--home", home, "--json"))["actors"]
                    far_ones = [one["actor"] for one in actors if "remote" in one["actor"]]
                    time.sleep(0.2)
                print(*far_ones, "joined")
            finally:
                worker.terminate()
                worker.wait()
        finally:
            hobus("down", "--home", home)
